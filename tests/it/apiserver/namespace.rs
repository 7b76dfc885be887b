//! Gives each test a namespace of its own, which is empty when the test begins, in a cluster with our manifests and
//! without applications of other tests.

use super::{
    calls::{applied, delete_all, metadata_at},
    operator::{self, LEASE},
};
use crate::apiserver::prelude::*;
use futures::TryStreamExt;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::PersistentVolumeClaim, discovery::v1::EndpointSlice, events::v1::Event,
        networking::v1::NetworkPolicy, policy::v1::PodDisruptionBudget,
    },
};
use kube::{
    Resource,
    api::{ApiResource, WatchEvent, WatchParams},
};
use tokio::sync::{Mutex, MutexGuard};

/// Locked by the test that runs, because only one test at a time can use the operator's ports and the webhook's
/// configuration. The value is whether our manifests are installed.
static ALONE: Mutex<bool> = Mutex::const_new(false);

pub(crate) struct Namespace {
    pub name: &'static str,
    /// The folder for the test's files; empty when the test begins.
    pub folder: PathBuf,
    client: Client,
    /// The cluster's `resourceVersion` when the test began.
    beginning: String,
    _alone: Option<MutexGuard<'static, bool>>,
}

impl Namespace {
    /// Creates the namespace `name`, or empties an existing one. Applications, schedules and pods of earlier tests are
    /// deleted in all namespaces, so that no operator of this test works on these objects, and the operator's Lease.
    pub(crate) async fn new(name: &'static str) -> Self {
        let mut alone = ALONE.lock().await;
        operator::assert_none_is_left();
        if !*alone {
            install_once();
            *alone = true;
        }
        let client =
            Client::try_default().await.expect("KUBECONFIG is set by `tests/tools/cluster/cluster exec`");
        clear_everywhere::<ScheduledSparkApplication>(&client).await;
        clear_everywhere::<SparkApplication>(&client).await;
        clear_everywhere::<SparkConnect>(&client).await;
        // A node that a test played is gone after the test, so no kubelet ends the pods that are left on the node.
        clear_everywhere::<Pod>(&client).await;
        // A killed operator has not released its Lease: the next one would wait until the Lease has expired.
        calls::delete(LEASE);
        Self::emptied(name, client, Some(alone)).await
    }

    /// Creates another namespace for the same test, or empties an existing one: if several checks share one operator,
    /// each saves the start of an operator, a second of CPU time.
    pub(crate) async fn beside(&self, name: &'static str) -> Self {
        Self::emptied(name, self.client.clone(), None).await
    }

