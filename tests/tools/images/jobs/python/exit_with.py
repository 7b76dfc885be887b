"""What becomes of an application that ends with a given exit code, at once or after a while?

Arguments: the exit code and, optionally, for how many seconds a task sleeps on an executor first.
"""

import sys
import time

code = int(sys.argv[1])
if len(sys.argv) > 2:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.appName(f"Exit with {code}").getOrCreate()
    session.sparkContext.parallelize([float(sys.argv[2])], 1).foreach(time.sleep)
    session.stop()
print("exiting with", code)
sys.exit(code)
