//! Sends requests, and decodes no more of an answer than is needed, because any user of the cluster may have written
//! the objects in it. kube's own methods decode the whole answer, including managedFields: if that fails, they report a
//! deletion that succeeded as failed.

use super::Error;
use api::{Identity, Lenient, ObjectKey, ObjectKind};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Resource, ResourceExt,
    api::{DeleteParams, GetParams, ListParams, ObjectList, Patch, PatchParams, PostParams, Preconditions},
    core::{PartialObjectMeta, Request, Status, request},
};
use plan::merge_patch;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use validation::is_object_name;
use work::Turns;

/// The owner of the fields that the operator applies.
const FIELD_MANAGER: &str = "spark-operator";

/// The maximum number of objects in a page of a list. An object has up to 1.5 MB, which is etcd's limit, and a page is
/// in memory as text: kube's default of 500 objects would be a single answer of 750 MB.
pub(super) const PAGE: u32 = 20;

/// The maximum number of pages of lists that are in memory at once, in addition to the one of the watches. A page has
/// up to 30 MB, and each reconcile may need a list.
pub(super) const PAGES: usize = 2;

/// The metadata of an object of any kind: it has the same fields in all kinds.
pub(super) type Metadata = Lenient<PartialObjectMeta<Pod>>;

/// A request as kube builds it.
type Built = Result<http::Request<Vec<u8>>, request::Error>;

/// The requests about the objects of one kind in a namespace.
pub(super) struct Calls<'a> {
    client: &'a Client,
    namespace: &'a str,
    pub request: Request,
}

impl<'a> Calls<'a> {
    pub(super) fn of<K: Resource<DynamicType = ()>>(client: &'a Client, namespace: &'a str) -> Self {
        Self { client, namespace, request: Request::new(K::url_path(&(), Some(namespace))) }
    }

    pub(super) fn of_kind(client: &'a Client, kind: &ObjectKind, namespace: &'a str) -> Self {
        Self { client, namespace, request: Request::new(kind.path(namespace)) }
    }

    /// Returns an object's metadata; `None` if the object does not exist, or the cluster does not have its kind.
    pub(super) async fn metadata(&self, name: &str) -> kube::Result<Option<Metadata>> {
        // The name may come from an object that another user has written: see `named`.
        if !is_object_name(name) {
            return Ok(None);
        }
        let request = self.request.get_metadata(name, &GetParams::default());
        match self.client.request(request.map_err(kube::Error::BuildRequest)?).await {
            // The status code is compared, not the reason: for an API group that does not exist, the API server answers
            // with a plain text.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            found => found.map(Some),
        }
    }

    /// Returns an object, or the part of it that `T` keeps.
    pub(super) async fn get<T: DeserializeOwned>(&self, name: &str) -> kube::Result<T> {
        let request = self.request.get(named(name)?, &GetParams::default());
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Calls `found` with each object of a list, until it breaks; `request` is [`Request::list`] or
    /// [`Request::list_metadata`]. The list is read in pages, like that of a watch: users who may create such objects
    /// determine how many there are, and how large each is. Before each page, the namespace waits for its turn in
    /// `turns`.
    pub(super) async fn list<T: Clone + DeserializeOwned>(
        &self,
        turns: &Turns,
        request: impl Fn(&Request, &ListParams) -> Built,
        parameters: ListParams,
        mut found: impl FnMut(T) -> ControlFlow<()>,
    ) -> kube::Result<()> {
        let mut page = parameters.limit(PAGE);
        loop {
            let request = request(&self.request, &page).map_err(kube::Error::BuildRequest)?;
            let _turn = turns.turn(None, self.namespace).await;
            let list: ObjectList<T> = self.client.request(request).await?;
            let is_enough = list.items.into_iter().try_for_each(&mut found).is_break();
            match list.metadata.continue_.filter(|rest| !rest.is_empty() && !is_enough) {
                Some(rest) => page = page.continue_token(&rest),
                None => return Ok(()),
            }
        }
    }

    /// Creates an object, and returns it as text.
    pub(super) async fn create(&self, object: impl Into<Vec<u8>>) -> kube::Result<String> {
        self.text(self.request.create(&PostParams::default(), object.into())).await
    }

    /// Has the API server admit and change an object by a dry run, as if it were created. Nothing is stored.
    pub(super) async fn dry_run(&self, object: impl Into<Vec<u8>>) -> kube::Result<()> {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        self.text(self.request.create(&parameters, object.into())).await.map(drop)
    }

    /// Requests the deletion of an object.
    pub(super) async fn delete(&self, name: &str, parameters: &DeleteParams) -> kube::Result<()> {
        self.text(self.request.delete(named(name)?, parameters)).await.map(drop)
    }

    /// Changes an object.
    pub(super) async fn patch(&self, name: &str, patch: &Patch<Value>) -> kube::Result<()> {
        self.text(self.request.patch(named(name)?, &PatchParams::default(), patch)).await.map(drop)
    }

    /// Changes an object's status by a merge patch, and returns the object as text.
    pub(super) async fn patch_status(&self, name: &str, patch: Value) -> kube::Result<String> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.text(self.request.patch_subresource("status", named(name)?, &parameters, &patch)).await
    }

