# Puts the configuration folder of a command in the array CMD behind Spark's jars. bin/spark-class of the tests' image sources this: the JVM
# uses an archive of classes only if the class path begins as it did when the archive was made, and with no folder that has files.
for i in "${!CMD[@]}"; do
  if [ "${CMD[$i]}" = -cp ]; then
    folder="${SPARK_CONF_DIR:-${SPARK_HOME}/conf}/"
    class_path=":${CMD[$((i + 1))]}:"
    class_path="${class_path/":$folder:"/:}$folder"
    CMD[i + 1]="${class_path#:}"
    break
  fi
done
