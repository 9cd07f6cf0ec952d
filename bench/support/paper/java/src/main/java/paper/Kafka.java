package paper;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Apache Kafka's client, one partition, acks=1 without idempotence: as close to the paper as acks are. */
final class Kafka implements Client {
    /** Long enough that batches are full on a busy machine, too. */
    private static final int LINGER_MS = 50;
    /** Small: what waits in it is not sent yet, and would make the first part of a run look fast. */
    private static final long BUFFER = 4L << 20;
    /** Bytes of a batch before its records, of a record beside its value: at most, and as estimated. */
    private static final int HEAD = 61;
    private static final int RECORD = 11;
    private static final int LARGEST_RECORD = 21;

    private final String servers;

    Kafka(String servers) {
        this.servers = servers;
    }

    @Override
    public void produce(Job job, Meter meter) throws Exception {
        // A batch is limited in bytes: the largest that fits `batch` records, and not one more.
        int bytes = job.batch() == 1 ? 1
                : HEAD + (job.batch() - 1) * (job.size() + RECORD) + job.size() + LARGEST_RECORD + 4;
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers, "acks", "1", "enable.idempotence", false,
                "linger.ms", job.batch() == 1 ? 0 : LINGER_MS, "batch.size", bytes,
                "buffer.memory", BUFFER, "max.in.flight.requests.per.connection", 5);
        AtomicReference<Exception> failure = new AtomicReference<>();
        byte[] value = job.value();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.partitionsFor(job.topic());
            meter.begin();
            for (int i = 0; i < job.count(); i++) {
                producer.send(new ProducerRecord<>(job.topic(), 0, null, value), (metadata, error) -> {
                    if (error != null) {
                        failure.set(error);
                    }
                });
                meter.add(job.size());
            }
            producer.flush();
            meter.end();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }

    @Override
    public void consume(Job job, Meter meter) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers, "enable.auto.commit", false, "auto.offset.reset", "earliest",
                "max.partition.fetch.bytes", Job.PREFETCH * job.size(), "max.poll.records", Job.PREFETCH);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition place = new TopicPartition(job.topic(), 0);
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            consumer.position(place);
            meter.begin();
            while (!meter.done()) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofSeconds(10))) {
                    meter.add(each.value().length);
                }
            }
            if (!job.topic().equals("warm")) {
                consumer.poll(Duration.ofMillis(Job.SURPLUS_MS)).forEach(each -> meter.add(each.value().length));
            }
        }
    }
}
