//! Plays the node on which submission pods run: runs each pod's own script and arguments as a process of this machine.
//!
//! These tests have an API server without nodes, so a submission pod would wait for ever. A test that submits by
//! `spark-submit` starts a [`SubmissionNode`] beside its operator. The node binds every submission pod of the test's
//! namespace to itself, writes the files that the pod mounts, runs the container `spark-submit` with the rights of the
//! pod's service account, and reports the result as a kubelet does. When a pod is deleted, its process is killed. Paths
//! of the container are replaced by those of this machine; everything else is as the operator has written it.

use super::processes::is_group_alive;
use crate::apiserver::prelude::*;
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    api::Preconditions,
    runtime::watcher::{self, Event, watcher},
};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::ExitStatusExt;
use tokio::{
    process::{Child, Command},
    sync::Semaphore,
};

/// The container of a submission pod in which `spark-submit` runs.
pub(crate) const CONTAINER: &str = "spark-submit";
/// Where a submission pod has its files, Spark's program and the file for its termination message.
const MOUNTED: &str = "/etc/spark-submission";
const PROGRAM: &str = "/opt/spark/bin/spark-submit";
const TERMINATION_LOG: &str = "/dev/termination-log";
/// The limits of a kubelet for a termination message in bytes, and for the end of a log that replaces it.
const LONGEST_MESSAGE: usize = 4096;
const LONGEST_TAIL: usize = 2048;
const LINES_OF_TAIL: usize = 80;
/// The number of pods for which the node has room: as many as fit on one core with the operator's default request. More
/// JVMs would take so long to start here that Spark's connections time out.
const ROOM: usize = 4;
/// A `spark-submit` ends before the JVM's second compiler pays off: without it, the JVM takes half of the CPU time.
const SHORT_LIVED: &str = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds=off -Xlog:cds+dynamic=off";
/// The exit code of a container that was killed.
pub(crate) const KILLED: i32 = 128 + 9;
const PAUSE: Duration = Duration::from_millis(20);

/// How submission pods are run; all other settings have their defaults.
pub(crate) struct Setup<'a> {
    namespace: &'a Namespace,
    home: PathBuf,
    cluster: Option<Value>,
    env: Vec<(String, String)>,
}

/// A node for submission pods; the node and the processes of its pods end when this value is dropped.
pub(crate) struct SubmissionNode {
    running: Arc<Mutex<Running>>,
    folder: PathBuf,
    _background: Background,
}

/// The process groups of running pods, by the pods' names.
#[derive(Default)]
struct Running {
    groups: BTreeMap<String, Pid>,
    /// Whether the node has ended, so that no other pod is started.
    is_over: bool,
}

impl Setup<'_> {
    /// Sends all requests of `spark-submit` through `proxy`.
    pub(crate) fn through(self, proxy: &Proxy) -> Self {
        Self { cluster: Some(proxy.cluster()), ..self }
    }

    /// Adds an environment variable to the image.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Creates the drivers' service account `spark` with its rights, and starts the node.
    pub(crate) async fn start(self) -> SubmissionNode {
        let namespace = self.namespace;
        let folder = namespace.folder.join("submission-pods");
        fs::create_dir_all(&folder).unwrap();
        account(namespace.name).await;
        let mut config = calls::kubeconfig();
        if let Some(cluster) = self.cluster {
            config["clusters"][0]["cluster"] = cluster;
        }
        let home = self.home.to_str().unwrap();
        // `tests/tools/cluster/cluster spark-home` has archived the classes of Spark, which halves the CPU time once more.
        let version = self.home.file_name().unwrap().to_str().unwrap();
        let archive = self.home.with_file_name(format!("classes-{version}.jsa"));
        let java_options = format!("{SHORT_LIVED} -XX:SharedArchiveFile={}", archive.display());
        let variables = [("SPARK_HOME", home), ("JAVA_TOOL_OPTIONS", &java_options)];
        let mut image = Vec::from(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        image.extend(self.env);
        let running = Arc::default();
        let machine = Machine {
            namespace: namespace.name,
            home: self.home,
            image,
            config,
            folder: folder.clone(),
            running: Arc::clone(&running),
        };
        let background = Background::start();
        background.spawn(machine.work());
        SubmissionNode { running, folder, _background: background }
    }
}

/// Creates the service account `spark` of `namespace`, with its rights from the manifests.
async fn account(namespace: &str) {
    for object in account_objects(namespace) {
        calls::apply(&object, Some(namespace));
    }
    let account = format!("system:serviceaccount:{namespace}:spark");
    calls::until_may_create(true, &account, "pods", namespace).await;
}

