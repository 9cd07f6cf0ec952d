package foreign;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producing, and reading partitions that were assigned by hand. */
final class Records {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final int BIG = 900_000;

    private final String servers;
    private final String prefix;
    private final Path folder;

    Records(String servers, String prefix, Path folder) {
        this.servers = servers;
        this.prefix = prefix;
        this.folder = folder;
    }

    /** All rows by each codec, idempotent (the default), then with acks of 1 and 0. */
    void produceEveryCodec(Facts facts) throws Exception {
        String topic = prefix + "-produced";
        List<Long> offsets = new ArrayList<>();
        for (String codec : CODECS) {
            offsets.addAll(produce(topic, Map.of("compression.type", codec)));
        }
        offsets.addAll(produce(topic, Map.of("acks", "1", "enable.idempotence", "false")));
        facts.put("offsets", offsets);
        facts.put("unknown", produce(topic, Map.of("acks", "0", "enable.idempotence", "false")).get(0));
        facts.put("topic", topic);
    }

    private List<Long> produce(String topic, Map<String, Object> more) throws Exception {
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(more)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (Row row : Row.read(folder.resolve("rows.tsv"))) {
                sent.add(producer.send(row.to(topic, 0)));
            }
            for (Future<RecordMetadata> future : sent) {
                offsets.add(future.get().offset());
            }
        }
        return offsets;
    }

    /** Messages near the limit, several to a fetch, come back whole. */
    void bigMessages(Facts facts) throws Exception {
        String topic = prefix + "-big";
        int same = 0;
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (int i = 0; i < 4; i++) {
                producer.send(new ProducerRecord<>(topic, 0, null, big(i))).get();
            }
        }
        int at = 0;
        // A batch that is larger than what may be fetched comes all the same (KIP-74).
        for (ConsumerRecord<byte[], byte[]> record :
                readAll(topic, 4, Map.of("max.partition.fetch.bytes", 1000))) {
            same += Arrays.equals(record.value(), big(at++)) ? 1 : 0;
        }
        facts.put("same", same);
    }

    private static byte[] big(int seed) {
        byte[] bytes = new byte[BIG];
        new java.util.Random(seed).nextBytes(bytes);
        return bytes;
    }

    void readOthers(Facts facts, List<String> topics) throws IOException {
        for (String topic : topics) {
            List<String> lines = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> record :
                    readAll(topic, 0, Map.of("isolation.level", "read_committed"))) {
                lines.add(Row.line(record));
            }
            Files.write(folder.resolve("read-" + topic + ".tsv"), lines, StandardCharsets.US_ASCII);
            facts.put(topic, lines.size());
        }
    }

    /** Partition 0 from its start to the end that it has now; at least {@code least} messages. */
    private List<ConsumerRecord<byte[], byte[]>> readAll(
            String topic, int least, Map<String, Object> more) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        Map<String, Object> config = new java.util.HashMap<>(more);
        config.put("bootstrap.servers", servers);
        config.put("max.poll.records", 100);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition place = new TopicPartition(topic, 0);
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place)).get(place);
            Deadline deadline = new Deadline("reading " + topic);
            while (consumer.position(place) < end || found.size() < least) {
                deadline.check();
                consumer.poll(Duration.ofMillis(200)).forEach(found::add);
            }
        }
        return found;
    }

    /** Two transactions are committed and one is aborted; then another producer takes the id. */
    void transactions(Facts facts) throws Exception {
        String topic = prefix + "-transactions";
        Map<String, Object> config = Map.of("transactional.id", prefix);
        try (KafkaProducer<byte[], byte[]> producer = producer(config)) {
            producer.initTransactions();
            for (String value : List.of("first", "aborted", "second")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, value.getBytes())).get();
                if (value.equals("aborted")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
            List<String> values = new ArrayList<>();
            Map<String, Object> committed = Map.of("isolation.level", "read_committed");
            readAll(topic, 2, committed).forEach(record -> values.add(new String(record.value())));
            facts.put("committed", String.join(",", values));
            try (KafkaProducer<byte[], byte[]> next = producer(config)) {
                next.initTransactions();
            }
            producer.beginTransaction();
            try {
                producer.send(new ProducerRecord<>(topic, 0, null, "zombie".getBytes())).get();
                producer.commitTransaction();
                facts.put("zombie", "");
            } catch (java.util.concurrent.ExecutionException error) {
                facts.put("zombie", error.getCause().getClass().getSimpleName());
            } catch (org.apache.kafka.common.KafkaException error) {
                facts.put("zombie", error.getClass().getSimpleName());
            }
        }
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> config = new java.util.HashMap<>(more);
        config.put("bootstrap.servers", servers);
        config.put("linger.ms", 5);
        config.put("max.block.ms", 15_000);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
