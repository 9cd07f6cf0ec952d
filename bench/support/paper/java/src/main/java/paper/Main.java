package paper;

/**
 * {@code Main produce|consume PRODUCT HOST:PORT TOPIC COUNT SIZE BATCH WARM}. First sends and reads
 * WARM messages of another topic, so that the compilers of both sides have seen the code. Then
 * prints "ready", waits for a line on standard input, does the work and prints its measures as JSON.
 */
final class Main {
    public static void main(String[] args) throws Exception {
        Client client = switch (args[1]) {
            case "kafka" -> new Kafka(args[2]);
            case "activemq" -> new ActiveMq(args[2]);
            case "rabbitmq" -> new RabbitMq(args[2]);
            case "nats" -> new Nats(args[2]);
            default -> throw new IllegalArgumentException(args[1]);
        };
        int size = Integer.parseInt(args[5]);
        int batch = Integer.parseInt(args[6]);
        int warm = Integer.parseInt(args[7]);
        if (warm > 0) {
            Job other = new Job("warm", warm, size, batch);
            client.produce(other, new Meter(warm));
            client.consume(other, new Meter(warm));
        }
        Job job = new Job(args[3], Integer.parseInt(args[4]), size, batch);
        Meter meter = new Meter(job.count());
        System.out.println("ready");
        if (System.in.read() < 0) {
            System.exit(1);
        }
        if (job.count() > 0) {
            if (args[0].equals("produce")) {
                client.produce(job, meter);
            } else {
                client.consume(job, meter);
            }
        }
        System.out.println(meter.json());
        System.exit(0);
    }
}
