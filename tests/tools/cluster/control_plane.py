"""Starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and waits until they are ready."""

import base64
import json
import pathlib
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request

import network
from layout import Cluster
from processes import start, wait_until
from programs import program

ADDRESS = f"https://{network.NODE_ADDRESS}:6443"
ISSUER = "https://kubernetes.default.svc.cluster.local"
# Go collects garbage when the heap has grown by this percentage. The default (100) takes a fifth of kube-apiserver's time, and its heap is
# small: a test machine has memory to spare.
SELDOM = "400"

# A CA and a separate leaf: rustls refuses a certificate that is both a CA's and a server's.
CERTIFICATES = f"""
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
subjectAltName = DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,\
DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,\
IP:{network.NODE_ADDRESS},IP:{network.API_SERVICE_ADDRESS}
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
authorityKeyIdentifier = keyid
"""


def pki(cluster: Cluster) -> pathlib.Path:
    return cluster.folder / "pki"


def make_credentials(cluster: Cluster) -> None:
    """Keys, certificates, the administrator's token and kubeconfig, all new for each cluster."""
    folder = pki(cluster)
    folder.mkdir(mode=0o700)
    (folder / "openssl.cnf").write_text(CERTIFICATES)

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    certificate = ("req", "-x509", "-config", "openssl.cnf", "-days", "3650", "-nodes",
                   "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    openssl(*certificate, "-extensions", "authority", "-subj", f"/CN={cluster.namespace}",
            "-keyout", "ca.key", "-out", "ca.crt")
    openssl(*certificate, "-extensions", "server", "-subj", "/CN=kube-apiserver", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-keyout", "apiserver.key", "-out", "apiserver.crt")
    openssl(*certificate, "-extensions", "client", "-subj", "/CN=kube-apiserver", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-keyout", "webhook-client.key", "-out", "webhook-client.crt")
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "service-account.key")
    openssl("pkey", "-in", "service-account.key", "-pubout", "-out", "service-account.pub")

    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    name = cluster.namespace
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": ADDRESS, "certificate-authority-data": authority}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
    }
    cluster.kubeconfig.touch(mode=0o600)
    cluster.kubeconfig.write_text(json.dumps(kubeconfig, indent=2))


def admission_configuration(cluster: Cluster) -> pathlib.Path:
    """Writes the configuration by which the API server presents a certificate to webhooks, if they ask for one."""
    keys = pki(cluster)
    credentials = {"client-certificate": f"{keys}/webhook-client.crt", "client-key": f"{keys}/webhook-client.key"}
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": credentials}]}
    (cluster.folder / "webhooks.kubeconfig").write_text(json.dumps(kubeconfig))
    webhooks = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(cluster.folder / "webhooks.kubeconfig"),
    }
    plugins = [{"name": f"{name}AdmissionWebhook", "configuration": webhooks} for name in ("Mutating", "Validating")]
    configuration = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    file = cluster.folder / "admission.json"
    file.write_text(json.dumps(configuration))
    return file


def audit_policy(cluster: Cluster, user: str) -> pathlib.Path:
    """Writes a policy by which every request of one user is recorded once, when it has been answered, and no other request is."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
        "rules": [{"level": "Metadata", "users": [user]}, {"level": "None"}],
    }
    file = cluster.folder / "audit-policy.json"
    file.write_text(json.dumps(policy))
    return file


def gangs(kubernetes: str, scheduler: bool = False) -> list[str]:
    """The flag that turns on Kubernetes' own gangs, in the versions that have them."""
    minor = int(kubernetes.split(".")[1])
    if minor < 36:
        return []
    # In 1.36 the scheduler has a gate of its own for them, which later versions do not know.
    return ["--feature-gates=GenericWorkload=true" + (",GangScheduling=true" if scheduler and minor == 36 else "")]


def gang_api(kubernetes: str) -> list[str]:
    """The flag by which the API server serves PodGroups, in the versions that know them."""
    minor = int(kubernetes.split(".")[1])
    version = {36: "v1alpha2"}.get(minor, "v1beta1")
    return [f"--runtime-config=scheduling.k8s.io/{version}=true"] if minor >= 36 else []


