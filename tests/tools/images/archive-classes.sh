#!/bin/bash
# Makes the JVM's archive of Spark's classes, and prints the class path that it holds for: archive-classes.sh JAR ARCHIVE
# JAR has LoadClasses (tests/tools/images/jobs). The build of the tests' image runs this, and `cluster spark-home` for submissions without one.
set -euo pipefail

# An executor copies the jar to where it runs.
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work"
export SPARK_PRINT_LAUNCH_COMMAND=1 SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost
if ! "$SPARK_HOME/bin/spark-submit" --master 'local[1]' --class org.apache.spark.examples.LoadClasses \
  --driver-java-options "-XX:ArchiveClassesAtExit=$2 -Xlog:disable" "$1" >log 2>&1; then
  tail -50 log >&2
  exit 1
fi
test -s "$2"

# Without the folder of the configuration; the rest differs between lines of Spark.
sed -n "s#^Spark Command: [^ ]* -cp \([^ ]*\) .*#:\1#; s#:$SPARK_HOME/conf/:#:#; s#^:##p" log | grep .
