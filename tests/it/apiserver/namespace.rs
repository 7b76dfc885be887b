//! Where does a test live? In a namespace of its own, which is empty when it begins, in a cluster with our
//! manifests and nobody else's applications.

use super::{
    calls::{self, applied, delete_all, metadata_at},
    eventually,
    kubectl::kubectl,
    operator::{self, WEBHOOK},
    seen,
};
use futures::TryStreamExt;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{ConfigMap, Pod, Service},
        events::v1::Event,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    },
};
use serde_json::{Value, json};
use spark_operator::api::{ScheduledSparkApplication, SparkApplication, names::label};
use std::{
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
};
use tokio::sync::{Mutex, MutexGuard};

/// Only one test at a time has the operator's ports and the webhook's configuration. Whether our manifests
/// are installed.
static ALONE: Mutex<bool> = Mutex::const_new(false);

pub(crate) struct Namespace {
    pub name: &'static str,
    /// For the test's files; empty when it begins.
    pub folder: PathBuf,
    client: Client,
    /// The cluster's version when the test began.
    beginning: String,
    _alone: MutexGuard<'static, bool>,
}

impl Namespace {
    /// The namespace `name`, emptied. Applications and pods of earlier tests are gone from everywhere, so
    /// that no operator of this test works on them.
    pub(crate) async fn new(name: &'static str) -> Self {
        let mut alone = ALONE.lock().await;
        operator::assert_none_is_left();
        if !*alone {
            install_once();
            *alone = true;
        }
        let client = Client::try_default().await.expect("KUBECONFIG is set by `tests/cluster/cluster exec`");
        let itself = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        applied(&client, &itself, None).await;
        clear_everywhere::<ScheduledSparkApplication>(&client).await;
        clear_everywhere::<SparkApplication>(&client).await;
        // Nobody ends pods on a node that is gone with its test.
        clear_everywhere::<Pod>(&client).await;
        delete_all::<ConfigMap>(&client, name).await;
        delete_all::<Service>(&client, name).await;
        delete_all::<Event>(&client, name).await;
        // Two tests with a namespace of the same name may run in two clusters at once.
        let kubeconfig =
            PathBuf::from(env::var_os("KUBECONFIG").expect("`tests/cluster/cluster exec` sets it"));
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

    /// Makes `object` without waiting for `kubectl`, and gives it as the API server has it.
    pub(crate) async fn create<K: Ours>(&self, object: &Value) -> Value {
        let object = serde_json::from_value(object.clone()).unwrap();
        json!(self.api::<K>().create(&PostParams::default(), &object).await.unwrap())
    }

    /// Deletes all objects of a kind at once.
    pub(crate) async fn clear<K: Ours>(&self) {
        self.api::<K>().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    }

    /// What `kubectl` with these arguments prints for this namespace.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl(&[arguments, &["--namespace", self.name]].concat())
    }

    pub(crate) async fn get<K: Ours>(&self, name: &str) -> Option<Value> {
        self.api::<K>().get_opt(name).await.unwrap().map(|object| json!(object))
    }

    pub(crate) async fn list<K: Ours>(&self) -> Vec<Value> {
        let objects = self.api::<K>().list(&ListParams::default()).await.unwrap();
        objects.items.iter().map(|object| json!(object)).collect()
    }

    /// The Services by which executors find their drivers: those of web UIs come and go when nobody waits for them.
    pub(crate) async fn driver_services(&self) -> Vec<Value> {
        let mut services = self.list::<Service>().await;
        services.retain(|service| service["metadata"]["labels"][label::CREATED_BY].is_null());
        services
    }

    pub(crate) async fn patch_status<K: Ours>(&self, name: &str, status: &Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Stores `object` with its status just as it is, explicit nulls and all.
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

    /// Waits until the application is in `state`, and gives it.
    pub(crate) async fn reaches(&self, name: &str, state: &str) -> Value {
        self.becomes(name, &format!("application {name} is {state}"), |application| {
            application["status"]["applicationState"]["state"] == state
        })
        .await
    }

    /// Waits until the application is as `condition` wants it, and gives it.
    pub(crate) async fn becomes(&self, name: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || {
            let application = self.application(name).await;
            seen(condition(&application), &application["status"]).map(|()| application)
        })
        .await
    }

    /// All events that the operator has sent. The API server sends some as well: when it repairs the addresses of Services, it may
    /// complain of one that is being made at that moment.
    pub(crate) async fn told(&self) -> Vec<Value> {
        let is_ours = |event: &Value| event["reportingController"] == "spark-application-controller";
        self.list::<Event>().await.into_iter().filter(is_ours).collect()
    }

    /// Type, reason, action and note of [`Self::told`], in the order in which it was told.
    pub(crate) async fn events(&self) -> Vec<[String; 4]> {
        let mut events = self.told().await;
        events.sort_by_key(|event| {
            event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
        });
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        events
            .iter()
            .map(|event| ["type", "reason", "action", "note"].map(|field| text(event, field)))
            .collect()
    }

    /// Waits until the last event has `reason`: events come after the status that they tell of. Gives all, as
    /// [`Self::events`].
    pub(crate) async fn events_up_to(&self, reason: &str) -> Vec<[String; 4]> {
        eventually(&format!("the last event is {reason}"), async || {
            let events = self.events().await;
            seen(events.last().is_some_and(|[_, last, ..]| last == reason), &events).map(|()| events)
        })
        .await
    }

