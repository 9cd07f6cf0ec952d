import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/**
 * What Java's Avro says about schemas. A line of input is a case:
 * {"references": [text...], "texts": [text...], "stored": false}.
 * Each text is parsed by a parser that has read the references first, in their order. The line of output:
 * {"schemas": [{"canonical", "resolved"} or {"error"}...], "reads": {"0 1": "COMPATIBLE"...}},
 * where "0 1" means that text 0 is the reader of data that was written with text 1.
 * A stored text is read without checks of names and defaults.
 */
public class Judge {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(JSON.writeValueAsString(judge(JSON.readTree(line))));
    }
    out.flush();
  }

  private static ObjectNode judge(JsonNode given) {
    ObjectNode answer = JSON.createObjectNode();
    List<Schema> schemas = new ArrayList<>();
    for (JsonNode text : given.get("texts")) {
      ObjectNode one = answer.withArray("schemas").addObject();
      schemas.add(parse(text.textValue(), given, one));
    }
    ObjectNode reads = answer.putObject("reads");
    for (int reader = 0; reader < schemas.size(); reader++) {
      for (int writer = 0; writer < schemas.size(); writer++) {
        if (schemas.get(reader) != null && schemas.get(writer) != null) {
          reads.put(reader + " " + writer, reads(schemas.get(reader), schemas.get(writer)));
        }
      }
    }
    return answer;
  }

  private static Schema parse(String text, JsonNode given, ObjectNode answer) {
    try {
      boolean stored = given.get("stored").booleanValue();
      NameValidator names = stored ? NameValidator.NO_VALIDATION : NameValidator.STRICT_VALIDATOR;
      Schema.Parser parser = new Schema.Parser(names).setValidateDefaults(!stored);
      List<Schema> referenced = new ArrayList<>();
      for (JsonNode reference : given.get("references")) {
        referenced.add(parser.parse(reference.textValue()));
      }
      Schema schema = parser.parse(text);
      answer.put("canonical", schema.toString(referenced, false));
      answer.put("resolved", schema.toString());
      return schema;
    } catch (RuntimeException | StackOverflowError error) {
      answer.removeAll();
      answer.put("error", error.toString());
      return null;
    }
  }

  private static String reads(Schema reader, Schema writer) {
    try {
      return SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType().toString();
    } catch (RuntimeException | StackOverflowError error) {
      return "ERROR " + error;
    }
  }
}