/// Returns the service account `spark` of `namespace` and its rights, as in the manifests.
pub(crate) fn account_objects(namespace: &str) -> Vec<Value> {
    let mut objects = documents("manifests/rbac/spark.yaml");
    for object in &mut objects {
        object["metadata"]["namespace"] = json!(namespace);
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            subject["namespace"] = json!(namespace);
        }
    }
    objects
}

impl SubmissionNode {
    /// Returns a node that has not been started yet. The Spark in `home`, or a stand-in, replaces the image's Spark.
    pub(crate) fn of<'a>(namespace: &'a Namespace, home: &Path) -> Setup<'a> {
        Setup { namespace, home: home.to_owned(), cluster: None, env: Vec::new() }
    }

    /// Waits until no `spark-submit` runs.
    pub(crate) async fn is_idle(&self) {
        eventually("no spark-submit runs", async || {
            let running = self.running.lock().unwrap();
            seen(running.groups.is_empty(), &running.groups)
        })
        .await;
    }

    /// Replaces paths of this machine in `text` by those of the container, as a `spark-submit` may have passed them on.
    pub(crate) fn as_in_the_container(&self, text: &str) -> String {
        let folder = format!("{}/", self.folder.to_str().unwrap());
        let mut parts = text.split(&folder);
        let mut replaced = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // <uid of the pod>/spark-submission/…
            let below = part.splitn(3, '/').nth(2).expect("files lie below the folder of their pod");
            replaced = format!("{replaced}{MOUNTED}/{below}");
        }
        replaced
    }
}

impl Drop for SubmissionNode {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap();
        running.is_over = true;
        for group in running.groups.values() {
            // An error means that no process of the group exists any more.
            kill_process_group(*group, Signal::KILL).ok();
        }
    }
}

/// The settings and the folder with which pods are run.
struct Machine {
    namespace: &'static str,
    /// `$SPARK_HOME`.
    home: PathBuf,
    /// The variables of the image.
    image: Vec<(String, String)>,
    /// The kubeconfig of a pod, with the administrator's rights.
    config: Value,
    folder: PathBuf,
    running: Arc<Mutex<Running>>,
}

/// A [`Machine`] with access to the API server.
struct Kubelet {
    machine: Machine,
    room: Semaphore,
    pods: Api<Pod>,
    config_maps: Api<ConfigMap>,
    accounts: Api<ServiceAccount>,
}

impl Machine {
    async fn work(self) {
        let client =
            Client::try_default().await.expect("KUBECONFIG is set by `tests/tools/cluster/cluster exec`");
        let kubelet = Arc::new(Kubelet {
            pods: Api::namespaced(client.clone(), self.namespace),
            config_maps: Api::namespaced(client.clone(), self.namespace),
            accounts: Api::namespaced(client, self.namespace),
            room: Semaphore::new(ROOM),
            machine: self,
        });
        let mut known = BTreeMap::<String, CancellationToken>::new();
        let submitting = watcher::Config::default().labels("spark-role=submission");
        let mut events = watcher(kubelet.pods.clone(), submitting).boxed();
        while let Some(event) = events.next().await {
            let (pod, is_gone) = match event.expect("the test's own requests bypass the proxy, so none fails")
            {
                Event::Apply(pod) | Event::InitApply(pod) => (pod, false),
                Event::Delete(pod) => (pod, true),
                Event::Init | Event::InitDone => continue,
            };
            let uid = pod.uid().unwrap();
            let is_ended = is_gone || pod.metadata.deletion_timestamp.is_some();
            let end = known.entry(uid).or_insert_with(|| {
                let end = CancellationToken::new();
                // A pod that was already gone belonged to an earlier node.
                if !is_gone {
                    tokio::spawn(Arc::clone(&kubelet).host(pod, end.clone()));
                }
                end
            });
            if is_ended {
                end.cancel();
            }
        }
    }
}

impl Kubelet {
    /// Runs `pod` until it ends by itself or `end` is cancelled; deletes the pod once `end` is cancelled.
    async fn host(self: Arc<Self>, pod: Pod, end: CancellationToken) {
        if end.run_until_cancelled(self.run(&pod)).await.is_none() {
            self.has_ended(&pod.name_any()).await;
            let killed = json!({"exitCode": KILLED, "reason": "Error"});
            self.report(&pod, "Failed", &json!({"terminated": killed}), None).await;
        }
        end.cancelled().await;
        let this = Preconditions { uid: pod.uid(), resource_version: None };
        let now = DeleteParams::default().grace_period(0).preconditions(this);
        // The pod is already gone if it was deleted before it was bound to this node, or after it had ended.
        self.pods.delete(&pod.name_any(), &now).await.ok();
    }

