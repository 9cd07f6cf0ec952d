package foreign;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Two transactional producers and a plain one write to two partitions in turns; some transactions
 * are committed, some aborted. Prints a line of JSON: of each partition all values in the order of
 * the log, and those of them that were committed.
 *
 * <pre>{"all": [[...], [...]], "committed": [[...], [...]]}</pre>
 *
 * Arguments: bootstrap servers, topic, seed.
 */
public final class Transactions {
    private static final int STEPS = 150;
    private static final int PARTITIONS = 2;

    private final Random random;
    private final String servers;
    private final String topic;
    private final List<List<String>> all = List.of(new ArrayList<>(), new ArrayList<>());
    private final List<List<String>> committed = new ArrayList<>();

    private Transactions(String servers, String topic, long seed) {
        this.servers = servers;
        this.topic = topic;
        this.random = new Random(seed);
    }

    public static void main(String[] args) {
        Transactions run = new Transactions(args[0], args[1], Long.parseLong(args[2]));
        run.write();
        Facts facts = new Facts();
        facts.put("all", run.all);
        facts.put("committed", run.committed);
        System.out.println(facts.json());
    }

    private void write() {
        List<Writer> writers = List.of(new Writer("a", true), new Writer("b", true), new Writer("plain", false));
        try {
            for (int step = 0; step < STEPS; step++) {
                writers.get(random.nextInt(writers.size())).step(step);
            }
            writers.forEach(writer -> writer.end(true));
        } finally {
            writers.forEach(writer -> writer.producer.close());
        }
        List<String> lost = new ArrayList<>();
        writers.forEach(writer -> lost.addAll(writer.aborted));
        for (List<String> values : all) {
            List<String> kept = new ArrayList<>(values);
            kept.removeAll(lost);
            committed.add(kept);
        }
    }

    private final class Writer {
        private final String name;
        private final boolean transactional;
        private final KafkaProducer<byte[], byte[]> producer;
        private final List<String> pending = new ArrayList<>();
        private final List<String> aborted = new ArrayList<>();
        private boolean open;

        Writer(String name, boolean transactional) {
            this.name = name;
            this.transactional = transactional;
            Map<String, Object> config = new HashMap<>();
            config.put("bootstrap.servers", servers);
            if (transactional) {
                config.put("transactional.id", topic + "-" + name);
            }
            producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
            if (transactional) {
                producer.initTransactions();
            }
        }

        /** Some records, in the log when this returns; then maybe the end of the transaction. */
        void step(int number) {
            if (transactional && !open) {
                producer.beginTransaction();
                open = true;
            }
            for (int i = random.nextInt(4); i >= 0; i--) {
                int partition = random.nextInt(PARTITIONS);
                String value = name + "-" + number + "-" + i;
                producer.send(new ProducerRecord<>(topic, partition, null, value.getBytes(StandardCharsets.US_ASCII)));
                all.get(partition).add(value);
                pending.add(value);
            }
            producer.flush();
            if (random.nextInt(3) == 0) {
                end(random.nextBoolean());
            }
        }

        void end(boolean well) {
            if (open && well) {
                producer.commitTransaction();
            } else if (open) {
                producer.abortTransaction();
                aborted.addAll(pending);
            }
            open = false;
            pending.clear();
        }
    }
}
