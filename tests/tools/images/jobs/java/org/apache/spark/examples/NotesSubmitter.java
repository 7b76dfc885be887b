// A feature step of a user's own: it annotates the driver's pod with where spark-submit has run, and as whom.

package org.apache.spark.examples;

import io.fabric8.kubernetes.api.model.PodBuilder;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import org.apache.spark.deploy.k8s.SparkPod;
import org.apache.spark.deploy.k8s.features.KubernetesFeatureConfigStep;

public final class NotesSubmitter implements KubernetesFeatureConfigStep {
    private static final Path TOKEN = Path.of("/var/run/secrets/kubernetes.io/serviceaccount/token");

    @Override
    public SparkPod configurePod(SparkPod pod) {
        try {
            String claims = Files.readString(TOKEN).split("\\.")[1];
            var changed = new PodBuilder(pod.pod())
                    .editOrNewMetadata()
                    .addToAnnotations("submitted-in", InetAddress.getLocalHost().getHostName())
                    .addToAnnotations("submitted-with", new String(Base64.getUrlDecoder().decode(claims), StandardCharsets.UTF_8))
                    .endMetadata()
                    .build();
            return new SparkPod(changed, pod.container());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
