#!/bin/bash
# What does a Spark container run, given what Spark's Kubernetes back end put into its arguments and environment?
#
# The contract, as the public Spark images keep it: the first argument is `driver`, `executor`, or any command.
# The variables are those of BasicDriverFeatureStep and BasicExecutorFeatureStep (Constants.scala, ENV_*).

set -e

# A cluster may run the container under any uid; Hadoop's login needs a name for it.
if ! getent passwd "$(id -u)" >/dev/null && [ -w /etc/passwd ]; then
  echo "${SPARK_USER_NAME:-spark}:x:$(id -u):$(id -g):Spark:${SPARK_HOME}:/bin/false" >>/etc/passwd
fi

class_path="${SPARK_CLASSPATH}:${SPARK_HOME}/jars/*"
if [ -n "${SPARK_EXTRA_CLASSPATH}" ]; then
  class_path="${class_path}:${SPARK_EXTRA_CLASSPATH}"
fi
if [ -n "${HADOOP_CONF_DIR}" ]; then
  class_path="${HADOOP_CONF_DIR}:${class_path}"
fi
class_path="${SPARK_CONF_DIR:-${SPARK_HOME}/conf}:${class_path}"

# Set but not exported when they come from a sourced file; spark-submit reads them from the environment.
if [ -n "${PYSPARK_PYTHON+set}" ]; then export PYSPARK_PYTHON; fi
if [ -n "${PYSPARK_DRIVER_PYTHON+set}" ]; then export PYSPARK_DRIVER_PYTHON; fi

case "$1" in
  driver)
    shift
    export SPARK_CLASSPATH="${class_path}"
    exec tini -s -- "${SPARK_HOME}/bin/spark-submit" \
      --conf "spark.driver.bindAddress=${SPARK_DRIVER_BIND_ADDRESS}" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=${SPARK_DRIVER_BIND_ADDRESS}" \
      --deploy-mode client \
      "$@"
    ;;
  executor)
    # SPARK_JAVA_OPT_0, _1, … in numeric order (_10 comes after _9); values may hold blanks, quotes and newlines.
    java_options=()
    while read -r number; do
      variable="SPARK_JAVA_OPT_${number}"
      java_options+=("${!variable}")
    done < <(compgen -e | sed -n 's/^SPARK_JAVA_OPT_\([0-9][0-9]*\)$/\1/p' | sort -n)
    export SPARK_CLASSPATH="${class_path}:${PWD}"
    # The jars first, as the archive of classes has them (see the Dockerfile).
    exec tini -s -- "${JAVA_HOME}/bin/java" \
      "${java_options[@]}" \
      "-Xms${SPARK_EXECUTOR_MEMORY}" "-Xmx${SPARK_EXECUTOR_MEMORY}" \
      -cp "$(cat "${SPARK_HOME}/class-path"):${SPARK_CLASSPATH}:${SPARK_DIST_CLASSPATH}" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "${SPARK_DRIVER_URL}" \
      --executor-id "${SPARK_EXECUTOR_ID}" \
      --cores "${SPARK_EXECUTOR_CORES}" \
      --app-id "${SPARK_APPLICATION_ID}" \
      --hostname "${SPARK_EXECUTOR_POD_IP}" \
      --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID}" \
      --podName "${SPARK_EXECUTOR_POD_NAME}"
    ;;
  *)
    exec "$@"
    ;;
esac
