package paper;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Semaphore;

/**
 * RabbitMQ's client. A durable lazy classic queue, persistent messages, confirms that are awaited
 * in a window; a consumer with automatic acknowledgement.
 */
final class RabbitMq implements Client {
    /** Messages sent and not confirmed yet. */
    private static final int WINDOW = 5000;

    private final ConnectionFactory factory = new ConnectionFactory();

    RabbitMq(String server) {
        String[] parts = server.split(":");
        factory.setHost(parts[0]);
        factory.setPort(Integer.parseInt(parts[1]));
    }

    private static void declare(Channel channel, Job job) throws Exception {
        channel.queueDeclare(job.topic(), true, false, false, Map.of("x-queue-mode", "lazy"));
    }

    @Override
    public void produce(Job job, Meter meter) throws Exception {
        try (Connection connection = factory.newConnection(); Channel channel = connection.createChannel()) {
            declare(channel, job);
            channel.confirmSelect();
            Semaphore room = new Semaphore(WINDOW);
            Confirms confirms = new Confirms(room);
            channel.addConfirmListener(confirms::acked, (tag, multiple) -> confirms.refused = true);
            byte[] value = job.value();
            meter.begin();
            for (int i = 0; i < job.count(); i++) {
                room.acquire();
                channel.basicPublish("", job.topic(), MessageProperties.MINIMAL_PERSISTENT_BASIC, value);
                meter.add(job.size());
            }
            room.acquire(WINDOW);
            meter.end();
            if (confirms.refused) {
                throw new IllegalStateException("RabbitMQ refused a message");
            }
        }
    }

    @Override
    public void consume(Job job, Meter meter) throws Exception {
        try (Connection connection = factory.newConnection(); Channel channel = connection.createChannel()) {
            declare(channel, job);
            meter.begin();
            channel.basicConsume(job.topic(), true, (tag, delivery) -> meter.add(delivery.getBody().length), tag -> { });
            while (!meter.done()) {
                Thread.sleep(20);
            }
            Thread.sleep(Job.SURPLUS_MS);
        }
    }

    /** The tags that are confirmed: all up to {@code low}, and single ones above it. */
    private static final class Confirms {
        private final Semaphore room;
        private final TreeSet<Long> single = new TreeSet<>();
        private long low;
        private volatile boolean refused;

        Confirms(Semaphore room) {
            this.room = room;
        }

        void acked(long tag, boolean multiple) {
            if (!multiple) {
                single.add(tag);
                room.release();
                while (single.remove(low + 1)) {
                    low++;
                }
                return;
            }
            var before = single.headSet(tag, true);
            int already = before.size();
            before.clear();
            // What was confirmed singly before is not counted twice.
            room.release((int) Math.max(0, tag - low - already));
            low = Math.max(low, tag);
        }
    }
}