    async fn run(&self, pod: &Pod) {
        let _place = self.room.acquire().await.expect("this semaphore is never closed");
        let name = pod.name_any();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "submission-node"},
        });
        let to_us = PostParams::default();
        let bound = self.pods.create_subresource::<Value, Value>("binding", &name, &to_us, &binding).await;
        if bound.is_err() {
            // The pod is gone or about to be deleted.
            return;
        }
        let spec = json!(pod.spec);
        let containers = spec["containers"].as_array().unwrap();
        let container = containers.iter().find(|container| container["name"] == CONTAINER).expect(CONTAINER);
        let folder = self.machine.folder.join(pod.uid().unwrap());
        self.write_files(&spec, container, &folder).await;
        let account = spec["serviceAccountName"].as_str().unwrap_or("default");
        self.write_kubeconfig(account, &folder.join("kubeconfig")).await;

        let Some(mut started) = self.start(&name, container, &folder) else { return };
        let began = json!({"startedAt": "2026-01-01T00:00:00Z"});
        self.report(pod, "Running", &json!({"running": began}), None).await;
        let deadline = spec["activeDeadlineSeconds"].as_u64().map_or(Duration::MAX, Duration::from_secs);
        let ended = timeout(deadline, started.child.wait()).await;
        let code = ended.as_ref().ok().map(|status| {
            let status = status.as_ref().unwrap();
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
        });
        drop(started);
        self.has_ended(&name).await;
        let exit_code = code.unwrap_or(KILLED);
        let reason = if exit_code == 0 { "Completed" } else { "Error" };
        let message = termination_message(&folder, exit_code);
        let terminated = json!({"terminated": {"exitCode": exit_code, "reason": reason, "message": message}});
        let phase = match exit_code {
            // An injected sidecar continues.
            _ if containers.len() > 1 && code.is_some() => "Running",
            0 => "Succeeded",
            _ => "Failed",
        };
        let too_long = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");
        self.report(pod, phase, &terminated, code.is_none().then_some(too_long)).await;
    }

    /// Writes the files that the container mounts, and an empty termination message. Waits for missing ConfigMaps.
    async fn write_files(&self, spec: &Value, container: &Value, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("termination-log"), "").unwrap();
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let volumes = spec["volumes"].as_array().unwrap();
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            let there = folder.join(mount["name"].as_str().unwrap());
            fs::create_dir_all(&there).unwrap();
            let source = &volume["configMap"];
            let Some(name) = source["name"].as_str() else { continue };
            let config_map = loop {
                match self.config_maps.get_opt(name).await.unwrap() {
                    Some(config_map) => break json!(config_map),
                    None => sleep(PAUSE).await,
                }
            };
            let data = config_map["data"].as_object().cloned().unwrap_or_default();
            let all = || data.keys().map(|key| json!({"key": key, "path": key})).collect();
            for item in source["items"].as_array().cloned().unwrap_or_else(all) {
                let key = item["key"].as_str().unwrap();
                let text = data.get(key).unwrap_or_else(|| panic!("{name} has no {key}")).as_str().unwrap();
                let path = there.join(item["path"].as_str().unwrap());
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, self.on_this_machine(text, container, folder)).unwrap();
            }
        }
    }

    /// Writes a kubeconfig with a token of the service account.
    async fn write_kubeconfig(&self, account: &str, path: &Path) {
        let asked: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
        let asked = self.accounts.create_token_request(account, &PostParams::default(), &asked).await;
        let token = asked.unwrap_or_else(|error| panic!("{account}: {error}")).status.unwrap().token;
        let mut config = self.machine.config.clone();
        config["users"][0]["user"] = json!({"token": token});
        fs::write(path, config.to_string()).unwrap();
    }

    /// Starts the container's process; returns `None` if the node has ended.
    fn start(&self, pod: &str, container: &Value, folder: &Path) -> Option<Started> {
        let env = environment(container);
        let args = container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
        let mut words: Vec<String> = args
            .map(|argument| self.on_this_machine(&expanded(argument, &env), container, folder))
            .map(|argument| {
                argument.replace(PROGRAM, self.machine.home.join("bin/spark-submit").to_str().unwrap())
            })
            .collect();
        // The URL of the API server is replaced by that in the kubeconfig.
        if let Some(master) = words.iter().position(|word| word == "--master") {
            let server = self.machine.config["clusters"][0]["cluster"]["server"].as_str().unwrap();
            words[master + 1] = format!("k8s://{server}");
        }
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap())
            .envs(env::var_os("JAVA_HOME").map(|home| ("JAVA_HOME", home)))
            .env("HOME", folder)
            .env("KUBECONFIG", folder.join("kubeconfig"))
            .envs(self.machine.image.iter().map(|(name, value)| (name, value)))
            .envs(env.iter().map(|(name, value)| (name, self.on_this_machine(value, container, folder))))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0);
        let mut running = self.machine.running.lock().unwrap();
        if running.is_over {
            return None;
        }
        let child = command.spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        running.groups.insert(pod.to_owned(), group);
        Some(Started { child, group })
    }

    /// Replaces the paths of the container in `text` by those below `folder`.
    fn on_this_machine(&self, text: &str, container: &Value, folder: &Path) -> String {
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        let mount = mounts.into_iter().find(|mount| mount["mountPath"] == MOUNTED).expect(MOUNTED);
        let files = folder.join(mount["name"].as_str().unwrap());
        text.replace(MOUNTED, files.to_str().unwrap())
            .replace(TERMINATION_LOG, folder.join("termination-log").to_str().unwrap())
    }

    /// Waits until no process of the pod exists.
    async fn has_ended(&self, pod: &str) {
        let group = self.machine.running.lock().unwrap().groups.get(pod).copied();
        let Some(group) = group else { return };
        while is_group_alive(group) {
            sleep(PAUSE).await;
        }
        self.machine.running.lock().unwrap().groups.remove(pod);
    }

    /// Writes the status of exactly this pod: its phase, the state of the container, and a reason if the pod has one.
    async fn report(&self, pod: &Pod, phase: &str, state: &Value, why: Option<(&str, &str)>) {
        let containers = pod.spec.as_ref().unwrap().containers.iter();
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let statuses: Vec<_> = containers
            .map(|container| {
                let state = if container.name == CONTAINER { state } else { &running };
                json!({"name": container.name, "image": "", "imageID": "", "state": state})
            })
            .collect();
        let mut status = json!({"phase": phase, "containerStatuses": statuses});
        if let Some((reason, message)) = why {
            status["reason"] = json!(reason);
            status["message"] = json!(message);
        }
        let uid = pod.uid().unwrap_or_default();
        kubelet::reported(&self.pods, &pod.name_any(), &uid, &status).await;
    }
}