    async fn text(&self, request: Built) -> kube::Result<String> {
        self.client.request_text(request.map_err(kube::Error::BuildRequest)?).await
    }
}

/// Whether the API server has the same version of `object` as this copy; `what` names the request in the error.
pub(super) async fn is_current<K>(client: &Client, object: &K, what: &'static str) -> Result<bool, Error>
where
    K: Resource<DynamicType = ()>,
{
    let namespace = object.own_namespace();
    let live = Calls::of::<K>(client, namespace).metadata(&object.name_any()).await;
    let live = live.map_err(Error::api(what))?;
    Ok(live.is_some_and(|live| live.resource_version() == object.resource_version()))
}

/// Writes `status` in place of `before`, and returns the metadata of the object as it is then. Fields that are equal in both
/// are not sent, so fields that this version of the operator does not know are kept.
///
/// # Errors
///
/// [`Error::Conflict`] if the object has changed, or is gone, since `object` was read: the caller has to plan again.
pub(super) async fn write_status<K: Resource<DynamicType = ()>>(
    client: &Client,
    object: &K,
    before: &impl Serialize,
    status: &impl Serialize,
) -> Result<Metadata, Error> {
    let namespace = object.own_namespace();
    let patch = json!({
        "metadata": {"resourceVersion": object.resource_version(), "uid": object.uid()},
        "status": merge_patch(&json!(before), &json!(status)),
    });
    let written = Calls::of::<K>(client, namespace).patch_status(&object.name_any(), patch).await;
    let read = |text: String| serde_json::from_str::<Metadata>(&text).map_err(kube::Error::SerdeError);
    match written.and_then(read) {
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
            Err(Error::Conflict)
        }
        written => written.map_err(Error::api("write of the status")),
    }
}

/// Creates or changes an object in `namespace` by server-side apply, which takes the fields of `object` over from all
/// other managers, and returns its metadata.
pub(super) async fn apply(client: &Client, namespace: &str, object: &Value) -> kube::Result<Metadata> {
    let key = ObjectKey::of(object).unwrap_or_default();
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let request = Request::new(key.kind.path(namespace));
    let request = request.patch_metadata(named(&key.name)?, &parameters, &Patch::Apply(object));
    client.request(request.map_err(kube::Error::BuildRequest)?).await
}

/// Turns the failure of a request into a success if the object is gone, or if another object has its name by now.
pub(super) fn done_or_gone(done: kube::Result<()>) -> kube::Result<()> {
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        done => done,
    }
}

/// Returns the parameters of a DELETE that applies only to the object with this uid, not to a later object with the
/// same name.
pub(super) fn only(uid: Option<String>) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions { uid, resource_version: None })
}

/// Returns `name`, or the answer that there is no such object if no object can have this name. kube writes names into
/// URLs as they are, and some come from objects that other users have written: `../secrets/a` would be another object.
fn named(name: &str) -> kube::Result<&str> {
    let missing = || Status { code: 404, ..Status::failure("it is not the name of an object", "NotFound") };
    if is_object_name(name) { Ok(name) } else { Err(kube::Error::Api(Box::new(missing()))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::api_server;
    use parking_lot::Mutex;
    use std::{sync::Arc, time::Duration};
    use tokio::time::{Instant, sleep};

    /// In an earlier version, each of a dozen reconciles had a page in memory, of pods of any size.
    #[tokio::test(start_paused = true)]
    async fn lists_are_read_page_by_page_and_namespaces_take_turns() {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&asked);
        let client = api_server(move |request| {
            noted.lock().extend(request.uri().path().split('/').nth(4).map(str::to_owned));
            async {
                sleep(Duration::from_secs(1)).await;
                (200, json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}))
            }
        });
        let (turns, begun) = (Turns::new(1), Instant::now());
        let list = async |namespace: &str| {
            let found = |_: Metadata| ControlFlow::Continue(());
            let pods = Calls::of::<Pod>(&client, namespace);
            pods.list(&turns, Request::list_metadata, ListParams::default(), found).await.unwrap();
        };
        tokio::join!(list("a"), list("a"), list("a"), list("b"));
        assert_eq!(*asked.lock(), ["a", "a", "b", "a"]);
        assert!(begun.elapsed() >= Duration::from_secs(4));
    }

    #[test]
    fn a_name_that_could_be_a_path_is_refused() {
        for name in ["a", "pi-driver", "spark-drv-0a.example.com", "0"] {
            assert!(named(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "../secrets/a", "a/log", "a?x=y", "a%2f", "a b", "-a", "é"] {
            assert!(named(name).is_err(), "{name}");
        }
    }
}
