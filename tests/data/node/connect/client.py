"""A client of Spark Connect, as in a notebook: rows, a function that executors run, and an error that the client sees."""

import os
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
rows = spark.range(100).selectExpr("id", "id * 2 AS double").collect()
print("rows:", len(rows), rows[7].double)

host = udf(lambda _: os.uname().nodename)
hosts = spark.range(4).select(host("id").alias("host")).distinct().collect()
print("executors:", *sorted(row.host for row in hosts))

try:
    spark.range(3).select(udf(lambda id: str(1 // id))("id")).collect()
except PySparkException as error:
    print("error:", "division" in str(error) and "by zero" in str(error))
spark.stop()
