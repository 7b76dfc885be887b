//! How are calls made whose answers hold what anybody may have written? So that nothing of it is read which is not needed: kube's own
//! methods read the whole answer, managedFields too, and where that fails nobody knows that the call was done.

use crate::api::Lenient;
use kube::{
    Api, Resource,
    api::{DeleteParams, GetParams, ListParams, ObjectList, Patch, PatchParams},
    core::{PartialObjectMeta, Request, request},
};
use serde::Serialize;
use std::fmt::Debug;

/// What an object says of itself.
pub(super) type Metadata<K> = Lenient<PartialObjectMeta<K>>;

/// An object's metadata; none if there is no such object.
pub(super) async fn metadata<K: Resource + Clone + Debug>(
    api: &Api<K>,
    name: &str,
) -> kube::Result<Option<Metadata<K>>> {
    let request = of(api).get_metadata(name, &GetParams::default());
    match api.clone().into_client().request(request.map_err(kube::Error::BuildRequest)?).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        found => found.map(Some),
    }
}

/// The metadata of all that `parameters` choose.
pub(super) async fn list_metadata<K: Resource + Clone + Debug>(
    api: &Api<K>,
    parameters: &ListParams,
) -> kube::Result<Vec<Metadata<K>>> {
    let request = of(api).list_metadata(parameters).map_err(kube::Error::BuildRequest)?;
    let list: ObjectList<Metadata<K>> = api.clone().into_client().request(request).await?;
    Ok(list.items)
}

/// Changes an object's metadata.
pub(super) async fn patch_metadata<K: Resource + Clone>(
    api: &Api<K>,
    name: &str,
    patch: &Patch<impl Serialize + Debug>,
) -> kube::Result<()> {
    send(api, of(api).patch_metadata(name, &PatchParams::default(), patch)).await
}

/// Asks for the deletion of an object.
pub(super) async fn delete<K: Resource + Clone>(
    api: &Api<K>,
    name: &str,
    parameters: &DeleteParams,
) -> kube::Result<()> {
    send(api, of(api).delete(name, parameters)).await
}

/// Asks for the deletion of all that `chosen` chooses.
pub(super) async fn delete_all<K: Resource + Clone>(api: &Api<K>, chosen: &ListParams) -> kube::Result<()> {
    send(api, of(api).delete_collection(&DeleteParams::default(), chosen)).await
}

fn of<K: Resource>(api: &Api<K>) -> Request {
    Request::new(api.resource_url())
}

async fn send<K: Resource + Clone>(
    api: &Api<K>,
    request: Result<axum::http::Request<Vec<u8>>, request::Error>,
) -> kube::Result<()> {
    api.clone().into_client().request_text(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
}
