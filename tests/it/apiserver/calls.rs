//! Sends requests to the API server as the cluster's administrator, also from functions that are not async. A
//! request takes a tenth of the time of a `kubectl` process; only tests that check the output of `kubectl` start one.

use super::{eventually, seen};
use crate::prelude::*;
use api::Lenient;
use axum::http::{self, header::CONTENT_TYPE};
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    Resource,
    api::{ApiResource, ObjectList},
    core::{GroupVersionKind, PartialObjectMeta, Request},
    discovery::{Scope, pinned_kind},
};
use std::sync::{LazyLock, mpsc};
use tokio::runtime::{Builder, Runtime};

/// Runs the requests to the API server while the caller's thread waits.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// A client for all tests of the process. The connections of the client belong to [`RUNTIME`], because the runtime of a
/// test ends with the test.
static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    waited_for(async {
        Client::try_default().await.expect("KUBECONFIG is set by `tests/tools/cluster/cluster exec`")
    })
});

/// Runs `work` on [`RUNTIME`] and blocks the caller's thread until it returns.
fn waited_for<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = mpsc::sync_channel(1);
    RUNTIME.spawn(async move { sender.send(work.await).ok() });
    receiver.recv().expect("the call panicked: see above")
}

/// Applies `object` in `namespace`, as `kubectl apply --validate=strict` does; panics on failure.
pub(crate) fn apply(object: &Value, namespace: Option<&str>) {
    let (client, object) = (CLIENT.clone(), object.clone());
    let namespace = namespace.map(str::to_owned);
    waited_for(async move { applied(&client, &object, namespace.as_deref()).await });
}

/// Applies the objects of a YAML file, or of every file in a folder, as `kubectl apply -f` does.
pub(crate) fn apply_manifests(path: &str) {
    objects(path).iter().for_each(|object| apply(object, namespace(object)));
}

/// Deletes the objects of a YAML file, as far as they exist, and waits until they are gone.
pub(crate) fn delete_manifests(path: &str) {
    objects(path).iter().for_each(delete_object);
}

/// Deletes `object`, if it exists, and waits until it is gone.
pub(crate) fn delete_object(object: &Value) {
    delete(&format!("{}/{}", siblings_of(object), text(object, "/metadata/name")));
}

fn objects(path: &str) -> Vec<Value> {
    if Path::new(path).is_dir() {
        fs::read_dir(path).unwrap().flat_map(|file| documents(file.unwrap().path())).collect()
    } else {
        documents(path)
    }
}

fn namespace(object: &Value) -> Option<&str> {
    object["metadata"]["namespace"].as_str()
}

fn text<'o>(object: &'o Value, place: &str) -> &'o str {
    object.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the path in the API of all objects of the kind of `object`.
async fn siblings(client: &Client, object: &Value, namespace: Option<&str>) -> String {
    let api_version = text(object, "/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, text(object, "/kind"));
    let (resource, has_namespaces) = kind(client, gvk).await;
    DynamicObject::url_path(&resource, namespace.filter(|_| has_namespaces))
}

/// As [`siblings`], for a caller that cannot await.
fn siblings_of(object: &Value) -> String {
    let (client, kind) =
        (CLIENT.clone(), json!({"apiVersion": object["apiVersion"], "kind": object["kind"]}));
    let namespace = namespace(object).map(str::to_owned);
    waited_for(async move { siblings(&client, &kind, namespace.as_deref()).await })
}

/// Returns the object, or the list, at this path of the API, if it exists.
pub(crate) fn get(path: &str) -> Option<Value> {
    send(http::Request::get(path), Vec::new())
}

/// Returns the text at this path of the API, such as a log.
pub(crate) fn text_at(path: &str) -> String {
    let (client, request) = (CLIENT.clone(), http::Request::get(path).body(Vec::new()).unwrap());
    let path = path.to_owned();
    waited_for(
        async move { client.request_text(request).await.unwrap_or_else(|error| panic!("{path}: {error}")) },
    )
}

/// Applies a JSON patch (RFC 6902) to the object at this path of the API.
pub(crate) fn patch(path: &str, patch: &Value) {
    let request = http::Request::patch(path).header(CONTENT_TYPE, "application/json-patch+json");
    send(request, patch.to_string().into_bytes()).unwrap_or_else(|| panic!("{path} does not exist"));
}

/// Merges `patch` into the object at this path of the API (RFC 7386).
pub(crate) fn merge(path: &str, patch: &Value) {
    let request = http::Request::patch(path).header(CONTENT_TYPE, "application/merge-patch+json");
    send_unread(request, patch);
}

/// Creates an object exactly as it is, as `kubectl create --validate=false` does.
pub(crate) fn create_unchecked(object: &Value) {
    let request = http::Request::post(format!("{}?fieldValidation=Ignore", siblings_of(object)));
    send_unread(request.header(CONTENT_TYPE, "application/json"), object);
}

/// Deletes the object at this path of the API, if it exists, and waits until it is gone. A new object may have its name
/// by then: an operator recreates its Secret at once.
pub(crate) fn delete(path: &str) {
    let Some(there) = get(path) else { return };
    send(http::Request::delete(path), Vec::new());
    let is_there = || get(path).is_some_and(|now| now["metadata"]["uid"] == there["metadata"]["uid"]);
    let deadline = Instant::now() + super::DEADLINE;
    while is_there() {
        assert!(Instant::now() < deadline, "{path} is not deleted");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns whether the API server lets `user` create objects of a resource, which is given as kubectl takes it:
/// `ingresses.networking.k8s.io`.
pub(crate) fn may_create(user: &str, resource: &str, namespace: &str) -> bool {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let asked = json!({"namespace": namespace, "verb": "create", "group": group, "resource": resource});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": asked},
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let request = http::Request::post(path).header(CONTENT_TYPE, "application/json");
    send(request, review.to_string().into_bytes()).expect(path)["status"]["allowed"] == true
}

/// Waits until [`may_create`] returns `may`: changes of RBAC objects take effect with a short delay.
pub(crate) async fn until_may_create(may: bool, user: &str, resource: &str, namespace: &str) {
    eventually(&format!("{user} may create {resource}: {may}"), async || {
        seen(may_create(user, resource, namespace) == may, !may)
    })
    .await;
}

/// Creates a namespace, if there is none of this name.
pub(crate) fn make_namespace(name: &str) {
    apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}), None);
}

