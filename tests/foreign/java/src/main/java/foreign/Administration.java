package foreign;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What an operator does with the admin client. */
final class Administration {
    private final long firstTimestamp = System.currentTimeMillis() - 3_600_000;
    private static final int COUNT = 20;

    private final String servers;
    private final String prefix;

    Administration(String servers, String prefix) {
        this.servers = servers;
        this.prefix = prefix;
    }

    /** Create, describe, add partitions, delete. */
    void topics(Facts facts) throws Exception {
        String name = prefix + "-made";
        try (Admin admin = admin()) {
            NewTopic topic = new NewTopic(name, 2, (short) 1).configs(Map.of("retention.ms", "123456"));
            facts.put("created", admin.createTopics(List.of(topic)).numPartitions(name).get());
            facts.put("again", failure(() -> admin.createTopics(List.of(topic)).all().get()));
            admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all().get();
            facts.put("fewer", failure(
                    () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all().get()));
            TopicDescription found = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
            facts.put("partitions", found.partitions().size());
            facts.put("leaders", found.partitions().stream().filter(p -> p.leader() != null).count());
            facts.put("same id", admin.describeTopics(
                    org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(found.topicId())))
                    .allTopicIds().get().get(found.topicId()).name().equals(name));
            facts.put("listed", admin.listTopics().names().get().contains(name));
            admin.deleteTopics(List.of(name)).all().get();
            facts.put("listed after", admin.listTopics().names().get().contains(name));
            facts.put("unknown", failure(() -> admin.deleteTopics(List.of(name)).all().get()));
        }
    }

    /** Describe, set, append, delete; a wrong value changes nothing. */
    void configs(Facts facts) throws Exception {
        String name = prefix + "-configured";
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, name);
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
            facts.put("default", entry(admin, topic, "retention.ms").isDefault());
            alter(admin, topic, "retention.ms", "777000", AlterConfigOp.OpType.SET);
            facts.put("set", entry(admin, topic, "retention.ms").value());
            facts.put("source", entry(admin, topic, "retention.ms").source().name());
            alter(admin, topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
            facts.put("appended", entry(admin, topic, "cleanup.policy").value());
            facts.put("wrong", failure(
                    () -> alter(admin, topic, "retention.ms", "soon", AlterConfigOp.OpType.SET)));
            facts.put("kept", entry(admin, topic, "retention.ms").value());
            alter(admin, topic, "retention.ms", "", AlterConfigOp.OpType.DELETE);
            facts.put("deleted", entry(admin, topic, "retention.ms").isDefault());
            String id = admin.describeCluster().nodes().get().iterator().next().idString();
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, id);
            Config all = admin.describeConfigs(List.of(broker)).all().get().get(broker);
            facts.put("broker", all.entries().size());
        }
    }

    private static void alter(
            Admin admin, ConfigResource resource, String name, String value, AlterConfigOp.OpType type)
            throws ExecutionException, InterruptedException {
        AlterConfigOp op = new AlterConfigOp(new ConfigEntry(name, value), type);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(op))).all().get();
    }

    private static ConfigEntry entry(Admin admin, ConfigResource resource, String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
    }

    /** Look-ups by time and by end, who produces, and forgetting the beginning. */
    void records(Facts facts) throws Exception {
        TopicPartition place = new TopicPartition(prefix + "-records", 0);
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(place.topic(), 1, (short) 1))).all().get();
            produce(place);
            facts.put("earliest", offset(admin, place, OffsetSpec.earliest()));
            facts.put("latest", offset(admin, place, OffsetSpec.latest()));
            facts.put("by time", offset(admin, place, OffsetSpec.forTimestamp(firstTimestamp + 6_500)));
            facts.put("max timestamp", offset(admin, place, OffsetSpec.maxTimestamp()));
            List<Map<String, Object>> producers = new ArrayList<>();
            for (ProducerState state : admin.describeProducers(List.of(place))
                    .partitionResult(place).get().activeProducers()) {
                producers.add(Map.of("epoch", state.producerEpoch(), "sequence", state.lastSequence()));
            }
            facts.put("producers", producers);
            facts.put("low watermark", admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(12)))
                    .lowWatermarks().get(place).get().lowWatermark());
            facts.put("earliest after", offset(admin, place, OffsetSpec.earliest()));
            facts.put("beyond", failure(
                    () -> admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(999))).all().get()));
        }
    }

    private void produce(TopicPartition place) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", servers);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < COUNT; i++) {
                long timestamp = firstTimestamp + i * 1000L;
                producer.send(new ProducerRecord<>(place.topic(), 0, timestamp, null, new byte[100])).get();
            }
        }
    }

    private static long offset(Admin admin, TopicPartition place, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(place, spec)).partitionResult(place).get().offset();
    }

    /** Brokers, the controller, and what the log directories hold. */
    void cluster(Facts facts) throws Exception {
        try (Admin admin = admin()) {
            DescribeClusterResult cluster = admin.describeCluster();
            Collection<Node> nodes = cluster.nodes().get();
            facts.put("nodes", nodes.size());
            facts.put("controller is a node", nodes.contains(cluster.controller().get()));
            facts.put("cluster id", cluster.clusterId().get());
            int id = nodes.iterator().next().id();
            long bytes = 0;
            Map<String, LogDirDescription> folders =
                    admin.describeLogDirs(Set.of(id)).allDescriptions().get().get(id);
            for (LogDirDescription folder : folders.values()) {
                bytes += folder.replicaInfos().values().stream().mapToLong(r -> r.size()).sum();
            }
            facts.put("log directories", folders.size());
            facts.put("log bytes", bytes);
        }
    }

    /** Offsets set, told, and forgotten without any member; the group deleted. */
    void groups(Facts facts) throws Exception {
        String group = prefix + "-by-hand";
        TopicPartition here = new TopicPartition(prefix + "-records", 0);
        try (Admin admin = admin()) {
            admin.alterConsumerGroupOffsets(group, Map.of(here, new OffsetAndMetadata(15, "note"))).all().get();
            OffsetAndMetadata found =
                    admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(here);
            facts.put("offset", found.offset());
            facts.put("metadata", found.metadata());
            Map<String, Object> states = new TreeMap<>();
            for (ConsumerGroupListing listing : admin.listConsumerGroups().all().get()) {
                if (listing.groupId().startsWith(prefix)) {
                    states.put(listing.groupId(), listing.state().map(Object::toString).orElse("?"));
                }
            }
            facts.put("groups", states);
            ConsumerGroupDescription described =
                    admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            facts.put("state", described.state().toString());
            facts.put("members", described.members().size());
            admin.deleteConsumerGroupOffsets(group, Set.of(here)).all().get();
            Map<TopicPartition, OffsetAndMetadata> left = new HashMap<>(
                    admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
            facts.put("left", left.size());
            admin.alterConsumerGroupOffsets(group, Map.of(here, new OffsetAndMetadata(3))).all().get();
            admin.deleteConsumerGroups(List.of(group)).all().get();
            facts.put("unknown", failure(() -> admin.deleteConsumerGroups(List.of(group)).all().get()));
        }
    }

    private interface Attempt {
        void run() throws Exception;
    }

    /** The class of the error that an attempt must end in. */
    private static String failure(Attempt attempt) throws Exception {
        try {
            attempt.run();
            return "none";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    private Admin admin() {
        return Admin.create(Map.of(
                "bootstrap.servers", servers,
                "default.api.timeout.ms", 15_000,
                "request.timeout.ms", 10_000));
    }
}
