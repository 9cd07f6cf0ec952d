package paper;

/** One run: {@code count} messages of {@code size} bytes. {@code batch} is 0 where it means nothing. */
record Job(String topic, int count, int size, int batch) {
    /** Milliseconds after the last message in which no other one may arrive. */
    static final int SURPLUS_MS = 300;

    /** Messages that a pull, or a consumer's window, holds (the paper: 1,000 or about 200 KB). */
    static final int PREFETCH = 1000;

    byte[] value() {
        byte[] value = new byte[size];
        java.util.Arrays.fill(value, (byte) 'x');
        return value;
    }
}
