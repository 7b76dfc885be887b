"""Prints the first line of each file that it is told of, as the driver and an executor find it."""

import sys

from pyspark import SparkFiles
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()


def first_line(name):
    with open(SparkFiles.get(name)) as file:
        return file.readline().strip()


for name in sys.argv[1:]:
    print(f"driver finds {name}:", first_line(name))
    print(f"executor finds {name}:", spark.sparkContext.parallelize([name], 1).map(first_line).collect()[0])
spark.stop()
