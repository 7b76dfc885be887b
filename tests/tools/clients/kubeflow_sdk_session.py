"""Runs a session of Spark Connect by Kubeflow's SDK, from outside the cluster or in a pod: kubeflow_sdk_session.py IMAGE VERSION"""

import os
import pathlib
import signal
import sys

from kubeflow.spark import Driver, KubernetesBackendConfig, PodTemplateOverride, SparkClient
from kubeflow.spark.backends.kubernetes import constants

# The node has one image of Spark. All other settings are the SDK's defaults.
constants.DEFAULT_SPARK_IMAGE, constants.DEFAULT_SPARK_VERSION = sys.argv[1:]
# A node of a test has few cores.
SMALL = {"spark.kubernetes.driver.request.cores": "200m", "spark.kubernetes.executor.request.cores": "200m"}


def without_download(connect, _):
    """An option of a user whose pods reach no Maven repository: the image has the jar of Spark Connect, as all since 4.0."""
    del connect.spec.spark_conf["spark.jars"]


client = SparkClient(KubernetesBackendConfig(namespace="default"))
small = {"spec": {"containers": [{"name": "spark-kubernetes-driver", "resources": {"requests": {"cpu": "200m"}}}]}}
session = client.connect(
    spark_conf=SMALL,
    driver=Driver(service_account=constants.DEFAULT_SERVICE_ACCOUNT),
    options=[without_download, PodTemplateOverride(role="driver", template=small)],
)
print("session:", session.range(100).count())
(listed,) = client.list_sessions()
print("its server:", listed.state.value, any("SparkConnectServer" in line for line in client.get_session_logs(listed.name)))
session.stop()
client.delete_session(listed.name)
# From outside, the SDK leaves its `kubectl port-forward` behind.
for child in pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
    os.kill(int(child), signal.SIGTERM)
