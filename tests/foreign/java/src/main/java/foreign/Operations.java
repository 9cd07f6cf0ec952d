package foreign;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What an operator does with a cluster that runs: settings, levels, quotas, elections, moves. */
final class Operations {
    private final String servers;
    private final String prefix;

    Operations(String servers, String prefix) {
        this.servers = servers;
        this.prefix = prefix;
    }

    void run(Facts facts) throws Exception {
        String topic = prefix + "-operated";
        TopicPartition place = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            Map<String, String> configs = Map.of("cleanup.policy", "compact", "min.insync.replicas", "2",
                    "compression.type", "zstd", "unclean.leader.election.enable", "true");
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1).configs(configs))).all().get();
            TopicDescription told = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            facts.put("partitions", told.partitions().size());
            settings(admin, facts);
            levels(admin, facts);
            quotas(admin, facts);
            facts.put("elected", failure(
                    () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(place)).all().get()));
            Map<TopicPartition, Optional<Throwable>> unclean =
                    admin.electLeaders(ElectionType.UNCLEAN, null).partitions().get();
            facts.put("elected of all", unclean.size());
            facts.put("moving", admin.listPartitionReassignments().reassignments().get().size());
            facts.put("feature", failure(() -> admin.updateFeatures(
                    Map.of("nope", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
                    new UpdateFeaturesOptions()).all().get()));
            directories(admin, place, facts);
        }
        records(topic, facts);
    }

    private static void settings(Admin admin, Facts facts) throws Exception {
        String name = "log.cleaner.min.compaction.lag.ms";
        ConfigResource one = new ConfigResource(ConfigResource.Type.BROKER, broker(admin));
        ConfigResource all = new ConfigResource(ConfigResource.Type.BROKER, "");
        List<String> sources = new ArrayList<>();
        alter(admin, all, name, "6000", AlterConfigOp.OpType.SET);
        sources.add(told(admin, one, name));
        alter(admin, one, name, "7000", AlterConfigOp.OpType.SET);
        sources.add(told(admin, one, name));
        alter(admin, one, name, "", AlterConfigOp.OpType.DELETE);
        alter(admin, all, name, "", AlterConfigOp.OpType.DELETE);
        sources.add(told(admin, one, name));
        facts.put("setting", sources);
        facts.put("fixed", failure(() -> alter(admin, one, "log.dirs", "/x", AlterConfigOp.OpType.SET)));
    }

    private static void levels(Admin admin, Facts facts) throws Exception {
        ConfigResource loggers = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, broker(admin));
        String before = entry(admin, loggers, "root").value();
        alter(admin, loggers, "root", "ERROR", AlterConfigOp.OpType.SET);
        facts.put("level", told(admin, loggers, "root"));
        alter(admin, loggers, "root", before, AlterConfigOp.OpType.SET);
    }

    private void quotas(Admin admin, Facts facts) throws Exception {
        Map<String, String> names = new HashMap<>(Map.of(ClientQuotaEntity.USER, prefix));
        names.put(ClientQuotaEntity.CLIENT_ID, null);
        ClientQuotaEntity entity = new ClientQuotaEntity(names);
        String key = "producer_byte_rate";
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
                entity, List.of(new ClientQuotaAlteration.Op(key, 1e9))))).all().get();
        ClientQuotaFilter filter = ClientQuotaFilter.containsOnly(List.of(
                ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, prefix),
                ClientQuotaFilterComponent.ofDefaultEntity(ClientQuotaEntity.CLIENT_ID)));
        facts.put("quota", admin.describeClientQuotas(filter).entities().get().get(entity).get(key));
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
                entity, List.of(new ClientQuotaAlteration.Op(key, null))))).all().get();
        facts.put("quota after", admin.describeClientQuotas(filter).entities().get().size());
    }

    private static void directories(Admin admin, TopicPartition place, Facts facts) throws Exception {
        int id = Integer.parseInt(broker(admin));
        TopicPartitionReplica replica = new TopicPartitionReplica(place.topic(), place.partition(), id);
        Collection<String> paths = admin.describeLogDirs(List.of(id)).allDescriptions().get().get(id).keySet();
        facts.put("moved to where it is", failure(
                () -> admin.alterReplicaLogDirs(Map.of(replica, paths.iterator().next())).all().get()));
        facts.put("moved to nowhere", failure(
                () -> admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).all().get()));
    }

    /** One batch of a compacted topic with one record that has no key: which of them are blamed? */
    private void records(String topic, Facts facts) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", servers, "linger.ms", 2000);
        Map<Integer, String> found = new TreeMap<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < 4; i++) {
                int number = i;
                byte[] key = i == 2 ? null : new byte[] {(byte) i};
                producer.send(new ProducerRecord<>(topic, 1, key, new byte[10]),
                        (done, error) -> found.put(number, error == null ? "" : error.getMessage()));
            }
            producer.flush();
        }
        facts.put("blamed", found);
    }

    private static String broker(Admin admin) throws Exception {
        return admin.describeCluster().nodes().get().iterator().next().idString();
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

    private static String told(Admin admin, ConfigResource resource, String name) throws Exception {
        ConfigEntry entry = entry(admin, resource, name);
        return entry.value() + " " + entry.source();
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
}
