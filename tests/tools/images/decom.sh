#!/bin/bash
# How does an executor leave in good order before its pod is deleted?
#
# Spark names this path as preStop hook of executors (spark.kubernetes.decommission.script) when decommissioning is
# on. SIGPWR makes the executor hand its blocks over; kubelet waits for this script, so it stays until the JVM ended.

executor="$(pgrep -o java)" || exit 0
kill -PWR "${executor}"
tail --pid="${executor}" -f /dev/null
