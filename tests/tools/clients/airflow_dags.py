"""DAGs of one task each, with the operator and the sensor of Airflow's provider: tests/it/soak/clients.rs has the expected result of each."""

import copy
import datetime
import json
import os

from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
from airflow.providers.cncf.kubernetes.sensors.spark_kubernetes import SparkKubernetesSensor
from airflow.sdk import DAG

# The job of tests/data/node/lifecycle as an application without arguments: with `end` it succeeds, without arguments it
# fails.
APPLICATION = json.loads(os.environ["APPLICATION"])


def submits(dag, arguments, spec=None, kubernetes=None, annotations=None, **options):
    application = copy.deepcopy(APPLICATION)
    application["spec"].update(arguments=arguments, **(spec or {}))
    application["metadata"]["annotations"] = annotations or {}
    body = {"spark": application, **({"kubernetes": kubernetes} if kubernetes else {})}
    with DAG(dag, schedule=None):
        SparkKubernetesOperator(task_id="submits", name=dag, namespace="default", template_spec=body, **options)


def waits_for(dag, application):
    with DAG(dag, schedule=None):
        SparkKubernetesSensor(
            task_id="waits", application_name=application, namespace="default", attach_log=True, poke_interval=2, timeout=300
        )


def notes_processes(_):
    """Adds a line for this attempt: the process ids of the worker that supervises it, and of the process that runs it."""
    with open(os.path.join(os.environ["AIRFLOW_HOME"], "tries"), "a") as file:
        print(os.getppid(), os.getpid(), file=file)


submits("succeeds", ["end"])
submits("is-kept", ["end"], delete_on_termination=False, random_name_suffix=False)
submits("fails", [], delete_on_termination=False, random_name_suffix=False)
submits("is-retried", [], delete_on_termination=False, retries=1, retry_delay=datetime.timedelta(seconds=1))
# It fails later than ten seconds, Airflow's polling interval, after its start: Airflow deletes no application that has
# failed before a poll.
submits(
    "is-renewed",
    ["eat"],
    random_name_suffix=False,
    retries=1,
    retry_delay=datetime.timedelta(seconds=1),
    pre_execute=notes_processes,
)
submits("is-deferred", ["end"], deferrable=True)
submits("is-suspended", ["end"], spec={"suspend": True})
submits("is-mortal", ["end"], spec={"timeToLiveSeconds": 60}, delete_on_termination=False, random_name_suffix=False)
submits("is-by-spark-submit", ["end"], annotations={"sparkoperator.k8s.io/submitter": "spark-submit"})
# Its worker is killed while the driver waits for another executor.
submits(
    "is-reattached",
    ["replace"],
    delete_on_termination=False,
    random_name_suffix=False,
    retries=1,
    retry_delay=datetime.timedelta(seconds=1),
    pre_execute=notes_processes,
)
SIDECAR = {"name": "companion", "image": APPLICATION["spec"]["image"], "command": ["sleep", "3600"], "restartPolicy": "Always"}
submits("has-sidecar", ["end"], spec={"driver": {**APPLICATION["spec"]["driver"], "initContainers": [SIDECAR]}})
# What the provider adds from its own section: lists and maps that are empty, and labels that no field of a spec has.
submits(
    "has-additions",
    ["end"],
    kubernetes={
        "volumes": APPLICATION["spec"]["volumes"],
        "volume_mounts": APPLICATION["spec"]["driver"]["volumeMounts"],
        "env_vars": [],
        "env_from": [],
        "image_pull_secrets": [],
        "config_map_mounts": {},
        "from_env_config_map": [],
        "from_env_secret": [],
        "affinity": None,
        "tolerations": [],
        "node_selector": {},
    },
)
waits_for("waits-for-success", "is-kept")
waits_for("waits-for-failure", "fails")
