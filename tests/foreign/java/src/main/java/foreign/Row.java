package foreign;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * One message in a file of text, so that both sides compare the same bytes. A line is
 *
 * <pre>key TAB value TAB timestamp TAB header name . header value TAB ...</pre>
 *
 * with keys, values and both parts of headers in base64, and "-" for null.
 */
final class Row {
    private static final String NULL = "-";

    final byte[] key;
    final byte[] value;
    final long timestamp;
    final Headers headers;

    private Row(byte[] key, byte[] value, long timestamp, Headers headers) {
        this.key = key;
        this.value = value;
        this.timestamp = timestamp;
        this.headers = headers;
    }

    static List<Row> read(Path file) throws IOException {
        List<Row> rows = new ArrayList<>();
        for (String line : Files.readAllLines(file, StandardCharsets.US_ASCII)) {
            String[] cells = line.split("\t");
            Headers headers = new RecordHeaders();
            for (int i = 3; i < cells.length; i++) {
                int middle = cells[i].indexOf('.');
                String name = new String(bytes(cells[i].substring(0, middle)), StandardCharsets.UTF_8);
                headers.add(name, bytes(cells[i].substring(middle + 1)));
            }
            rows.add(new Row(bytes(cells[0]), bytes(cells[1]), Long.parseLong(cells[2]), headers));
        }
        return rows;
    }

    ProducerRecord<byte[], byte[]> to(String topic, int partition) {
        return new ProducerRecord<>(topic, partition, timestamp, key, value, headers);
    }

    static String line(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder();
        line.append(text(record.key())).append('\t').append(text(record.value()));
        line.append('\t').append(record.timestamp());
        for (Header header : record.headers()) {
            line.append('\t').append(text(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append('.').append(text(header.value()));
        }
        return line.toString();
    }

    private static byte[] bytes(String cell) {
        return cell.equals(NULL) ? null : Base64.getDecoder().decode(cell);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? NULL : Base64.getEncoder().encodeToString(bytes);
    }
}
