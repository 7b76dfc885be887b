"""Runs batch jobs by Kubeflow's SDK, and prints the result of each, and what the SDK concludes from states of applications:
kubeflow_sdk.py IMAGE VERSION STATE…"""

import sys

from kubeflow.spark import FileJob, FuncJob, KubernetesBackendConfig, SparkClient, SparkJobStatus
from kubeflow.spark.backends.kubernetes import constants

# The node has one image of Spark. All other settings are the SDK's defaults.
constants.DEFAULT_SPARK_IMAGE, constants.DEFAULT_SPARK_VERSION, *states = sys.argv[1:]
# A node of a test has few cores.
SMALL = {"spark.kubernetes.driver.request.cores": "200m", "spark.kubernetes.executor.request.cores": "200m"}


def sums(to):
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    print("sum:", spark.sparkContext.parallelize(range(to), 2).sum())
    spark.stop()


def concluded(state):
    return SparkJobStatus.from_operator_state(None if state == "absent" else state).value


print("states:", *(f"{state}={concluded(state)}" for state in states))
client = SparkClient(KubernetesBackendConfig(namespace="default"))
name = client.submit_job(FuncJob(func=sums, func_args={"to": 100}), spark_conf=SMALL)
job = client.wait_for_job_status(name)
print("function:", job.status.value, *(line for line in client.get_job_logs(name) if line.startswith("sum:")))
print("listed:", name in [listed.name for listed in client.list_jobs(status={SparkJobStatus.COMPLETED})])
client.delete_job(name)

name = client.submit_job(FileJob(file_source="local:///nowhere.py"), spark_conf=SMALL)
try:
    client.wait_for_job_status(name)
except RuntimeError:
    print("file that is missing:", client.get_job(name).status.value)
client.delete_job(name)
