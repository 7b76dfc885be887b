// Is Spark able to compute something on its executors? The public examples' name, arguments and output.

package org.apache.spark.examples;

import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;

public final class SparkPi {
    private static final int DARTS_PER_SLICE = 100_000;

    /** Arguments: the number of slices (default 2). Prints {@code Pi is roughly 3.14…}. */
    public static void main(String[] arguments) {
        int slices = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 2;
        SparkSession session = SparkSession.builder().appName("Spark Pi").getOrCreate();
        JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
        long inside = context.parallelize(IntStream.range(0, slices).boxed().collect(Collectors.toList()), slices)
                .map(slice -> hits())
                .reduce(Long::sum);
        System.out.println("Pi is roughly " + 4.0 * inside / ((long) slices * DARTS_PER_SLICE));
        session.stop();
    }

    private static long hits() {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        long hits = 0;
        for (int dart = 0; dart < DARTS_PER_SLICE; dart++) {
            double x = random.nextDouble();
            double y = random.nextDouble();
            if (x * x + y * y <= 1) {
                hits++;
            }
        }
        return hits;
    }
}