    async fn emptied(name: &'static str, client: Client, alone: Option<MutexGuard<'static, bool>>) -> Self {
        let itself = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        applied(&client, &itself, None).await;
        delete_all::<ConfigMap>(&client, name).await;
        delete_all::<Service>(&client, name).await;
        // Without a garbage collector these would stay, and a SparkConnect waits until those of its name are gone.
        delete_all::<NetworkPolicy>(&client, name).await;
        delete_all::<EndpointSlice>(&client, name).await;
        delete_all::<Ingress>(&client, name).await;
        delete_all::<PersistentVolumeClaim>(&client, name).await;
        delete_all::<PodDisruptionBudget>(&client, name).await;
        delete_all::<Event>(&client, name).await;
        delete_all::<ResourceQuota>(&client, name).await;
        // The folder's path contains the cluster's name, because two tests with a namespace of the same name may run in
        // two clusters at once.
        let kubeconfig =
            PathBuf::from(env::var_os("KUBECONFIG").expect("`tests/tools/cluster/cluster exec` sets it"));
        let cluster = kubeconfig.parent().and_then(Path::file_name).expect("it is in the cluster's folder");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("apiserver").join(cluster).join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{}: {error}", folder.display()),
            _ => fs::create_dir_all(&folder).unwrap(),
        }
        let pods =
            Api::<Pod>::namespaced(client.clone(), name).list_metadata(&ListParams::default()).await.unwrap();
        Self { name, folder, client, beginning: pods.metadata.resource_version.unwrap(), _alone: alone }
    }

    /// Applies `object` in this namespace.
    pub(crate) fn apply(&self, object: &Value) {
        calls::apply(object, Some(self.name));
    }

    /// Creates `object` without `kubectl`, which is slower; returns the object as the API server has stored it.
    pub(crate) async fn create<K: Ours>(&self, object: &Value) -> Value {
        let object = serde_json::from_value(object.clone()).unwrap();
        json!(self.api::<K>().create(&PostParams::default(), &object).await.unwrap())
    }

    /// Deletes an object, and waits until it is gone. Another object may have its name by then.
    pub(crate) async fn delete<K: Ours>(&self, name: &str) {
        let uid = self.get::<K>(name).await.expect(name)["metadata"]["uid"].take();
        self.api::<K>().delete(name, &DeleteParams::default()).await.unwrap();
        self.until::<K>(name, "is gone", |there| there["metadata"]["uid"] != uid).await;
    }

    /// Deletes all objects of a kind in this namespace by one request.
    pub(crate) async fn clear<K: Ours>(&self) {
        self.api::<K>().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    }

    /// Returns what `kubectl` with these arguments prints for this namespace.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl(&[arguments, &["--namespace", self.name]].concat())
    }

    pub(crate) async fn get<K: Ours>(&self, name: &str) -> Option<Value> {
        self.api::<K>().get_opt(name).await.unwrap().map(|object| json!(object))
    }

    /// Waits until there is an object of this name, and returns it.
    pub(crate) async fn there<K: Ours>(&self, name: &str) -> Value {
        self.until::<K>(name, "is there", Value::is_object).await
    }

    /// Waits until there is no object of this name.
    pub(crate) async fn is_gone<K: Ours>(&self, name: &str) {
        self.until::<K>(name, "is gone", Value::is_null).await;
    }

    /// Waits until an object fulfils `condition`, and returns the object; one that does not exist is null. `what` describes
    /// the condition in the message after the deadline.
    pub(crate) async fn until<K: Ours>(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(&format!("{} {name} {what}", K::kind(&())), async || {
            let there = self.get::<K>(name).await.unwrap_or_default();
            seen(condition(&there), &there).map(|()| there)
        })
        .await
    }

    /// Waits until an object has all fields of `expected`, and lacks those that are null there; returns the object.
    pub(crate) async fn has<K: Ours>(&self, name: &str, expected: &Value) -> Value {
        let has_it = |there: &Value| {
            let mut merged = there.clone();
            json_patch::merge(&mut merged, expected);
            merged == *there
        };
        self.until::<K>(name, &format!("has {expected}"), has_it).await
    }

    pub(crate) async fn list<K: Ours>(&self) -> Vec<Value> {
        let objects = self.api::<K>().list(&ListParams::default()).await.unwrap();
        objects.items.iter().map(|object| json!(object)).collect()
    }

    /// Returns the Services by which executors find their drivers. The Services of web UIs are left out, because the
    /// operator creates and deletes them at times for which tests do not wait.
    pub(crate) async fn driver_services(&self) -> Vec<Value> {
        let mut services = self.list::<Service>().await;
        services.retain(|service| service["metadata"]["labels"][label::CREATED_BY].is_null());
        services
    }

    /// Merges `patch` into an object, as `kubectl patch --type=merge` does.
    pub(crate) fn merge<K: Ours>(&self, name: &str, patch: &Value) {
        calls::merge(&format!("{}/{name}", K::url_path(&(), Some(self.name))), patch);
    }

    pub(crate) async fn patch_status<K: Ours>(&self, name: &str, status: &Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Replaces the stored status of an object with the status in `object`, unchanged: explicit nulls are sent as well.
    pub(crate) async fn replace_status<K: Ours>(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let object = serde_json::from_value(object.clone()).unwrap();
        self.api::<K>().replace_status(name, &PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn application(&self, name: &str) -> Value {
        self.get::<SparkApplication>(name).await.expect(name)
    }

    pub(crate) async fn pod(&self, name: &str) -> Option<Value> {
        self.get::<Pod>(name).await
    }

    /// Waits until the application is in `state`, and returns the application.
    pub(crate) async fn reaches(&self, name: &str, state: &str) -> Value {
        self.status_has(name, &json!({"applicationState": {"state": state}})).await
    }

    /// Waits until the application is in `state` after a single submission, and returns the application.
    pub(crate) async fn reaches_at_once(&self, name: &str, state: &str) -> Value {
        let once = json!({
            "applicationState": {"state": state}, "executionAttempts": 1, "submissionAttempts": 1, "runOrdinal": 1,
        });
        self.status_has(name, &once).await
    }

    /// Waits until the status of the application has all that `expected` has, and returns the application.
    pub(crate) async fn status_has(&self, name: &str, expected: &Value) -> Value {
        self.has::<SparkApplication>(name, &json!({"status": expected})).await
    }

    /// Reports that the driver of an application runs; waits until the application is RUNNING, and returns it.
    pub(crate) async fn runs(&self, name: &str) -> Value {
        kubelet::runs(self, &format!("{name}-driver")).await;
        self.reaches(name, "RUNNING").await
    }

    /// Reports that the driver has ended with exit code 0; waits until the application is COMPLETED, and returns it.
    pub(crate) async fn completes(&self, name: &str) -> Value {
        kubelet::ends(self, &format!("{name}-driver"), 0).await;
        self.reaches(name, "COMPLETED").await
    }

    /// Waits until the application is FAILED, and returns the reason.
    pub(crate) async fn failure(&self, name: &str) -> String {
        let failed = self.reaches(name, "FAILED").await;
        failed["status"]["applicationState"]["errorMessage"].as_str().unwrap().to_owned()
    }

    /// Returns all events that the operator has sent, in the order in which the API server stored them. The API server
    /// sends events as well: while it repairs the addresses of Services, it may report a problem of a Service that is
    /// being created at that time.
    pub(crate) async fn operator_events(&self) -> Vec<Value> {
        let mut events = self.list::<Event>().await;
        events.retain(|event| event["reportingController"] == "spark-application-controller");
        events.sort_by_key(|event| {
            event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
        });
        events
    }

    /// Returns type, reason, action and note of the events of [`Self::operator_events`].
    pub(crate) async fn events(&self) -> Vec<[String; 4]> {
        let events = self.operator_events().await;
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        events
            .iter()
            .map(|event| ["type", "reason", "action", "note"].map(|field| text(event, field)))
            .collect()
    }

    /// Waits until there is an event with this reason for which `is_it` holds: an event is sent after the status is written.
    pub(crate) async fn has_event(&self, reason: &str, is_it: impl Fn(&Value) -> bool) {
        eventually(&format!("there is an event {reason}"), async || {
            let events = self.operator_events().await;
            seen(events.iter().any(|event| event["reason"] == reason && is_it(event)), events)
        })
        .await;
    }

    /// Waits until the last event has `reason`, because an event is sent after the status that it describes is written.
    /// Returns all events, as [`Self::events`] does.
    pub(crate) async fn events_up_to(&self, reason: &str) -> Vec<[String; 4]> {
        eventually(&format!("the last event is {reason}"), async || {
            let events = self.events().await;
            seen(events.last().is_some_and(|[_, last, ..]| last == reason), &events).map(|()| events)
        })
        .await
    }

    /// Returns the uids of all driver pods that were created in this namespace since the test began, also of those that
    /// do not exist any more.
    pub(crate) async fn drivers_ever(&self) -> Vec<String> {
        self.pods_ever(&[("spark-role", "driver")]).await
    }

    /// Returns the uids of all submission pods that were created in this namespace since the test began, also of those
    /// that do not exist any more.
    pub(crate) async fn submission_pods_ever(&self) -> Vec<String> {
        self.pods_ever(&[("spark-role", "submission")]).await
    }

    /// Returns the uids of all pods with this role that were created for an application since the test began, also of
    /// those that do not exist any more.
    pub(crate) async fn pods_ever_of(&self, application: &str, role: &str) -> Vec<String> {
        self.pods_ever(&[(label::APP_NAME, application), ("spark-role", role)]).await
    }

    async fn pods_ever(&self, labels: &[(&str, &str)]) -> Vec<String> {
        let has_labels = |pod: &&DynamicObject| {
            let found = json!(pod)["metadata"]["labels"].take();
            labels.iter().all(|(label, value)| found[label] == *value)
        };
        // The pod that ends the history has no labels, so that neither operators nor webhooks see it.
        let mut now = plain_pod(&json!({"generateName": "now-"}));
        now["spec"]["schedulerName"] = json!("none");
        let now = self.create::<Pod>(&now).await;
        let now = now["metadata"]["name"].as_str().unwrap();
        let history = self.history::<Pod>(|pod| pod.metadata.name.as_deref() == Some(now)).await;
        self.api::<Pod>().delete(now, &DeleteParams::default().grace_period(0)).await.unwrap();
        let added = history
            .iter()
            .filter_map(|event| if let WatchEvent::Added(pod) = event { Some(pod) } else { None });
        added.filter(has_labels).map(|pod| pod.metadata.uid.clone().unwrap()).collect()
    }

    /// Waits until there is a submission pod, and returns it.
    pub(crate) async fn submission_pod(&self) -> Value {
        eventually("there is a submission pod", async || {
            self.submission_pods().await.pop().ok_or_else(|| "there is none".to_owned())
        })
        .await
    }

    pub(crate) async fn submission_pods(&self) -> Vec<Value> {
        let mut pods = self.list::<Pod>().await;
        pods.retain(|pod| pod["metadata"]["labels"]["spark-role"] == "submission");
        pods
    }

    /// Waits until neither submission pods nor their ConfigMaps exist.
    pub(crate) async fn has_no_submission(&self) {
        eventually("submission pods and their ConfigMaps are gone", async || {
            let (pods, mut config_maps) = (self.submission_pods().await, self.list::<ConfigMap>().await);
            config_maps.retain(is_of_submission);
            seen(pods.is_empty() && config_maps.is_empty(), (pods, config_maps))
        })
        .await;
    }

    /// Returns the states that an application has been in since the test began, in order; the state of an application
    /// without status is "".
    pub(crate) async fn states_ever(&self, name: &str) -> Vec<String> {
        let mut states = Vec::new();
        let now = self.application(name).await["metadata"]["resourceVersion"].take();
        let is_now =
            |application: &DynamicObject| application.metadata.resource_version.as_deref() == now.as_str();
        for event in self.history::<SparkApplication>(is_now).await {
            let (WatchEvent::Added(application) | WatchEvent::Modified(application)) = event else {
                continue;
            };
            let state = json!(application)["status"]["applicationState"]["state"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if application.metadata.name.as_deref() == Some(name) && states.last() != Some(&state) {
                states.push(state);
            }
        }
        states
    }

    /// Returns all changes of objects of a kind since the test began, up to the change to an object for which `is_last`
    /// holds.
    async fn history<K: Ours>(
        &self,
        is_last: impl Fn(&DynamicObject) -> bool,
    ) -> Vec<WatchEvent<DynamicObject>> {
        // A watch first repeats all changes since a version, and then waits for further changes until its timeout.
        let stream =
            self.api::<K>().watch(&WatchParams::default().timeout(60), &self.beginning).await.unwrap();
        let (mut stream, mut history) = (pin!(stream), Vec::new());
        while let Some(event) = stream.try_next().await.unwrap() {
            let ends = match &event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => is_last(object),
                _ => false,
            };
            history.push(event);
            if ends {
                return history;
            }
        }
        panic!("the watch of {} has not seen the last change: {history:?}", K::kind(&()));
    }

    pub(crate) fn api<K: Ours>(&self) -> Api<DynamicObject> {
        self.of_resource(&ApiResource::erase::<K>(&()))
    }

    pub(crate) fn of_resource(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.name, resource)
    }
}

/// Returns whether a ConfigMap belongs to a submission pod.
pub(crate) fn is_of_submission(config_map: &Value) -> bool {
    config_map["metadata"]["labels"]["spark-role"] == "submission"
}

/// A kind whose objects have namespaces.
pub(crate) trait Ours: Resource<DynamicType = (), Scope = NamespaceResourceScope> {}

impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>> Ours for K {}

/// Deletes all objects of a kind in all namespaces. Finalizers are removed first, because the process that would remove
/// them has ended with its test. Returns when no object is left.
async fn clear_everywhere<K: Ours>(client: &Client) {
    let kind = ApiResource::erase::<K>(&());
    let path = K::url_path(&(), None);
    let found = metadata_at(client, &path).await;
    for kept in found.iter().filter(|object| object.metadata.finalizers.is_some()) {
        let objects =
            Api::<DynamicObject>::namespaced_with(client.clone(), &kept.namespace().unwrap(), &kind);
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        objects.patch_metadata(&kept.name_any(), &PatchParams::default(), &free).await.unwrap();
    }
    let namespaces: BTreeSet<_> = found.iter().filter_map(ResourceExt::namespace).collect();
    for namespace in &namespaces {
        delete_all::<K>(client, namespace).await;
    }
    eventually(&format!("no {} is left", kind.kind), async || {
        let left = if namespaces.is_empty() { Vec::new() } else { metadata_at(client, &path).await };
        let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        seen(names.is_empty(), names)
    })
    .await;
}

/// Installs the manifests, unless another process has installed them in this cluster: `tests/tools/in-clusters` runs each
/// test in a process of its own.
fn install_once() {
    let installed = env::var_os("MANIFESTS_INSTALLED").map(PathBuf::from);
    if installed.as_ref().is_some_and(|file| file.exists()) {
        return;
    }
    install();
    if let Some(file) = installed {
        fs::write(file, "").unwrap();
    }
}

/// Applies the manifests as a user would, then makes the API server call the webhook at localhost instead of through a
/// Service. The webhook does not review applications, because tests also create applications while no operator runs.
fn install() {
    // Configurations that an earlier run has changed could not be merged with those of the manifests.
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        calls::delete(&webhooks(kind, WEBHOOK));
    }
    kubectl(&["apply", "-k", "manifests"]);
    kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
    beside("mutatingwebhookconfiguration", "/mutate");
    review_pods_only();
}

