//! Reads objects from the API server, with a limit of bytes and parsed one at a time, because any user of the cluster
//! may have written them. Asks the API server for the rights of a caller.

use super::{Refusal, Result, Shares};
use api::{Lenient, SparkApplication, is_object_name, is_segment};
use axum::{
    BoxError,
    body::{Bytes, HttpBody},
    http::StatusCode,
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k8s_openapi::{
    api::authorization::v1::SelfSubjectAccessReview, apimachinery::pkg::apis::meta::v1::ListMeta,
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, PostParams},
    client::Body,
    core::{Request, Status},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{json, value::RawValue};
use spark_operator_client::patience::{GRACE, in_time};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The maximum size of one answer, in bytes. An object has up to 1.5 MB, which is etcd's limit, an ordinary application
/// 5 KB, and a page of Spark's UI with a thousand tasks 2 MB.
pub(crate) const LARGEST: usize = 8 << 20;
/// The number of objects in one page of a list: some 2 MB if they are ordinary. If the answer exceeds [`LARGEST`], the
/// page is read again in smaller pages.
const PAGE: u32 = 500;
/// The maximum number of answers in memory, for all callers together. A party may have at most as many as it leaves
/// free.
static IN_MEMORY: Shares = Shares::new(4);

/// Reads with the rights of a caller.
#[derive(Clone)]
pub(crate) struct Reader {
    pub client: Client,
    /// The party to which the caller belongs.
    pub party: Arc<str>,
}

/// A request in flight. Its result is the answer, whose body is not read yet.
type Asked = JoinHandle<Result<http::Response<Body>, kube::Error>>;

#[derive(Deserialize)]
struct Page<'t> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Vec<&'t RawValue>,
}

impl Reader {
    /// Calls `take` with the objects of a list, at most `most`. Returns the list's `resourceVersion`, which is empty if
    /// there are more objects, and whether there are more.
    ///
    /// # Errors
    ///
    /// If the API server refuses, or does not answer within [`GRACE`], or if a single object exceeds [`LARGEST`].
    pub(crate) async fn list(
        &self,
        path: &str,
        mut which: ListParams,
        most: usize,
        mut take: impl FnMut(&RawValue),
    ) -> Result<(String, bool), kube::Error> {
        let (mut size, mut count) = (PAGE, 0);
        let mut asked = self.asked(path, &which, size)?;
        loop {
            let answer = asked.await.map_err(|panic| kube::Error::Service(panic.into()))??;
            let Some(body) = self.body(answer).await? else {
                if size == 1 {
                    return Err(too_large());
                }
                size = (size / 8).max(1);
                asked = self.asked(path, &which, size)?;
                continue;
            };
            let Page { metadata, items } = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
            let next = metadata.continue_.filter(|token| !token.is_empty());
            let next = next.map(|token| {
                which = which.clone().continue_token(&token);
                self.asked(path, &which, size)
            });
            for item in items {
                if count == most {
                    return Ok((String::new(), true));
                }
                count += 1;
                take(item);
            }
            match next {
                Some(next) => asked = next?,
                None => return Ok((metadata.resource_version.unwrap_or_default(), false)),
            }
        }
    }

    /// Requests the next `size` objects of a list. The API server prepares them while the previous page is processed.
    fn asked(&self, path: &str, which: &ListParams, size: u32) -> Result<Asked, kube::Error> {
        let which = which.clone().limit(size);
        let request = Request::new(path).list(&which).map_err(kube::Error::BuildRequest)?;
        let client = self.client.clone();
        Ok(tokio::spawn(async move { in_time(GRACE, client.send(request.map(Body::from))).await? }))
    }

