import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

/**
 * Prints what Java reads in properties files: for each file on standard input, its entries on standard output. Numbers
 * have four bytes, and every text is preceded by the number of its bytes.
 */
public final class ReadProperties {
    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(new java.io.BufferedOutputStream(System.out));
        while (true) {
            int length;
            try {
                length = in.readInt();
            } catch (EOFException end) {
                return;
            }
            // As Spark's Utils.getPropertiesFromFile reads it: a reader of UTF-8, not a stream, which would be Latin-1.
            String text = new String(in.readNBytes(length), StandardCharsets.UTF_8);
            Properties properties = new Properties();
            properties.load(new StringReader(text));
            out.writeInt(properties.size());
            for (String key : properties.stringPropertyNames()) {
                write(out, key);
                write(out, properties.getProperty(key));
            }
            out.flush();
        }
    }

    private static void write(DataOutputStream out, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