/// Creates a role and its binding that give `subject` these rights: API group, resources and verbs. Without
/// `namespace`, they are a ClusterRole and a ClusterRoleBinding.
pub(crate) fn grant(
    name: &str,
    namespace: Option<&str>,
    subject: &Value,
    rights: &[(&str, &[&str], &[&str])],
) {
    let scope = if namespace.is_some() { "" } else { "Cluster" };
    let rules = rights.iter().map(
        |(group, resources, verbs)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs}),
    );
    let rbac = "rbac.authorization.k8s.io";
    let role = json!({"apiGroup": rbac, "kind": format!("{scope}Role"), "name": name});
    for (kind, mut object) in [
        ("Role", json!({"rules": rules.collect::<Vec<_>>()})),
        ("RoleBinding", json!({"roleRef": role, "subjects": [subject]})),
    ] {
        object["apiVersion"] = json!(format!("{rbac}/v1"));
        object["kind"] = json!(format!("{scope}{kind}"));
        object["metadata"] = json!({"name": name});
        apply(&object, namespace);
    }
}

/// Sends a request. Returns `None` if the object does not exist (404); panics on any other error.
fn send(request: http::request::Builder, body: Vec<u8>) -> Option<Value> {
    let (client, request) = (CLIENT.clone(), request.body(body).unwrap());
    let what = format!("{} {}", request.method(), request.uri());
    waited_for(async move {
        match client.request(request).await {
            Ok(answer) => Some(answer),
            Err(kube::Error::Api(status)) if status.is_not_found() => None,
            Err(error) => panic!("{what}: {error}"),
        }
    })
}

/// Sends a request; panics if it fails. The answer is not parsed, because an object may be too deep for that.
fn send_unread(request: http::request::Builder, body: &Value) {
    let (client, request) = (CLIENT.clone(), request.body(body.to_string().into_bytes()).unwrap());
    let what = format!("{} {}", request.method(), request.uri());
    waited_for(async move {
        client.request_text(request).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    });
}

/// As [`apply`], for a caller that can await.
pub(crate) async fn applied(client: &Client, object: &Value, namespace: Option<&str>) {
    /// The object that was applied last, by path. `kubectl` keeps it in an annotation of the object.
    static LAST: LazyLock<Mutex<HashMap<String, Value>>> = LazyLock::new(Mutex::default);
    let path = siblings(client, object, namespace).await;
    let name = text(object, "/metadata/name");
    let last = LAST.lock().unwrap().insert(format!("{path}/{name}"), object.clone());

    // kube's `PostParams` have no field validation.
    let create = http::Request::post(format!("{path}?fieldValidation=Strict"))
        .header(CONTENT_TYPE, "application/json");
    let created = match client.request_text(create.body(object.to_string().into_bytes()).unwrap()).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let strict = PatchParams::default().validation_strict();
            let patch = Patch::Merge(merging(last.as_ref(), object));
            client.request_text(Request::new(&path).patch(name, &strict, &patch).unwrap()).await
        }
        created => created,
    };
    created.unwrap_or_else(|error| panic!("{} {name}: {error}", text(object, "/kind")));
}

