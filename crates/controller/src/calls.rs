//! Sends requests, and decodes no more of an answer than is needed, because any user of the cluster may have written
//! the objects in it. kube's own methods decode the whole answer, including managedFields: if that fails, they report a
//! deletion that succeeded as failed.

use super::{Error, watch};
use api::{Lenient, ObjectKey};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, GetParams, ListParams, ObjectList, Patch, PatchParams, PostParams, Preconditions},
    core::{NamespaceResourceScope, PartialObjectMeta, Request, Status, request},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{fmt::Debug, ops::ControlFlow};
use validation::is_object_name;
use work::Turns;

/// The owner of the fields that the operator applies.
const FIELD_MANAGER: &str = "spark-operator";

/// The number of pages of lists that are in memory at once, beside the one of the watches. A page has up to 30 MB, and each
/// reconcile may need a list.
pub(super) const PAGES: usize = 2;

/// The metadata of an object.
pub(super) type Metadata<K> = Lenient<PartialObjectMeta<K>>;

/// Returns an object's metadata; none if the object does not exist.
pub(super) async fn metadata<K: Resource + Clone + Debug>(
    api: &Api<K>,
    name: &str,
) -> kube::Result<Option<Metadata<K>>> {
    metadata_at(&api.clone().into_client(), api.resource_url(), name).await
}

/// Returns an object's metadata; none if the object does not exist, or the cluster does not have its kind. The URL path
/// `path` alone determines the kind of the object.
pub(super) async fn metadata_at<K: Resource>(
    client: &Client,
    path: &str,
    name: &str,
) -> kube::Result<Option<Metadata<K>>> {
    // A name may come from an object of others: see `named`.
    if !is_object_name(name) {
        return Ok(None);
    }
    let request = Request::new(path).get_metadata(name, &GetParams::default());
    match client.request(request.map_err(kube::Error::BuildRequest)?).await {
        // Not by the reason: for an API group that does not exist, the API server answers with a plain text.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        found => found.map(Some),
    }
}

/// Whether the API server has the same version of `object` as this copy; `what` names the request in the error.
pub(super) async fn is_current<K>(client: &Client, object: &K, what: &'static str) -> Result<bool, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug,
{
    let objects = Api::<K>::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let live = metadata(&objects, &object.name_any()).await.map_err(Error::api(what))?;
    Ok(live.is_some_and(|live| live.resource_version() == object.resource_version()))
}

/// Calls `found` with the metadata of each object that `parameters` select, until it breaks; `turns` as for [`list`].
pub(super) async fn list_metadata<K: Resource + Clone + Debug>(
    api: &Api<K>,
    turns: &Turns,
    parameters: ListParams,
    found: impl FnMut(Metadata<K>) -> ControlFlow<()>,
) -> kube::Result<()> {
    let request = |page: &ListParams| of(api).list_metadata(page);
    let namespace = api.namespace().unwrap_or_default();
    list(&api.clone().into_client(), (turns, namespace), request, parameters, found).await
}

/// Calls `found` with each object of a list, until it breaks. The list comes in pages, as a watch reads it: whoever may
/// create such objects determines how many there are, and how large each is. For each page it is the turn of the namespace,
/// of which there are [`PAGES`] at once.
pub(super) async fn list<T: Clone + DeserializeOwned>(
    client: &Client,
    (turns, namespace): (&Turns, &str),
    request: impl Fn(&ListParams) -> Built,
    parameters: ListParams,
    mut found: impl FnMut(T) -> ControlFlow<()>,
) -> kube::Result<()> {
    let mut page = parameters.limit(watch::PAGE);
    loop {
        let request = request(&page).map_err(kube::Error::BuildRequest)?;
        let _turn = turns.turn(None, namespace).await;
        let list: ObjectList<T> = client.request(request).await?;
        let is_enough = list.items.into_iter().try_for_each(&mut found).is_break();
        match list.metadata.continue_.filter(|rest| !rest.is_empty() && !is_enough) {
            Some(rest) => page = page.continue_token(&rest),
            None => return Ok(()),
        }
    }
}

/// Changes an object's metadata.
pub(super) async fn patch_metadata<K: Resource + Clone>(
    api: &Api<K>,
    name: &str,
    patch: &Patch<impl Serialize + Debug>,
) -> kube::Result<()> {
    send_to(api, of(api).patch_metadata(named(name)?, &PatchParams::default(), patch)).await
}

/// Changes an object.
pub(super) async fn patch<K: Resource + Clone>(
    api: &Api<K>,
    name: &str,
    patch: &Patch<impl Serialize + Debug>,
) -> kube::Result<()> {
    send_to(api, of(api).patch(named(name)?, &PatchParams::default(), patch)).await
}

/// Changes an object's status.
pub(super) async fn patch_status<K: Resource + Clone>(
    api: &Api<K>,
    name: &str,
    patch: &Patch<impl Serialize + Debug>,
) -> kube::Result<()> {
    send_to(api, of(api).patch_subresource("status", named(name)?, &PatchParams::default(), patch)).await
}

/// Makes an object in `namespace` as `object` says, whoever else has set its fields, and returns its metadata.
pub(super) async fn apply(client: &Client, namespace: &str, object: &Value) -> kube::Result<Metadata<Pod>> {
    let key = ObjectKey::of(object).unwrap_or_default();
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let request = Request::new(key.kind.path(namespace));
    let request = request.patch_metadata(named(&key.name)?, &parameters, &Patch::Apply(object));
    client.request(request.map_err(kube::Error::BuildRequest)?).await
}

/// Creates an object.
pub(super) async fn create<K: Resource + Clone + Serialize, M: DeserializeOwned>(
    api: &Api<K>,
    object: &K,
    parameters: &PostParams,
) -> kube::Result<M> {
    let object = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = of(api).create(parameters, object).map_err(kube::Error::BuildRequest)?;
    api.clone().into_client().request(request).await
}

/// Requests the deletion of an object.
pub(super) async fn delete<K: Resource + Clone>(
    api: &Api<K>,
    name: &str,
    parameters: &DeleteParams,
) -> kube::Result<()> {
    send_to(api, of(api).delete(named(name)?, parameters)).await
}

/// Returns the parameters of a DELETE that applies only to the object with this uid, not to a later object with the
/// same name.
pub(super) fn only(uid: Option<String>) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions { uid, resource_version: None })
}

