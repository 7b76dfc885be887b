"""A client of Spark Connect with a job of two tasks, which take longer than an executor takes to start: which executors ran them?"""

import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf


def host(_):
    time.sleep(20)
    return os.uname().nodename


spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
# Without a shuffle, whose data keep executors alive.
rows = spark.range(0, 2, 1, 2).select(udf(host)("id").alias("host")).collect()
print("executors:", *sorted(row.host for row in rows))
spark.stop()
