#!/bin/bash
# Makes the JVM's archive of Spark's classes, in the build of the tests' image.
set -euo pipefail

# An executor copies the jar to where it runs.
work=$(mktemp -d)
cd "$work"
log=$work/log
export SPARK_PRINT_LAUNCH_COMMAND=1 SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost
if ! "$SPARK_HOME/bin/spark-submit" --master 'local[1]' --class org.apache.spark.examples.LoadClasses \
  --driver-java-options "-XX:ArchiveClassesAtExit=$SPARK_HOME/classes.jsa -Xlog:disable" \
  "$SPARK_HOME/examples/jars/spark-examples.jar" >"$log" 2>&1; then
  tail -50 "$log" >&2
  exit 1
fi

# An executor's class path has to begin as a driver's does, which differs between lines of Spark.
sed -n "s#^Spark Command: [^ ]* -cp \([^ ]*\) .*#:\1#; s#:$SPARK_HOME/conf/:#:#; s#^:##p" "$log" >"$SPARK_HOME/class-path"
rm -r "$work"
test -s "$SPARK_HOME/class-path"
test -s "$SPARK_HOME/classes.jsa"
