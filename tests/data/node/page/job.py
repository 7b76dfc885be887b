"""Has a query, and a job that runs until somebody kills it, and then time for whoever looks at it."""

import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(1).collect()
print("waits to be killed", flush=True)
try:
    spark.sparkContext.parallelize(range(1), 1).map(lambda n: time.sleep(600)).collect()
except Exception as error:
    print("killed:", "cancelled" in str(error), flush=True)
time.sleep(600)
