package foreign;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Logs in by OAUTHBEARER, sends for some seconds, and reads it back. The tokens are in a file that
 * somebody else renews: its lines are the token, and until when it is good (ms since 1970).
 *
 * <p>Arguments: bootstrap servers, topic, file of the token, seconds. Prints a line of JSON.
 */
public final class Tokens {
    private static Path file;

    /** Gives the client what stands in the file. */
    public static final class FromFile implements AuthenticateCallbackHandler {
        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

        @Override
        public void handle(Callback[] callbacks) throws java.io.IOException {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback) {
                    List<String> lines = Files.readAllLines(file, StandardCharsets.US_ASCII);
                    ((OAuthBearerTokenCallback) callback).token(token(lines.get(0), Long.parseLong(lines.get(1))));
                }
            }
        }

        @Override
        public void close() {}
    }

    private static OAuthBearerToken token(String value, long until) {
        long now = System.currentTimeMillis();
        return new OAuthBearerToken() {
            @Override
            public String value() {
                return value;
            }

            @Override
            public java.util.Set<String> scope() {
                return java.util.Set.of();
            }

            @Override
            public long lifetimeMs() {
                return until;
            }

            @Override
            public String principalName() {
                return "java";
            }

            @Override
            public Long startTimeMs() {
                return now;
            }
        };
    }

    public static void main(String[] args) throws Exception {
        file = Paths.get(args[2]);
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args[0]);
        config.put("security.protocol", "SASL_PLAINTEXT");
        config.put("sasl.mechanism", "OAUTHBEARER");
        config.put("sasl.jaas.config", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;");
        config.put("sasl.login.callback.handler.class", FromFile.class.getName());
        config.put("sasl.login.refresh.min.period.seconds", (short) 0);
        config.put("sasl.login.refresh.buffer.seconds", (short) 0);
        config.put("sasl.login.refresh.window.factor", 0.5);
        config.put("max.block.ms", "10000");
        Facts facts = new Facts();
        String error = null;
        try {
            run(config, args[1], Integer.parseInt(args[3]), facts);
        } catch (ExecutionException thrown) {
            error = thrown.getCause().toString();
        } catch (Exception thrown) {
            error = thrown.toString();
        }
        facts.put("error", error);
        System.out.println(facts.json());
    }

    private static void run(Map<String, Object> config, String topic, int seconds, Facts facts) throws Exception {
        int sent = 0;
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            long ends = System.nanoTime() + seconds * 1_000_000_000L;
            do {
                producer.send(new ProducerRecord<>(topic, 0, null, Integer.toString(sent).getBytes())).get();
                sent++;
                Thread.sleep(20);
            } while (System.nanoTime() < ends);
        }
        int inOrder = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long ends = System.nanoTime() + 30_000_000_000L;
            while (inOrder < sent && System.nanoTime() < ends) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (new String(record.value()).equals(Integer.toString(inOrder))) {
                        inOrder++;
                    }
                }
            }
        }
        facts.put("sent", sent);
        facts.put("read", inOrder);
    }
}
