// What becomes of an application that ends with a given exit code, at once or after a while?

package org.apache.spark.examples;

import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;

public final class ExitWith {
    /** Arguments: the exit code and, optionally, for how many seconds a task sleeps on an executor first. */
    public static void main(String[] arguments) {
        int code = Integer.parseInt(arguments[0]);
        if (arguments.length > 1) {
            SparkSession session = SparkSession.builder().appName("Exit with " + code).getOrCreate();
            JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
            context.parallelize(List.of(Double.parseDouble(arguments[1])), 1).foreach(ExitWith::sleep);
            session.stop();
        }
        System.out.println("exiting with " + code);
        System.exit(code);
    }

    private static void sleep(double seconds) throws InterruptedException {
        System.out.println("sleeping for " + seconds + " s");
        Thread.sleep((long) (seconds * 1000));
    }
}
