package foreign;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends numbers to partition 0 of a topic and reads them as the one member of a group, until a line
 * comes by standard input: then it settles what is under way, reads all that was acknowledged,
 * stores its position and ends. Both clients are in their defaults (acks=all, idempotence) but for the age of
 * their metadata.
 *
 * <p>Prints what happens, a line each: {@code sent VALUE}, {@code acked VALUE OFFSET}, {@code failed
 * VALUE WHY}, {@code assigned}, {@code polled OFFSET:VALUE ...}, {@code committed OFFSET}, {@code
 * error WHY}, {@code end}.
 *
 * <p>Arguments: bootstrap servers, topic, name in front of the numbers, milliseconds between two,
 * metadata.max.age.ms.
 */
public final class Failover {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final long SETTLE_NANOS = 90_000_000_000L;

    private final String servers;
    private final TopicPartition place;
    private final String name;
    private final long pause;
    private final String metadataAge;
    private final Set<String> unread = ConcurrentHashMap.newKeySet();
    private final Set<String> seen = ConcurrentHashMap.newKeySet();
    private volatile boolean enough;
    private volatile boolean written;
    private long next; // The position of the reader; what follows is its own.
    private long stored;

    private Failover(String servers, String topic, String name, long pause, String metadataAge) {
        this.servers = servers;
        this.place = new TopicPartition(topic, 0);
        this.name = name;
        this.pause = pause;
        this.metadataAge = metadataAge;
    }

    public static void main(String[] args) throws Exception {
        Failover run = new Failover(args[0], args[1], args[2], Long.parseLong(args[3]), args[4]);
        Thread writer = run.thread(run::write);
        Thread reader = run.thread(run::read);
        System.in.read();
        run.enough = true;
        writer.join();
        run.written = true;
        reader.join();
        say("end");
    }

    private Thread thread(Runnable work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable thrown) { // An error of any kind is a finding.
                say("error " + thrown);
                thrown.printStackTrace();
            }
        });
        thread.start();
        return thread;
    }

    private void write() {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", servers, "metadata.max.age.ms", metadataAge));
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; !enough; number++) {
                String value = name + ":" + number;
                say("sent " + value);
                producer.send(new ProducerRecord<>(place.topic(), place.partition(), null, value), (metadata, error) -> {
                    if (error != null) {
                        say("failed " + value + " " + error);
                        return;
                    }
                    say("acked " + value + " " + metadata.offset());
                    unread.add(value);
                    if (seen.contains(value)) { // It was read before its sender knew.
                        unread.remove(value);
                    }
                });
                Thread.sleep(pause);
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private void read() {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", servers);
        config.put("metadata.max.age.ms", metadataAge);
        config.put("group.id", "readers-of-" + place.topic());
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("session.timeout.ms", "10000");
        config.put("heartbeat.interval.ms", "500");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(place.topic()), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                    say("assigned");
                }
            });
            long end = Long.MAX_VALUE;
            while (!written || !unread.isEmpty() || stored < next) {
                if (written && end == Long.MAX_VALUE) {
                    end = System.nanoTime() + SETTLE_NANOS;
                }
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("never read: " + unread + ", stored: " + stored + " of " + next);
                }
                poll(consumer);
            }
        }
    }

    private void poll(KafkaConsumer<String, String> consumer) {
        StringBuilder line = new StringBuilder("polled");
        boolean any = false;
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
            line.append(' ').append(record.offset()).append(':').append(record.value());
            next = record.offset() + 1;
            any = true;
            seen.add(record.value());
            unread.remove(record.value());
        }
        if (any) {
            say(line.toString());
        }
        if (stored < next && consumer.assignment().contains(place)) {
            commit(consumer);
        }
    }

    /**
     * It tries again by itself while the coordinator is away, but not for ever: a broker that stands
     * still costs request.timeout.ms (30 s) for each request that it was asked, and the commit has
     * default.api.timeout.ms (60 s). A member that was missed for longer than its session has to join
     * again, which the next poll does. Both are what an application has to expect.
     */
    private void commit(KafkaConsumer<String, String> consumer) {
        long position;
        try {
            position = consumer.position(place); // Not next: where it has joined again it reads that again.
            if (position <= stored) {
                return;
            }
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(position)));
        } catch (TimeoutException | CommitFailedException later) {
            return;
        }
        stored = position;
        say("committed " + position);
    }

    private static synchronized void say(String line) {
        OUT.println(line);
        OUT.flush();
    }
}
