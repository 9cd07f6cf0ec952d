package foreign;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Consumer groups: members come and go, nothing is read twice or not at all. */
final class Groups {
    private static final int PARTITIONS = 4;
    private static final int EACH_TIME = 40;

    private final String servers;
    private final String prefix;
    private final List<String> seen = new ArrayList<>();
    private int sent;

    Groups(String servers, String prefix) {
        this.servers = servers;
        this.prefix = prefix;
    }

    /**
     * One member, then two, then one again; every message is read by somebody, once. The range
     * assignor's members name the topic, the others subscribe to a pattern.
     */
    void rebalance(Facts facts, String assignor) throws Exception {
        String topic = begin("group-" + assignor);
        List<Integer> shares = new ArrayList<>();
        KafkaConsumer<byte[], byte[]> first = member(topic, assignor, Map.of());
        KafkaConsumer<byte[], byte[]> second = member(topic, assignor, Map.of());
        try {
            produce(topic);
            until("one member has all", () -> share(first) == PARTITIONS && seen.size() == sent, first);
            first.commitSync();
            shares.add(share(first));
            until("two share", () -> share(first) == 2 && share(second) == 2, first, second);
            shares.add(share(first));
            shares.add(share(second));
            produce(topic);
            until("both read", () -> seen.size() >= sent, first, second);
            first.commitSync();
            second.commitSync();
            second.close();
            until("one is left", () -> share(first) == PARTITIONS, first);
            shares.add(share(first));
            produce(topic);
            until("the rest", () -> seen.size() >= sent, first);
            first.commitSync();
            facts.put("committed", committed(first, topic));
        } finally {
            first.close();
            second.close();
        }
        facts.put("shares", shares);
        facts.put("sent", sent);
        facts.put("seen", seen.size());
        facts.put("different", new HashSet<>(seen).size());
        facts.put("group", group(topic));
    }

    /**
     * A static member that restarts gets its partitions back, and no other member notices. When
     * static members are closed they are still members, until an operator removes them.
     */
    void staticMember(Facts facts) throws Exception {
        String topic = begin("group-static");
        KafkaConsumer<byte[], byte[]> stays = member(topic, "range", Map.of("group.instance.id", "a"));
        Map<String, Object> other = Map.of("group.instance.id", "b");
        KafkaConsumer<byte[], byte[]> goes = member(topic, "range", other);
        try {
            until("two share", () -> share(stays) == 2 && share(goes) == 2, stays, goes);
            Set<TopicPartition> before = goes.assignment();
            int generation = stays.groupMetadata().generationId();
            goes.close();
            KafkaConsumer<byte[], byte[]> again = member(topic, "range", other);
            try {
                until("it is back", () -> share(again) == 2, stays, again);
                facts.put("same", again.assignment().equals(before));
                facts.put("generations", stays.groupMetadata().generationId() - generation);
            } finally {
                again.close();
            }
        } finally {
            stays.close();
            goes.close();
        }
        facts.put("state", state(group(topic)));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            Set<MemberToRemove> both = Set.of(new MemberToRemove("a"), new MemberToRemove("b"));
            admin.removeMembersFromConsumerGroup(
                    group(topic), new RemoveMembersFromConsumerGroupOptions(both)).all().get();
        }
        facts.put("state after", state(group(topic)));
    }

    private String state(String group) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            return admin.describeConsumerGroups(List.of(group)).all().get().get(group).state().toString();
        }
    }

    private String begin(String name) throws Exception {
        seen.clear();
        sent = 0;
        String topic = prefix + "-" + name;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        }
        return topic;
    }

    private static String group(String topic) {
        return topic + "-readers";
    }

    private static int share(KafkaConsumer<byte[], byte[]> member) {
        return member.assignment().size();
    }

    @SafeVarargs
    private void until(String what, BooleanSupplier done, KafkaConsumer<byte[], byte[]>... members) {
        Deadline deadline = new Deadline(what);
        while (!done.getAsBoolean()) {
            deadline.check();
            for (KafkaConsumer<byte[], byte[]> member : members) {
                for (ConsumerRecord<byte[], byte[]> record : member.poll(Duration.ofMillis(20))) {
                    seen.add(new String(record.value(), StandardCharsets.US_ASCII));
                }
            }
        }
    }

    private Map<String, Object> committed(KafkaConsumer<byte[], byte[]> member, String topic) {
        Set<TopicPartition> places = new HashSet<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            places.add(new TopicPartition(topic, partition));
        }
        Map<String, Object> found = new TreeMap<>();
        member.committed(places).forEach((place, at) -> found.put("" + place.partition(), at.offset()));
        return found;
    }

    private void produce(String topic) {
        Map<String, Object> config = Map.of("bootstrap.servers", servers);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < EACH_TIME; i++, sent++) {
                byte[] value = Integer.toString(sent).getBytes(StandardCharsets.US_ASCII);
                producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, value));
            }
        }
    }

    private KafkaConsumer<byte[], byte[]> member(String topic, String assignor, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("bootstrap.servers", servers);
        config.put("group.id", group(topic));
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        config.put("heartbeat.interval.ms", 100);
        config.put("session.timeout.ms", 10_000);
        Class<?> strategy = assignor.equals("range") ? RangeAssignor.class : CooperativeStickyAssignor.class;
        config.put("partition.assignment.strategy", List.of(strategy.getName()));
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (assignor.equals("range")) {
            consumer.subscribe(List.of(topic));
        } else {
            consumer.subscribe(Pattern.compile(Pattern.quote(topic)));
        }
        return consumer;
    }
}
