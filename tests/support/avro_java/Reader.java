import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.util.RandomData;

/**
 * Java's Avro reads what was written with another schema. A line of input is a case:
 * {"references": [text...], "texts": [writer, reader]}. The line of output has the canonical texts of
 * all, as a registry gives them, in "references" and "texts", and in hexadecimal digits "written": a
 * random value of the writer's schema, and "read": the value that the reader's schema makes of it,
 * written with that one; or "error" instead of it. {} where a schema is not valid.
 */
public class Reader {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    int number = 0;
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(JSON.writeValueAsString(read(JSON.readTree(line), number++)));
    }
    out.flush();
  }

  private static ObjectNode read(JsonNode given, int seed) {
    ObjectNode answer = JSON.createObjectNode();
    List<Schema> both = new ArrayList<>();
    byte[] written;
    try {
      for (JsonNode text : given.get("texts")) {
        both.add(parse(text.textValue(), given, answer));
      }
      written = bytes(both.get(0), new RandomData(both.get(0), 1, seed, true).iterator().next());
    } catch (RuntimeException | IOException | StackOverflowError error) {
      return JSON.createObjectNode(); // no schema, or one of values without an end
    }
    answer.put("written", HexFormat.of().formatHex(written));
    try {
      BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(written, null);
      Object found = new GenericDatumReader<>(both.get(0), both.get(1)).read(null, decoder);
      return answer.put("read", HexFormat.of().formatHex(bytes(both.get(1), found)));
    } catch (RuntimeException | IOException | StackOverflowError error) {
      return answer.put("error", error.toString());
    }
  }

  private static Schema parse(String text, JsonNode given, ObjectNode answer) {
    Schema.Parser parser = new Schema.Parser();
    List<Schema> referenced = new ArrayList<>();
    answer.putArray("references");
    for (JsonNode reference : given.get("references")) {
      Schema one = parser.parse(reference.textValue());
      answer.withArray("references").add(one.toString(referenced, false));
      referenced.add(one);
    }
    Schema schema = parser.parse(text);
    answer.withArray("texts").add(schema.toString(referenced, false));
    return schema;
  }

  private static byte[] bytes(Schema schema, Object value) throws IOException {
    ByteArrayOutputStream stream = new ByteArrayOutputStream();
    BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(stream, null);
    new GenericDatumWriter<>(schema).write(value, encoder);
    encoder.flush();
    return stream.toByteArray();
  }
}