    /// Reads the object `name`. Returns it parsed, and as the JSON text of the answer.
    ///
    /// # Errors
    ///
    /// If the object does not exist, may not be read, or cannot be parsed.
    pub(crate) async fn object<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<(K, Box<str>)> {
        named(namespace, name)?;
        let path = format!("{}/{name}", K::url_path(&(), Some(namespace)));
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let body = self.send(request).await?.ok_or_else(too_large)?;
        let object: &RawValue = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
        let (read, text) = Lenient::<K>::parse(object);
        let read = read.0.map_err(|invalid| {
            let words = format!("The {} cannot be read: {}", K::kind(&()), invalid.error);
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, words)
        })?;
        Ok((read, text))
    }

    /// Sends a request. Returns the body of the answer. `None` if it exceeds [`LARGEST`].
    ///
    /// # Errors
    ///
    /// As [`Self::list`].
    pub(crate) async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Option<Bytes>, kube::Error> {
        self.body(in_time(GRACE, self.client.send(request.map(Body::from))).await??).await
    }

    async fn body(&self, answer: http::Response<Body>) -> Result<Option<Bytes>, kube::Error> {
        let code = answer.status();
        let body = in_time(GRACE, collected(answer.into_body(), IN_MEMORY.next(&self.party))).await?;
        match body.map_err(kube::Error::Service)? {
            Some(body) if !code.is_success() => {
                let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| Status {
                    code: code.as_u16(),
                    message: format!("the answer is {code}"),
                    ..Status::default()
                });
                Err(kube::Error::Api(status.boxed()))
            }
            body => Ok(body),
        }
    }

    /// Returns a sentence if the caller lacks a right, by a SelfSubjectAccessReview. `None` if the caller has it.
    /// `resource` is one of the operator's kinds; an empty `name` means all objects of the namespace.
    pub(crate) async fn lack(
        &self,
        verb: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Option<String> {
        let group = SparkApplication::group(&());
        let of =
            json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name});
        let review = json!({"metadata": {}, "spec": {"resourceAttributes": of}});
        let review = serde_json::from_value(review).expect("these are the fields of a review");
        let reviews = Api::<SelfSubjectAccessReview>::all(self.client.clone());
        match in_time(GRACE, reviews.create(&PostParams::default(), &review)).await.flatten() {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => None,
            Ok(_) => Some(format!("You lack the right to {verb} {resource} in the namespace {namespace}.")),
            Err(error) => Some(Refusal::from(error).words),
        }
    }
}

/// Checks that both are valid names, because they become segments of a path.
///
/// # Errors
///
/// If one is not a valid name, so that there is no such object.
pub(crate) fn named(namespace: &str, name: &str) -> Result<()> {
    if is_segment(namespace) && is_object_name(name) {
        return Ok(());
    }
    Err(Refusal::not_found("There is no such object: that cannot be a name."))
}

/// Reads a whole body, after `room` has resolved to a place in memory. `None` if the body exceeds [`LARGEST`].
///
/// # Errors
///
/// If the connection fails before the end of the body.
pub(crate) async fn collected<B>(body: B, room: impl Future) -> Result<Option<Bytes>, BoxError>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>>,
{
    let _room = room.await;
    match Limited::new(body, LARGEST).collect().await {
        Ok(body) => Ok(Some(body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(error),
    }
}

fn too_large() -> kube::Error {
    let status = Status::failure("An object is too large for this page.", "RequestEntityTooLarge");
    kube::Error::Api(status.with_code(413).boxed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body as Answer;
    use futures::stream::pending;
    use std::convert::Infallible;
    use tokio::task::yield_now;

    /// Otherwise slow answers for one party could occupy all places in memory, and other parties would wait.
    #[tokio::test]
    async fn slow_answers_for_one_party_do_not_delay_another() {
        let client = crate::tests::client(|request| match request.uri().path() {
            "/slow" => (200, Answer::from_stream(pending::<Result<Bytes, Infallible>>())),
            _ => (200, Answer::from("{}")),
        });
        let reader = |party: &str| Reader { client: client.clone(), party: party.into() };
        let request = |path: &str| http::Request::get(path).body(Vec::new()).unwrap();
        let crowd: Vec<_> = (0..8)
            .map(|_| {
                let (crowd, slow) = (reader("crowd"), request("/slow"));
                tokio::spawn(async move { crowd.send(slow).await.map(drop) })
            })
            .collect();
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(reader("other").send(request("/")).await.unwrap().is_some());
        for task in crowd {
            task.abort();
        }
    }

    #[tokio::test]
    async fn an_object_that_is_too_large_is_not_reported_as_an_api_server_that_cannot_be_reached() {
        let client = crate::tests::client(|_| (200, vec![b' '; LARGEST + 1]));
        let reader = Reader { client, party: "one".into() };
        let refusal = Refusal::from(reader.list("/", ListParams::default(), 1, |_| ()).await.unwrap_err());
        assert_eq!(
            (refusal.status, &*refusal.words),
            (StatusCode::BAD_REQUEST, "An object is too large for this page.")
        );
    }

    #[test]
    fn a_name_that_would_change_the_path_is_refused() {
        assert!(named("team-a", "spark-pi.1").is_ok());
        for (namespace, name) in
            [("team-a", "../secrets"), ("team-a/pods", "x"), ("", "x"), ("a", "x?watch"), ("a", "%2e")]
        {
            let refusal = named(namespace, name).unwrap_err();
            assert_eq!(refusal.status, StatusCode::NOT_FOUND, "{namespace} {name}");
        }
    }
}