/// Returns the merge patch (RFC 7386) that applies `next` to an object to which `last` was applied before. The patch
/// removes the fields that only `last` has.
fn merging(last: Option<&Value>, next: &Value) -> Value {
    let (Some(Value::Object(last)), Value::Object(next)) = (last, next) else { return next.clone() };
    let removed = last.keys().filter(|key| !next.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let kept = next.iter().map(|(key, value)| (key.clone(), merging(last.get(key), value)));
    removed.chain(kept).collect::<Map<_, _>>().into()
}

/// Returns the API path of a kind, and whether the kind has namespaces. Each kind is looked up once.
async fn kind(client: &Client, kind: GroupVersionKind) -> (ApiResource, bool) {
    static KNOWN: LazyLock<Mutex<HashMap<GroupVersionKind, (ApiResource, bool)>>> =
        LazyLock::new(Mutex::default);
    let known = KNOWN.lock().unwrap().get(&kind).cloned();
    if let Some(known) = known {
        return known;
    }
    let (resource, capabilities) = pinned_kind(client, &kind).await.unwrap();
    let found = (resource, capabilities.scope == Scope::Namespaced);
    KNOWN.lock().unwrap().insert(kind, found.clone());
    found
}

/// Returns the metadata of all objects at `path`, also of objects that a test has made hard to parse.
pub(crate) async fn metadata_at(client: &Client, path: &str) -> Vec<PartialObjectMeta<Pod>> {
    let request = Request::new(path).list_metadata(&ListParams::default()).unwrap();
    let found: ObjectList<Lenient<PartialObjectMeta<Pod>>> = client.request(request).await.unwrap();
    let metadata = |object: &Lenient<PartialObjectMeta<Pod>>| PartialObjectMeta {
        metadata: object.meta().clone(),
        ..PartialObjectMeta::default()
    };
    found.items.iter().map(metadata).collect()
}

/// Deletes all objects of a kind in `namespace` without a grace period.
pub(crate) async fn delete_all<K: Resource<DynamicType = ()>>(client: &Client, namespace: &str) {
    delete_listed(client, &K::url_path(&(), Some(namespace)), &ListParams::default()).await;
}

/// Deletes the objects of a kind in `namespace` that `selector` selects by their labels, without a grace period.
pub(crate) fn delete_selected<K: Resource<DynamicType = ()>>(namespace: &str, selector: &str) {
    let (client, path) = (CLIENT.clone(), K::url_path(&(), Some(namespace)));
    let selected = ListParams::default().labels(selector);
    waited_for(async move { delete_listed(&client, &path, &selected).await });
}

/// Deletes the objects at `path` that a list with these parameters would return.
async fn delete_listed(client: &Client, path: &str, listed: &ListParams) {
    let at_once = DeleteParams::default().grace_period(0);
    let request = Request::new(path).delete_collection(&at_once, listed).unwrap();
    // The answer contains the deleted objects, which may be hard to parse.
    client.request_text(request).await.unwrap();
}

/// Asks the API server to create `object` as a dry run, which stores nothing; returns the API server's error. An object
/// without a namespace is tried in `default`.
pub(crate) fn tried(object: &Value) -> Result<(), kube::Error> {
    let (client, object) = (CLIENT.clone(), object.clone());
    waited_for(async move { is_tried(&client, &object).await })
}

/// As [`tried`], in `namespace`. The error is the text of the API server's message.
pub(crate) fn tried_in(namespace: &str, object: &Value) -> Result<(), String> {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!(namespace);
    tried(&object).map_err(|error| error.to_string())
}

/// As [`tried`].
pub(crate) async fn is_tried(client: &Client, object: &Value) -> Result<(), kube::Error> {
    let siblings = siblings(client, object, Some(namespace(object).unwrap_or("default"))).await;
    let request = http::Request::post(format!("{siblings}?dryRun=All"))
        .header(CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes());
    client.request_text(request.unwrap()).await.map(drop)
}

/// The administrator's kubeconfig, which `tests/tools/cluster/cluster` writes as JSON.
pub(crate) fn kubeconfig() -> Value {
    let file = env::var("KUBECONFIG").expect("`tests/tools/cluster/cluster exec` sets it");
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Returns a token of a service account, like `kubectl create token`.
pub(crate) fn token(account: &'static str, namespace: &'static str) -> String {
    let client = CLIENT.clone();
    waited_for(async move {
        let accounts = Api::<ServiceAccount>::namespaced(client, namespace);
        let request = TokenRequest::default();
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
        answer.status.and_then(|status| status.token).expect("the API server returns a token")
    })
}
