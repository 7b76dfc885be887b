"""Has a few jobs to show, and then time for whoever looks at them."""

import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
for count in (1_000, 10_000):
    print("sum:", spark.sparkContext.parallelize(range(count), 4).map(lambda n: (n % 7, n)).reduceByKey(max).collect())
print("jobs: done", flush=True)
time.sleep(600)
