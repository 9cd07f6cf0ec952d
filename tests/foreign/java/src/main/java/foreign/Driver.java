package foreign;

import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;

/**
 * Runs every scenario against one broker and prints a line of JSON for each:
 *
 * <pre>{"scenario": ..., "error": null or text, "facts": {...}}</pre>
 *
 * Arguments: bootstrap servers, prefix of all names it makes, folder of files, topics to read that
 * others wrote. The folder holds rows.tsv; what is read of a topic goes to read-TOPIC.tsv.
 */
public final class Driver {
    private interface Scenario {
        void run(Facts facts) throws Exception;
    }

    public static void main(String[] args) {
        String servers = args[0];
        String prefix = args[1];
        Path folder = Paths.get(args[2]);
        List<String> others = List.of(args).subList(3, args.length);
        Records records = new Records(servers, prefix, folder);
        Groups groups = new Groups(servers, prefix);
        Administration admin = new Administration(servers, prefix);
        run("produce", records::produceEveryCodec);
        run("read", facts -> records.readOthers(facts, others));
        run("big", records::bigMessages);
        run("group-range", facts -> groups.rebalance(facts, "range"));
        run("group-cooperative", facts -> groups.rebalance(facts, "cooperative"));
        run("group-static", groups::staticMember);
        run("admin-topics", admin::topics);
        run("admin-configs", admin::configs);
        run("admin-records", admin::records);
        run("admin-cluster", admin::cluster);
        run("admin-groups", admin::groups);
        run("admin-operations", new Operations(servers, prefix)::run);
        run("transactions", records::transactions);
    }

    private static void run(String name, Scenario scenario) {
        Facts facts = new Facts();
        String error = null;
        long began = System.nanoTime();
        try {
            scenario.run(facts);
        } catch (Throwable thrown) { // An assertion or a linkage error is a finding too.
            error = thrown.toString();
            thrown.printStackTrace();
        }
        Facts line = new Facts();
        line.put("scenario", name);
        line.put("error", error);
        line.put("ms", (System.nanoTime() - began) / 1_000_000);
        line.put("facts", facts.all());
        System.out.println(line.json());
    }
}