/// Returns `name`, or the answer that there is no such object if no object can have this name. kube writes names into
/// URLs as they are, and some come from objects of others: `../secrets/a` would be another object.
fn named(name: &str) -> kube::Result<&str> {
    let missing = || Status { code: 404, ..Status::failure("it is not the name of an object", "NotFound") };
    if is_object_name(name) { Ok(name) } else { Err(kube::Error::Api(Box::new(missing()))) }
}

fn of<K: Resource>(api: &Api<K>) -> Request {
    Request::new(api.resource_url())
}

async fn send_to<K: Resource + Clone>(api: &Api<K>, request: Built) -> kube::Result<()> {
    send(&api.clone().into_client(), request).await.map(drop)
}

/// A request as kube builds it.
type Built = Result<http::Request<Vec<u8>>, request::Error>;

/// Sends a request and returns the answer as text.
pub(super) async fn send(client: &Client, request: Built) -> kube::Result<String> {
    client.request_text(request.map_err(kube::Error::BuildRequest)?).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use kube::client::Body;
    use parking_lot::Mutex;
    use std::{sync::Arc, time::Duration};
    use tokio::time::{Instant, sleep};

    /// Once, each of a dozen reconciles had a page in memory, of pods as large as their author wanted them.
    #[tokio::test(start_paused = true)]
    async fn pages_of_lists_come_one_after_the_other_and_namespaces_take_turns() {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            noted.lock().extend(request.uri().path().split('/').nth(4).map(str::to_owned));
            async {
                sleep(Duration::from_secs(1)).await;
                let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#;
                Ok::<_, kube::Error>(Response::new(Body::from(list.as_bytes().to_vec())))
            }
        });
        let (client, turns, begun) = (Client::new(service, "default"), Turns::new(1), Instant::now());
        let list = async |namespace: &str| {
            let pods = Api::<Pod>::namespaced(client.clone(), namespace);
            let found = |_: Metadata<Pod>| ControlFlow::Continue(());
            list_metadata(&pods, &turns, ListParams::default(), found).await.unwrap();
        };
        tokio::join!(list("a"), list("a"), list("a"), list("b"));
        assert_eq!(*asked.lock(), ["a", "a", "b", "a"]);
        assert!(begun.elapsed() >= Duration::from_secs(4));
    }

    #[test]
    fn a_name_is_no_path() {
        for name in ["a", "pi-driver", "spark-drv-0a.example.com", "0"] {
            assert!(named(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "../secrets/a", "a/log", "a?x=y", "a%2f", "a b", "-a", "é"] {
            assert!(named(name).is_err(), "{name}");
        }
    }
}
