//! Reads from the API server what any user of the cluster may have written: never more bytes than a limit, and one object
//! at a time.

use axum::body::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Client,
    api::ListParams,
    client::Body,
    core::{Request, Status},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use spark_operator_client::patience::{GRACE, in_time};
use std::io;
use tokio::sync::Semaphore;

/// The most bytes of one answer. An object has up to 1.5 MB, which is etcd's limit, and an ordinary application 5 KB.
const LARGEST: usize = 8 << 20;
/// How many objects are asked for at once: their answer is of some 2 MB if they are ordinary. If it exceeds [`LARGEST`],
/// fewer are asked for.
const PAGE: u32 = 500;
/// The right to have an answer in memory, of all callers together.
static IN_MEMORY: Semaphore = Semaphore::const_new(4);

#[derive(Deserialize)]
struct Page<'t> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Vec<&'t RawValue>,
}

/// Gives each object of a list to `take`, as many as `most`. Returns the version of the list, and whether there are more.
///
/// # Errors
///
/// If the API server refuses, or does not answer in time.
pub(crate) async fn list(
    client: &Client,
    path: &str,
    mut which: ListParams,
    most: usize,
    mut take: impl FnMut(&RawValue),
) -> Result<(String, bool), kube::Error> {
    let (mut size, mut count) = (PAGE, 0);
    loop {
        let limited = which.clone().limit(size);
        let request = Request::new(path).list(&limited).map_err(kube::Error::BuildRequest)?;
        let Some(body) = body(client, request).await? else {
            if size == 1 {
                return Err(too_large());
            }
            size = (size / 8).max(1);
            continue;
        };
        let page: Page = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
        for item in page.items {
            if count == most {
                return Ok((String::new(), true));
            }
            count += 1;
            take(item);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => which = which.continue_token(&token),
            None => return Ok((page.metadata.resource_version.unwrap_or_default(), false)),
        }
    }
}

/// Returns the text of the object at `path`.
///
/// # Errors
///
/// As [`list`].
pub(crate) async fn object(client: &Client, path: &str) -> Result<Box<RawValue>, kube::Error> {
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let body = body(client, request).await?.ok_or_else(too_large)?;
    serde_json::from_slice(&body).map_err(kube::Error::SerdeError)
}

/// Sends a request whose answer nobody needs.
///
/// # Errors
///
/// As [`list`].
pub(crate) async fn send(client: &Client, request: http::Request<Vec<u8>>) -> Result<(), kube::Error> {
    body(client, request).await.map(drop)
}

/// Returns the body of the answer; none if it is too large.
async fn body(client: &Client, request: http::Request<Vec<u8>>) -> Result<Option<Bytes>, kube::Error> {
    let answer = in_time(GRACE, client.send(request.map(Body::from))).await??;
    let code = answer.status();
    let _turn = IN_MEMORY.acquire().await.expect("nobody closes it");
    match in_time(GRACE, Limited::new(answer.into_body(), LARGEST).collect()).await? {
        Ok(body) if code.is_success() => Ok(Some(body.to_bytes())),
        Ok(body) => {
            let status = serde_json::from_slice::<Status>(&body.to_bytes()).unwrap_or_else(|_| Status {
                code: code.as_u16(),
                message: format!("the answer is {code}"),
                ..Status::default()
            });
            Err(kube::Error::Api(status.boxed()))
        }
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(kube::Error::Service(error)),
    }
}

fn too_large() -> kube::Error {
    kube::Error::ReadEvents(io::Error::other("an object is larger than etcd stores"))
}
