import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;

/**
 * Confluent's Java client and serializers, unmodified. One line for each finding: a name, a tab, what
 * was found. Arguments: the registry's URL, and a message in hexadecimal digits that another client
 * wrote to the topic "theirs".
 */
public final class Confluent {
  private static final String ONE =
      "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"}]}";
  private static final String TWO =
      "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"},"
          + "{\"name\":\"b\",\"type\":\"string\",\"default\":\"x\"}]}";
  private static final String WRONG = ONE.replace("\"int\"", "\"string\"");

  private interface Call {
    Object run() throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    String url = arguments[0];
    Map<String, Object> settings = Map.of("schema.registry.url", url);
    CachedSchemaRegistryClient client = new CachedSchemaRegistryClient(url, 100);
    KafkaAvroSerializer serializer = new KafkaAvroSerializer();
    serializer.configure(settings, false);
    KafkaAvroDeserializer deserializer = new KafkaAvroDeserializer();
    deserializer.configure(settings, false);

    say("read", () -> deserializer.deserialize("theirs", HexFormat.of().parseHex(arguments[1])));
    say("first", () -> hex(serializer.serialize("orders", record(ONE, 1, null))));
    say("second", () -> hex(serializer.serialize("orders", record(TWO, 2, "y"))));
    say("refused", () -> client.register("orders-value", new AvroSchema(WRONG)));
    say("versions", () -> client.getAllVersions("orders-value"));
    say("compatible", () -> client.testCompatibility("orders-value", new AvroSchema(WRONG)));
    say("level", () -> client.updateCompatibility("orders-value", "FULL"));
    say("deleted", () -> client.deleteSchemaVersion(Map.of(), "orders-value", "1"));
    say("left", () -> client.getAllVersions("orders-value"));
    say("gone", () -> client.deleteSubject(Map.of(), "orders-value", false));
    say("mode", () -> client.setMode("IMPORT", "imported"));
    say("imported", () -> client.register("imported", new AvroSchema(TWO), 5, 700));
    say("by id", () -> client.getSchemaById(700).canonicalString());
  }

  private static void say(String name, Call call) {
    Object found;
    try {
      found = call.run();
    } catch (RestClientException error) {
      found = error.getStatus() + " " + error.getErrorCode();
    } catch (Exception error) {
      found = error.toString().replace('\n', ' ');
    }
    System.out.println(name + "\t" + found);
  }

  private static GenericRecord record(String schema, int a, String b) {
    GenericRecord record = new GenericData.Record(new Schema.Parser().parse(schema));
    record.put("a", a);
    if (b != null) {
      record.put("b", b);
    }
    return record;
  }

  private static String hex(byte[] bytes) {
    return HexFormat.of().formatHex(bytes);
  }
}
