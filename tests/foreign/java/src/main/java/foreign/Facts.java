package foreign;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a scenario found, printed as one line of JSON. Values: numbers, booleans, texts, lists, maps. */
final class Facts {
    private final Map<String, Object> found = new LinkedHashMap<>();

    void put(String name, Object value) {
        found.put(name, value);
    }

    Map<String, Object> all() {
        return found;
    }

    String json() {
        return json(found);
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof Map) {
            StringBuilder text = new StringBuilder("{");
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                text.append(text.length() > 1 ? "," : "").append(quoted(String.valueOf(entry.getKey())));
                text.append(':').append(json(entry.getValue()));
            }
            return text.append('}').toString();
        }
        if (value instanceof Collection) {
            StringBuilder text = new StringBuilder("[");
            for (Object item : (Collection<?>) value) {
                text.append(text.length() > 1 ? "," : "").append(json(item));
            }
            return text.append(']').toString();
        }
        return quoted(String.valueOf(value));
    }

    private static String quoted(String text) {
        StringBuilder line = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                line.append('\\').append(c);
            } else if (c < ' ') {
                line.append(String.format("\\u%04x", (int) c));
            } else {
                line.append(c);
            }
        }
        return line.append('"').toString();
    }
}
