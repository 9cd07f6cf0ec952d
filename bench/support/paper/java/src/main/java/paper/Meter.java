package paper;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;

/** Counts messages, and when each twentieth of them was there. Called by one thread at a time. */
final class Meter {
    private static final int PARTS = 20;
    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final int count;
    private final int step;
    private final List<Double> marks = new ArrayList<>();
    private volatile int messages;
    private long bytes;
    private long began;
    private long cpuBegan;
    private double seconds;
    private double cpu;

    Meter(int count) {
        this.count = count;
        this.step = Math.max(1, count / PARTS);
    }

    void begin() {
        began = System.nanoTime();
        cpuBegan = PROCESS.getProcessCpuTime();
    }

    void add(int size) {
        int now = messages + 1;
        bytes += size;
        if (now % step == 0 && now <= count) {
            marks.add((System.nanoTime() - began) / 1e9);
        }
        if (now == count) {
            end();
        }
        messages = now;
    }

    /** A producer's end is later than its last {@link #add}: when all is accepted. */
    void end() {
        seconds = (System.nanoTime() - began) / 1e9;
        cpu = (PROCESS.getProcessCpuTime() - cpuBegan) / 1e9;
    }

    boolean done() {
        return messages >= count;
    }

    String json() {
        return "{\"messages\": " + messages + ", \"bytes\": " + bytes + ", \"seconds\": " + seconds
                + ", \"client_cpu_seconds\": " + cpu + ", \"marks\": " + marks + "}";
    }
}
