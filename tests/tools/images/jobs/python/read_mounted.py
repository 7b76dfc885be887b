"""Are a mounted file and a mounted writable folder really there, in the driver and in the executors?

Arguments: a file to read and, optionally, a folder to write in. Prints `driver read: <content>`, `executor read:
<content>`, `driver wrote: <path>`, `executor wrote: <path>`. Fails if any of it is impossible.
"""

import os
import socket
import sys

from pyspark.sql import SparkSession


def read(file: str) -> str:
    with open(file) as opened:
        return opened.read().strip()


def write(folder: str, role: str) -> str:
    path = os.path.join(folder, f"{role}.txt")
    content = f"{role} on {socket.gethostname()}"
    with open(path, "w") as opened:
        opened.write(content)
    if read(path) != content:
        raise OSError(f"{path} does not hold what was written")
    return path


if __name__ == "__main__":
    file, *folders = sys.argv[1:3]
    session = SparkSession.builder.appName("Read mounted").getOrCreate()
    print("driver read:", read(file))
    for content in session.sparkContext.parallelize([file], 1).map(read).collect():
        print("executor read:", content)
    for folder in folders:
        print("driver wrote:", write(folder, "driver"))
        for path in session.sparkContext.parallelize([folder], 1).map(lambda place: write(place, "executor")).collect():
            print("executor wrote:", path)
    session.stop()
