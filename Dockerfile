# Two images, of which one is for users:
#
#   operator   the operator alone. It has neither Java nor Spark: what needs Spark's own client runs in the application's image
#   spark      Spark with the test jobs: the local cluster's stand-in for docker.io/apache/spark
#
# What is built outside comes in as named build contexts:
#
#   binary        the folder that holds `spark-operator`, say target/release (operator)
#   distribution  an unpacked Spark distribution with the Kubernetes back end (spark)
#   jobs          the test jobs, compiled (spark)
#   exporters     agents of the Prometheus JMX exporter (spark)
#
#   cargo build --release
#   docker build --target operator --build-context binary=target/release -t spark-operator .
#
# On a machine without Docker and without a registry, `tests/tools/cluster/cluster images build` does the same.

# The libraries that the operator is linked with, glibc and libgcc, and the files by which scanners for vulnerabilities know their
# versions. An operator image on cc-debian12, the base image that has these libraries, is 10 MB larger.
FROM docker.io/library/debian:bookworm-slim AS libraries
# The program is run once: one that was linked with a later glibc than Debian's fails here, and not in the cluster.
RUN --mount=type=bind,from=binary,target=/binary /binary/spark-operator version \
 && mkdir -p /libraries/var/lib/dpkg/status.d \
 && ldd /binary/spark-operator | grep --only-matching '/[^ ]*' | xargs cp --dereference --parents --target-directory=/libraries \
 && for package in libc6 libgcc-s1; do dpkg-query --status "$package" >"/libraries/var/lib/dpkg/status.d/$package"; done

FROM gcr.io/distroless/static-debian12:nonroot AS operator
COPY --from=libraries /libraries /
COPY --from=binary spark-operator /usr/bin/spark-operator
# A number and not a name, because kubelet can verify runAsNonRoot only for a number.
USER 65532:65532
ENTRYPOINT ["/usr/bin/spark-operator"]

# Java and Python: changes with Debian only, so it is the lowest layer of the Spark images of all versions.
FROM docker.io/library/debian:bookworm-slim AS runtime
# The slim image has no manual pages, and Java's package wants to link its own beside them.
RUN export DEBIAN_FRONTEND=noninteractive && mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless python3 tini procps ca-certificates \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
 # Debian's path names the architecture; this is the one of the public Spark image.
 && mkdir -p /opt/java && ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /opt/java/openjdk \
 && groupadd --system --gid 185 spark \
 && useradd --system --uid 185 --gid spark --home-dir /opt/spark --no-create-home --shell /usr/sbin/nologin spark \
 # The entrypoint adds an entry for the uid that the cluster chose, which is always in the root group.
 && chgrp root /etc/passwd && chmod 664 /etc/passwd
ENV JAVA_HOME=/opt/java/openjdk SPARK_HOME=/opt/spark

FROM runtime AS spark-distribution
COPY --from=distribution . /opt/spark/
RUN mkdir -p /opt/spark/conf /opt/spark/work-dir \
 && chown spark:root /opt/spark/work-dir && chmod 775 /opt/spark/work-dir
WORKDIR /opt/spark/work-dir

FROM spark-distribution AS spark
ARG SPARK_VERSION=4.0.1
LABEL org.opencontainers.image.title="Spark ${SPARK_VERSION}, stand-in for tests"
# A JVM that ends after some seconds gains nothing from the second compiler: drivers and executors of tests take 40 % less CPU time without it.
ENV JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
COPY --chmod=755 tests/tools/images/entrypoint.sh /opt/entrypoint.sh
COPY --chmod=755 tests/tools/images/decom.sh /opt/decom.sh
# Only this stand-in has them: SparkPi and pi.py at the public image's paths, and the jobs that tests look into.
COPY --from=jobs . /opt/spark/examples/
# Nor does the public image have an archive of Spark's classes, by which a JVM of these tests takes half of the processor. A JVM that
# cannot use it (another class path, another Spark) loads its classes as it always would.
COPY --chmod=755 tests/tools/images/class-path.sh tests/tools/images/archive-classes.sh /opt/
RUN sed -i 's#^exec "${CMD\[@\]}"$#. /opt/class-path.sh\n&#' /opt/spark/bin/spark-class \
 && /opt/archive-classes.sh /opt/spark/examples/jars/spark-examples.jar /opt/spark/classes.jsa >/opt/spark/class-path
ENV JAVA_TOOL_OPTIONS="$JAVA_TOOL_OPTIONS -XX:SharedArchiveFile=/opt/spark/classes.jsa -Xlog:cds=off -Xlog:cds+dynamic=off"
# Where the images of Kubeflow's examples have theirs.
COPY --from=exporters . /prometheus/
# The package on PyPI lacks the script by which the operator recognizes an image with Spark Connect. It starts what the script starts.
RUN touch /opt/spark/sbin/start-connect-server.sh
USER 185:185
ENTRYPOINT ["/opt/entrypoint.sh"]
