"""Counts, and says with how many executors, and where its scratch space is."""

import contextlib
import os
import threading
import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext


def executors():
    # The driver's own block manager counts.
    return context._jsc.sc().getExecutorMemoryStatus().size() - 1


def wait_until(condition, seconds=180):
    end = time.time() + seconds
    while not condition() and time.time() < end:
        time.sleep(0.2)


def work():
    """Keeps two executors busy until the job is cancelled."""
    with contextlib.suppress(Exception):
        context.parallelize(range(1000), 1000).map(slow).count()


def slow(number):
    time.sleep(2)
    return number


def on_executor(_):
    yield os.environ["SPARK_LOCAL_DIRS"], os.environ.get("COLOUR"), os.path.ismount("/scratch")


print("result:", context.parallelize(range(100_000), 8).map(lambda n: n * n).sum())
print("scratch of driver:", os.environ["SPARK_LOCAL_DIRS"])
print("executor saw:", context.parallelize([0], 1).mapPartitions(on_executor).collect()[0])
if spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
    threading.Thread(target=work).start()
    # On a slow node the second one starts long after the first.
    wait_until(lambda: context.statusTracker().getActiveJobsIds() and executors() == 2)
    grown = executors()
    context.cancelAllJobs()
    wait_until(lambda: executors() == 0)
    print("executors:", grown, "then", executors())
spark.stop()
