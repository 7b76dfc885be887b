// Does a server of Spark 3 start with a jar that its SparkConnect names, and has it executors? A stand-in for the package of Spark
// Connect: it runs a job and takes connections, of which it reads nothing. Since Spark 4.0 the images' own class comes first.

package org.apache.spark.sql.connect.service;

import java.net.ServerSocket;
import java.util.Collections;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

public final class SparkConnectServer {
    public static void main(String[] arguments) throws Exception {
        try (JavaSparkContext context = new JavaSparkContext(new SparkConf());
                ServerSocket port = new ServerSocket(15002)) {
            System.out.println("rows: " + context.parallelize(Collections.nCopies(100, 1), 2).count());
            while (true) {
                port.accept().close();
            }
        }
    }
}
