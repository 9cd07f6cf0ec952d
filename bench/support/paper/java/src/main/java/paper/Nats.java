package paper;

import io.nats.client.Connection;
import io.nats.client.JetStream;
import io.nats.client.JetStreamSubscription;
import io.nats.client.Message;
import io.nats.client.Options;
import io.nats.client.PullSubscribeOptions;
import io.nats.client.api.AckPolicy;
import io.nats.client.api.ConsumerConfiguration;
import io.nats.client.api.StorageType;
import io.nats.client.api.StreamConfiguration;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;

/** NATS JetStream: a stream in files, publishes awaited in a window, a pull consumer without acks. */
final class Nats implements Client {
    /** Messages sent and not acknowledged yet. */
    private static final int WINDOW = 5000;

    private final String server;

    Nats(String server) {
        this.server = "nats://" + server;
    }

    private Connection connect() throws Exception {
        return io.nats.client.Nats.connect(new Options.Builder().server(server).build());
    }

    @Override
    public void produce(Job job, Meter meter) throws Exception {
        try (Connection connection = connect()) {
            connection.jetStreamManagement().addStream(StreamConfiguration.builder()
                    .name(job.topic()).subjects(job.topic()).storageType(StorageType.File).build());
            JetStream stream = connection.jetStream();
            Semaphore room = new Semaphore(WINDOW);
            AtomicReference<Throwable> failure = new AtomicReference<>();
            byte[] value = job.value();
            meter.begin();
            for (int i = 0; i < job.count(); i++) {
                room.acquire();
                stream.publishAsync(job.topic(), value).whenComplete((ack, error) -> {
                    if (error != null) {
                        failure.set(error);
                    }
                    room.release();
                });
                meter.add(job.size());
            }
            room.acquire(WINDOW);
            meter.end();
            if (failure.get() != null) {
                throw new IllegalStateException(failure.get());
            }
        }
    }

    @Override
    public void consume(Job job, Meter meter) throws Exception {
        try (Connection connection = connect()) {
            JetStreamSubscription subscription = connection.jetStream().subscribe(job.topic(),
                    PullSubscribeOptions.builder().configuration(
                            ConsumerConfiguration.builder().ackPolicy(AckPolicy.None).build()).build());
            meter.begin();
            while (!meter.done()) {
                read(subscription.fetch(Job.PREFETCH, Duration.ofSeconds(1)), meter);
            }
            if (!job.topic().equals("warm")) {
                read(subscription.fetch(1, Duration.ofMillis(Job.SURPLUS_MS)), meter);
            }
        }
    }

    private static void read(List<Message> messages, Meter meter) {
        for (Message each : messages) {
            meter.add(each.getData().length);
        }
    }
}
