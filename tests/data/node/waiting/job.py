"""Keeps an executor until somebody creates a file in the driver."""

import os
import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.parallelize(range(2), 2).count()
while not os.path.exists("/tmp/enough"):
    time.sleep(0.5)
spark.stop()
