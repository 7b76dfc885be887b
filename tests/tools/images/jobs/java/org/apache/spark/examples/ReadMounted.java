// Are a mounted file and a mounted writable folder really there, in the driver and in the executors?

package org.apache.spark.examples;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;

public final class ReadMounted {
    /**
     * Arguments: a file to read and, optionally, a folder to write in. Prints {@code driver read: <content>},
     * {@code executor read: <content>}, {@code driver wrote: <path>}, {@code executor wrote: <path>}. Fails if any of
     * it is impossible.
     */
    public static void main(String[] arguments) throws IOException {
        String file = arguments[0];
        String folder = arguments.length > 1 ? arguments[1] : null;
        SparkSession session = SparkSession.builder().appName("Read mounted").getOrCreate();
        JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
        System.out.println("driver read: " + read(file));
        context.parallelize(List.of(file), 1).map(ReadMounted::read).collect()
                .forEach(content -> System.out.println("executor read: " + content));
        if (folder != null) {
            System.out.println("driver wrote: " + write(folder, "driver"));
            context.parallelize(List.of(folder), 1).map(place -> write(place, "executor")).collect()
                    .forEach(path -> System.out.println("executor wrote: " + path));
        }
        session.stop();
    }

    private static String read(String file) throws IOException {
        return Files.readString(Path.of(file)).strip();
    }

    private static String write(String folder, String role) throws IOException {
        String content = role + " on " + InetAddress.getLocalHost().getHostName();
        Path path = Files.writeString(Path.of(folder, role + ".txt"), content);
        if (!Files.readString(path).equals(content)) {
            throw new IOException(path + " does not hold what was written");
        }
        return path.toString();
    }
}
