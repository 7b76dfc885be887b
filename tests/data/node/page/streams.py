"""Has a stream of each of the two kinds that Spark knows, and rows in memory, and then time for whoever looks at them."""

import time

from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
spark.range(1).collect()
context.parallelize(range(10), 1).setName("kept rows").cache().count()

rates = spark.readStream.format("rate").load().writeStream.format("noop").option("checkpointLocation", "/tmp/rates")
query = rates.trigger(processingTime="1 second").start()
counts = []
streaming = StreamingContext(context, 1)
batches = streaming.queueStream([context.parallelize(range(10), 1) for _ in range(5)])
batches.foreachRDD(lambda batch: counts.append(batch.count()))
streaming.start()
while len(counts) < 5 or query.lastProgress is None:
    time.sleep(0.2)
print("streams: flow", flush=True)
time.sleep(600)