    /// The uids of all driver pods that were ever made here since the test began.
    pub(crate) async fn drivers_ever(&self) -> Vec<String> {
        self.pods_ever("driver").await
    }

    /// The uids of all submission pods that were ever made here since the test began.
    pub(crate) async fn submission_pods_ever(&self) -> Vec<String> {
        self.pods_ever("submission").await
    }

    async fn pods_ever(&self, role: &str) -> Vec<String> {
        let has_role = |pod: &&DynamicObject| json!(pod)["metadata"]["labels"]["spark-role"] == role;
        let history = self.history::<Pod>().await;
        let added = history
            .iter()
            .filter_map(|event| if let WatchEvent::Added(pod) = event { Some(pod) } else { None });
        added.filter(has_role).map(|pod| pod.metadata.uid.clone().unwrap()).collect()
    }

    /// Waits until there is a submission pod other than those with the uids of `before`, and gives it.
    pub(crate) async fn submission_pod(&self, before: &[&str]) -> Value {
        eventually("there is a submission pod", async || {
            let pods = self.submission_pods().await;
            let is_new = |pod: &&Value| !before.contains(&pod["metadata"]["uid"].as_str().unwrap());
            pods.iter().find(is_new).cloned().ok_or_else(|| json!(pods).to_string())
        })
        .await
    }

    pub(crate) async fn submission_pods(&self) -> Vec<Value> {
        let mut pods = self.list::<Pod>().await;
        pods.retain(|pod| pod["metadata"]["labels"]["spark-role"] == "submission");
        pods
    }

    /// Waits until nothing is left of submissions: neither pods nor their ConfigMaps.
    pub(crate) async fn has_no_submission(&self) {
        eventually("submission pods and their ConfigMaps are gone", async || {
            let (pods, mut config_maps) = (self.submission_pods().await, self.list::<ConfigMap>().await);
            config_maps.retain(is_of_submission);
            seen(pods.is_empty() && config_maps.is_empty(), (pods, config_maps))
        })
        .await;
    }

    /// The states that an application has been in since the test began.
    pub(crate) async fn states_ever(&self, name: &str) -> Vec<String> {
        let mut states = Vec::new();
        for event in self.history::<SparkApplication>().await {
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

    /// Everything that has happened to objects of a kind since the test began.
    async fn history<K: Ours>(&self) -> Vec<WatchEvent<DynamicObject>> {
        // A watch replays what has happened since a version, then waits for more: the second that it may
        // take.
        let stream =
            self.api::<K>().watch(&WatchParams::default().timeout(1), &self.beginning).await.unwrap();
        stream.try_collect().await.unwrap()
    }

    pub(crate) fn api<K: Ours>(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.name, &ApiResource::erase::<K>(&()))
    }
}

/// Whether a ConfigMap belongs to a submission pod.
pub(crate) fn is_of_submission(config_map: &Value) -> bool {
    config_map["metadata"]["labels"]["spark-role"] == "submission"
}

/// A kind with namespaces.
pub(crate) trait Ours: Resource<DynamicType = (), Scope = NamespaceResourceScope> {}

impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>> Ours for K {}

/// Deletes all objects of a kind, also those that a finalizer keeps: whoever would remove it is gone with its test. Returns when
/// they are gone.
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

/// Installs the manifests, unless another process has done so in this cluster: `tests/in-clusters` runs each test in its own.
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

/// Applies the manifests as a user would, then lets the API server find the webhook beside it instead of
/// behind a Service. Tests make applications also while there is no operator, so nobody reviews those.
fn install() {
    // What an earlier run has made of them would not go together with the manifests'.
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        kubectl(&["delete", kind, WEBHOOK, "--ignore-not-found"]);
    }
    kubectl(&["apply", "-k", "manifests"]);
    kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
    beside("mutatingwebhookconfiguration", "/mutate");
    review_pods_only();
}

/// Lets the API server find the webhook of a configuration beside it.
pub(super) fn beside(kind: &str, path: &str) {
    let names = kubectl(&["get", kind, WEBHOOK, "--output=jsonpath={.webhooks[*].name}"]);
    let url = json!(format!("https://localhost:9443{path}"));
    let operations = names.split(' ').enumerate().flat_map(|(i, _)| {
        let config = format!("/webhooks/{i}/clientConfig");
        [
            json!({"op": "remove", "path": format!("{config}/service")}),
            json!({"op": "add", "path": format!("{config}/url"), "value": url}),
        ]
    });
    let patch = json!(operations.collect::<Vec<_>>()).to_string();
    kubectl(&["patch", kind, WEBHOOK, "--type=json", "--patch", &patch]);
}

pub(super) fn review_pods_only() {
    let remove = json!([{"op": "remove", "path": "/webhooks/1"}]).to_string();
    kubectl(&["patch", "mutatingwebhookconfiguration", WEBHOOK, "--type=json", "--patch", &remove]);
    kubectl(&["delete", "validatingwebhookconfiguration", WEBHOOK, "--ignore-not-found"]);
}

/// While this lives, applications and schedules are reviewed as well.
pub(super) struct Reviewed;

impl Reviewed {
    pub(super) fn begin() -> Self {
        kubectl(&["delete", "mutatingwebhookconfiguration", WEBHOOK, "--ignore-not-found"]);
        kubectl(&["apply", "-f", "manifests/webhook"]);
        beside("mutatingwebhookconfiguration", "/mutate");
        beside("validatingwebhookconfiguration", "/validate");
        Self
    }
}

impl Drop for Reviewed {
    fn drop(&mut self) {
        review_pods_only();
    }
}
