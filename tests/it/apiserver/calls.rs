//! Sends requests to the API server as the cluster's administrator, also from functions that cannot await. A request
//! takes a tenth of the time of a `kubectl` process; only tests that check the output of `kubectl` need one.

use api::Lenient;
use axum::http::{self, header::CONTENT_TYPE};
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{Pod, ServiceAccount},
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, ObjectList, Patch, PatchParams, PostParams},
    core::{GroupVersionKind, PartialObjectMeta, Request},
    discovery::{Scope, pinned_kind},
};
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    env, fs,
    sync::{LazyLock, Mutex, mpsc},
};
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

/// As [`apply`], for a caller that can await.
pub(crate) async fn applied(client: &Client, object: &Value, namespace: Option<&str>) {
    /// The object that was applied last, by path. `kubectl` keeps it in an annotation of the object.
    static LAST: LazyLock<Mutex<HashMap<String, Value>>> = LazyLock::new(Mutex::default);
    let text = |place: &str| object.pointer(place).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let (resource, has_namespaces) = kind(client, GroupVersionKind::gvk(group, version, text("/kind"))).await;
    let path = DynamicObject::url_path(&resource, namespace.filter(|_| has_namespaces));
    let name = text("/metadata/name");
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
    created.unwrap_or_else(|error| panic!("{} {name}: {error}", text("/kind")));
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
    let at_once = DeleteParams::default().grace_period(0);
    let request = Request::new(K::url_path(&(), Some(namespace)));
    let request = request.delete_collection(&at_once, &ListParams::default()).unwrap();
    // The answer contains the deleted objects, which may be hard to parse.
    client.request_text(request).await.unwrap();
}

/// Returns whether the API server would accept `pod`, or why not. Nothing is stored.
pub(crate) fn is_admitted(pod: &Value) -> Result<(), String> {
    let (client, pod) = (CLIENT.clone(), serde_json::from_value(pod.clone()).unwrap());
    waited_for(async move {
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let created = Api::<Pod>::default_namespaced(client).create(&dry_run, &pod).await;
        created.map(drop).map_err(|error| error.to_string())
    })
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
        answer.status.and_then(|status| status.token).expect("the API server makes one")
    })
}
