// Loads the classes that submissions, drivers and executors on Kubernetes need, so that the JVM can archive them at its end
// (-XX:ArchiveClassesAtExit). With the archive each of them takes half of the processor.

package org.apache.spark.examples;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.deploy.k8s.submit.KubernetesClientApplication;
import org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend;
import org.apache.spark.sql.SparkSession;

public final class LoadClasses {
    private static final String NO_PODS = "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}";

    public static void main(String[] arguments) throws Exception {
        SparkPi.main(new String[] {"1"});

        // An API server that stores nothing: it has no pods, and what is created is answered as it came.
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            boolean isRead = exchange.getRequestMethod().equals("GET");
            byte[] answer = isRead ? NO_PODS.getBytes(StandardCharsets.UTF_8) : body;
            exchange.getResponseHeaders().add("Content-Type", "application/json");
            exchange.sendResponseHeaders(isRead ? 200 : 201, answer.length == 0 ? -1 : answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.setExecutor(Executors.newCachedThreadPool(work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true); // An exception ends the program.
            return thread;
        }));
        server.start();

        String master = "k8s://http://127.0.0.1:" + server.getAddress().getPort();

        // Without the properties of this process, which name a jar of this machine.
        SparkConf submitted = new SparkConf(false)
                .setMaster(master)
                .setAppName("classes")
                .set("spark.submit.deployMode", "cluster")
                .set("spark.kubernetes.container.image", "none")
                .set("spark.kubernetes.submission.waitAppCompletion", "false");
        new KubernetesClientApplication().start(
                new String[] {"--primary-java-resource", "local:///classes.jar", "--main-class", "Classes"}, submitted);

        // A driver there, with an executor in this same process.
        SparkConf conf = new SparkConf()
                .setMaster(master)
                .setAppName("classes")
                .set("spark.executor.instances", "1")
                .set("spark.kubernetes.container.image", "none")
                .set("spark.kubernetes.executor.deleteOnTermination", "false")
                .set("spark.scheduler.minRegisteredResourcesRatio", "0")
                .set("spark.driver.host", "127.0.0.1");
        SparkContext context = new SparkContext(conf);
        String driver = "spark://CoarseGrainedScheduler@127.0.0.1:" + context.env().rpcEnv().address().port();
        Thread executor = new Thread(() -> KubernetesExecutorBackend.main(new String[] {
            "--driver-url", driver, "--executor-id", "1", "--bind-address", "127.0.0.1", "--hostname", "127.0.0.1", "--cores", "1",
            "--app-id", context.applicationId(), "--resourceProfileId", "0", "--podName", "none"
        }));
        executor.setDaemon(true);
        SparkEnv driversEnv = context.env();
        executor.start();
        // What the executor needs is loaded within this time, or is not in the archive.
        Thread.sleep(8_000);
        SparkEnv.set(driversEnv);
        System.out.println("classes are loaded");
        System.exit(0);
    }
}