/// A process with all its child processes, which end when this value is dropped.
struct Started {
    child: Child,
    group: Pid,
}

impl Drop for Started {
    fn drop(&mut self) {
        // An error means that no process of the group exists any more.
        kill_process_group(self.group, Signal::KILL).ok();
    }
}

/// Returns the container's variables as a kubelet sets them, except for those with a `valueFrom`.
fn environment(container: &Value) -> Vec<(String, String)> {
    let mut made: Vec<(String, String)> = Vec::new();
    for variable in container["env"].as_array().into_iter().flatten() {
        if variable["valueFrom"].is_null() {
            let value = expanded(variable["value"].as_str().unwrap_or_default(), &made);
            made.push((variable["name"].as_str().unwrap().to_owned(), value));
        }
    }
    made
}

/// Returns `text` with every `$(NAME)` of `env` replaced by its value and every `$$` by `$`, as Kubernetes does
/// (`third_party/forked/golang/expansion/expand.go`).
pub(crate) fn expanded(text: &str, env: &[(String, String)]) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        made += before;
        rest = behind;
        if let Some(behind) = rest.strip_prefix('$') {
            made.push('$');
            rest = behind;
            continue;
        }
        let Some((name, behind)) = rest.strip_prefix('(').and_then(|inside| inside.split_once(')')) else {
            made.push('$');
            continue;
        };
        match env.iter().rev().find(|(known, _)| known == name) {
            Some((_, value)) => made += value,
            None => made += &format!("$({name})"),
        }
        rest = behind;
    }
    made + rest
}

/// Returns what a kubelet keeps of the container's termination message, or else of the end of its log.
fn termination_message(folder: &Path, exit_code: i32) -> String {
    let message = fs::read(folder.join("termination-log")).unwrap_or_default();
    if !message.is_empty() || exit_code == 0 {
        let start = message.len().saturating_sub(LONGEST_MESSAGE);
        return String::from_utf8_lossy(&message[start..]).into_owned();
    }
    let log = fs::read(folder.join("log")).unwrap_or_default();
    let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(LONGEST_TAIL)..]).into_owned();
    let lines: Vec<_> = tail.split_inclusive('\n').collect();
    lines[lines.len().saturating_sub(LINES_OF_TAIL)..].concat()
}