def start_etcd_and_apiserver(cluster: Cluster, level: str, kubernetes: str, audited: str | None) -> None:
    start(
        cluster, "etcd", program("etcd"),
        "--data-dir", cluster.etcd,
        "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--unsafe-no-fsync",  # The data is deleted with the cluster, and no test simulates a power failure.
        "--quota-backend-bytes=8589934592",  # Load tests write more than the default 2 GiB.
        "--log-level=warn",
        GOGC=SELDOM,
    )
    keys = pki(cluster)
    # Started before etcd answers: it retries, and its own start takes longer than etcd's.
    start(
        cluster, "kube-apiserver", program("kube-apiserver", kubernetes),
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=0.0.0.0", "--secure-port=6443", f"--advertise-address={network.NODE_ADDRESS}",
        f"--tls-cert-file={keys}/apiserver.crt", f"--tls-private-key-file={keys}/apiserver.key",
        f"--token-auth-file={keys}/tokens.csv", "--authorization-mode=RBAC",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={keys}/service-account.pub",
        f"--service-account-signing-key-file={keys}/service-account.key",
        f"--service-cluster-ip-range={network.SERVICE_SUBNET}",
        f"--admission-control-config-file={admission_configuration(cluster)}",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        *gangs(kubernetes), *gang_api(kubernetes),
        # Without a controller-manager nothing creates the `default` accounts which this plugin requires of every pod.
        *(["--disable-admission-plugins=ServiceAccount"] if level == "api" else []),
        *([f"--audit-policy-file={audit_policy(cluster, audited)}", f"--audit-log-path={cluster.audit_log}",
           "--audit-log-mode=batch"] if audited else []),
        GOGC=SELDOM,
    )


def wait_for_apiserver(cluster: Cluster) -> None:
    wait_until(cluster, "etcd", lambda: network.answers("127.0.0.1", 2379), "etcd listens")
    # Later than /readyz, which does not wait until the first namespaces are created.
    wait_until(
        cluster, "kube-apiserver",
        lambda: is_ready(cluster) and get(cluster, "/api/v1/namespaces/default"),
        "the API server is ready and has the default namespace",
    )


def start_controllers(cluster: Cluster, kubernetes: str) -> None:
    keys = pki(cluster)
    common = (f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false", "--secure-port=0")
    start(
        cluster, "kube-controller-manager", program("kube-controller-manager", kubernetes), *common,
        f"--service-account-private-key-file={keys}/service-account.key",
        # Becomes the ConfigMap kube-root-ca.crt, without which no client in a pod can verify the API server.
        f"--root-ca-file={keys}/ca.crt",
        f"--cluster-cidr={network.POD_SUBNET}",
        "--node-monitor-period=1s",
        *gangs(kubernetes),
    )
    start(cluster, "kube-scheduler", program("kube-scheduler", kubernetes), *common, *gangs(kubernetes, scheduler=True))


def wait_for_controllers(cluster: Cluster) -> None:
    wait_until(
        cluster, "kube-controller-manager",
        lambda: get(cluster, "/api/v1/namespaces/default/serviceaccounts/default")
        and get(cluster, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"),
        "the default service account exists",
    )


def request(cluster: Cluster, path: str) -> bytes | None:
    """The API server's answer, or None if it refuses or does not answer. Only from inside the namespace."""
    kubeconfig = json.loads(cluster.kubeconfig.read_text())
    authority = base64.b64decode(kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    call = urllib.request.Request(
        ADDRESS + path, headers={"Authorization": f"Bearer {kubeconfig['users'][0]['user']['token']}"}
    )
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),  # A proxy of the caller's environment cannot be reached from here.
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=authority)),
    )
    try:
        with direct.open(call, timeout=2) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError):
        return None


def is_ready(cluster: Cluster) -> bool:
    return cluster.kubeconfig.exists() and request(cluster, "/readyz") == b"ok"


def get(cluster: Cluster, path: str) -> dict | None:
    answer = request(cluster, path)
    return json.loads(answer) if answer else None
