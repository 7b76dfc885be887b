"""A client of Spark Connect that fetches rows as Arrow: how long the first row takes, and how much time and CPU so many rows."""

import sys
import time

from pyspark.sql import SparkSession

address, rows = sys.argv[1], int(sys.argv[2])
begun = time.monotonic()
spark = SparkSession.builder.remote(address).getOrCreate()
spark.range(1).collect()
print(time.monotonic() - begun)
if rows:
    begun, before = time.monotonic(), time.process_time()
    table = spark.range(rows).toArrow()
    assert table.num_rows == rows
    print(table.nbytes, time.monotonic() - begun, time.process_time() - before)
spark.stop()