/// Makes the API server call the webhooks of a configuration at localhost instead of through a Service.
pub(super) fn beside(kind: &str, path: &str) {
    call_locally(kind, WEBHOOK, operator::WEBHOOK_PORT, path);
}

/// Makes the API server call the webhooks of the configuration `name` at this port of localhost.
pub(super) fn call_locally(kind: &str, name: &str, port: u16, path: &str) {
    let configuration = calls::get(&webhooks(kind, name)).expect(name);
    let url = json!(format!("https://localhost:{port}{path}"));
    let all = configuration["webhooks"].as_array().unwrap();
    let operations = (0..all.len()).flat_map(|i| {
        let config = format!("/webhooks/{i}/clientConfig");
        [
            json!({"op": "remove", "path": format!("{config}/service")}),
            json!({"op": "add", "path": format!("{config}/url"), "value": url}),
        ]
    });
    calls::patch(&webhooks(kind, name), &operations.collect());
}

/// Returns the path of a webhook configuration in the API.
pub(crate) fn webhooks(kind: &str, name: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{}s/{name}", kind.to_lowercase())
}

pub(super) fn review_pods_only() {
    let remove = json!([{"op": "remove", "path": "/webhooks/1"}]);
    calls::patch(&webhooks("mutatingwebhookconfiguration", WEBHOOK), &remove);
    calls::delete(&webhooks("validatingwebhookconfiguration", WEBHOOK));
}

/// Lets the webhook also review applications and schedules while the returned value exists.
pub(crate) fn reviewed() -> Finally {
    calls::delete(&webhooks("mutatingwebhookconfiguration", WEBHOOK));
    calls::apply_manifests("manifests/webhook");
    beside("mutatingwebhookconfiguration", "/mutate");
    beside("validatingwebhookconfiguration", "/validate");
    Finally::new(review_pods_only)
}

/// The file with the rights of an operator that runs with --enable-driver-pdb.
pub(super) const DRIVER_PDB_RBAC: &str = "manifests/rbac/driver-pdb.yaml";

/// Gives the operator the rights in a file of `manifests/rbac` that the installation leaves out, while the returned value
/// exists.
pub(crate) fn granted(file: &'static str) -> Finally {
    calls::apply_manifests(file);
    Finally::new(move || calls::delete_manifests(file))
}
