package foreign;

import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts the words of lines, exactly once: lines are split, words go through a topic of their own
 * to the store of their partition, which has a changelog, and each new count is written. Without
 * the cache every occurrence of a word is one record of the output.
 *
 * <p>Runs until its standard input ends, then closes in order; or until it is killed. Prints {@code
 * running} whenever it has its partitions, {@code error WHY}, {@code end}.
 *
 * <p>Arguments: bootstrap servers, application id, topic of lines, topic of counts, folder of state.
 */
public final class WordCount {
    private WordCount() {}

    public static void main(String[] args) throws Exception {
        KafkaStreams streams = new KafkaStreams(topology(args[2], args[3]).build(), settings(args));
        CountDownLatch failed = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            say("error " + error);
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                say("running");
            }
        });
        streams.start();
        System.in.read();
        boolean closed = streams.close(Duration.ofSeconds(30));
        say(closed && failed.getCount() > 0 ? "end" : "error not closed in order");
    }

    private static StreamsBuilder topology(String lines, String counts) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> input = builder.stream(lines, Consumed.with(Serdes.String(), Serdes.String()));
        input.flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
                .count(Materialized.as("counts"))
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(counts, Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    private static Properties settings(String[] args) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 2000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 300);
        // So that it takes many transactions, and a kill comes in the middle of one.
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"), 50);
        return settings;
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
