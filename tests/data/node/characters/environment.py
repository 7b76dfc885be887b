"""Which environment has the container been given? Prints it for the driver and for an executor, each value as its SHA-256.

The environment is that of the container's first process, as bytes: Java and Python may read some of them in their own way.
"""

import hashlib

from pyspark.sql import SparkSession


def environment():
    with open("/proc/1/environ", "rb") as file:
        variables = [variable.split(b"=", 1) for variable in file.read().split(b"\0") if variable]
    given = (b"HARD_", b"FULL_")
    return {name.decode(): hashlib.sha256(value).hexdigest() for name, value in variables if name.startswith(given)}


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    executors = session.sparkContext.parallelize([()], 1).map(lambda _: environment())
    # A line each: the container runtime cuts lines of over 16 KiB, and what the JVM says meanwhile comes in between.
    for role, given in {"driver": environment(), "executor": executors.first()}.items():
        for name, value in given.items():
            print(f"{role} given: {name}={value}")
    session.stop()
