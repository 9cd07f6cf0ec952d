package foreign;

/** A loop that must end: 20 seconds, then an error that says what was waited for. */
final class Deadline {
    private static final long SECONDS = 20;

    private final String what;
    private final long end = System.nanoTime() + SECONDS * 1_000_000_000L;

    Deadline(String what) {
        this.what = what;
    }

    void check() {
        if (System.nanoTime() > end) {
            throw new IllegalStateException(what + ": not done in " + SECONDS + " s");
        }
    }
}
