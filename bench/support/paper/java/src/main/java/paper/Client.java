package paper;

/** What one product's client does: produce and consume {@code job.count} messages. */
interface Client {
    /** Send the messages; return when the broker has accepted all of them. */
    void produce(Job job, Meter meter) throws Exception;

    /** Read until the meter has counted all messages, and a moment longer: to see any more. */
    void consume(Job job, Meter meter) throws Exception;
}
