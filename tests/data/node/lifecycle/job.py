"""Ends at once, runs on until its first executor was replaced or for ever, or takes more memory than it may have. With the
second argument `alone` it does so without Spark, and so without executors."""

import os
import sys
import time

from pyspark.sql import SparkSession

hoard = []
while sys.argv[2:] == ["alone"]:
    if sys.argv[1] == "end":
        sys.exit()
    elif sys.argv[1] == "eat":
        hoard.append(b"x" * 50_000_000)
    else:
        time.sleep(1)

spark = SparkSession.builder.getOrCreate()
what = sys.argv[1]


def work():
    """The executor that works."""

    def slow(_):
        time.sleep(0.5)
        return os.environ["SPARK_EXECUTOR_ID"]

    return spark.sparkContext.parallelize([0], 1).map(slow).first()


first = work()
print("first executor:", first, flush=True)
while work() == first or what != "replace":
    if what == "eat":
        hoard.append(b"x" * 50_000_000)
    elif what == "end":
        break
spark.stop()
