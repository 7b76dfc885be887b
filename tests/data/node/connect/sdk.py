"""Kubeflow's SDK, unchanged: it creates a server, finds that it is ready, uses it, lists it and deletes it."""

import sys

from kubeflow.spark import SparkClient
from kubeflow.spark.types.types import Driver

client = SparkClient()
# The SDK asks for whole cores, of which the node of these tests has two.
cores = {f"spark.kubernetes.{role}.request.cores": "200m" for role in ("driver", "executor")}
driver = Driver(image=sys.argv[1], service_account="spark")
spark = client.connect(num_executors=1, spark_conf=cores, driver=driver)
print("rows:", spark.range(100).filter("id % 7 = 0").count())

# Another test has a server of another name.
(session,) = [session for session in client.list_sessions() if session.name.startswith("spark-connect-")]
print("ready:", session.state == "Ready", client.get_session(session.name).service_name == f"{session.name}-server")
spark.stop()
client.delete_session(session.name)
