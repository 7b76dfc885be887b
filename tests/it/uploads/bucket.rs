//! A server that speaks the S3 protocol (the crate `s3s`), with its objects in a folder, to which tests upload. The
//! server records each request, and a test can replace any answer.
//!
//! The server can also act as Google Cloud Storage: object_store speaks Google's XML API, which is S3's except for the
//! prefix of headers and the signature. (fake-gcs-server 1.56.1 accepts uploads only by the JSON API.)

use crate::prelude::*;
use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName},
    response::{IntoResponse, Response},
    routing::any,
};
use http_body_util::BodyExt;
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use s3s_fs::FileSystem;

const KEY_ID: &str = "AKIDEXAMPLE";
const KEY: &str = "wJalrXUtnFEMI";

/// Returns the status and body that replace the server's answer, or `None` to keep that answer.
type Instead = Box<dyn Fn(&Asked) -> Option<(u16, &'static str)> + Send + Sync>;

/// A request, without its body.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The header `x-amz-acl` or `x-goog-acl`.
    pub acl: Option<String>,
    pub authorization: String,
}

impl Asked {
    fn of(request: &Request) -> Self {
        let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        Self {
            method: request.method().to_string(),
            path: request.uri().to_string(),
            acl: header("x-amz-acl").or_else(|| header("x-goog-acl")),
            authorization: header("authorization").unwrap_or_default(),
        }
    }
}

/// The server stops when this value is dropped.
pub(crate) struct Bucket {
    pub endpoint: String,
    pub folder: PathBuf,
    asked: Arc<Mutex<Vec<Asked>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Bucket {
    /// Starts a store with the bucket `jobs` and its objects in `folder`.
    pub(crate) async fn start(folder: &Path) -> Self {
        Self::start_with(folder, Box::new(|_| None)).await
    }

    pub(crate) async fn start_with(folder: &Path, instead: Instead) -> Self {
        Self::serve(folder, instead, false).await
    }

    /// Starts the same store as Google Cloud Storage, without authentication.
    pub(crate) async fn start_google(folder: &Path) -> Self {
        Self::serve(folder, Box::new(|_| None), true).await
    }

    async fn serve(folder: &Path, instead: Instead, is_google: bool) -> Self {
        let folder = folder.join("store");
        fs::create_dir_all(folder.join("jobs")).unwrap();
        let mut builder = S3ServiceBuilder::new(FileSystem::new(&folder).unwrap());
        if !is_google {
            builder.set_auth(SimpleAuth::from_single(KEY_ID, KEY));
        }
        let (service, asked) = (builder.build(), Arc::new(Mutex::new(Vec::new())));
        let (instead, asks) = (Arc::new(instead), Arc::clone(&asked));
        let answer = move |mut request: Request| {
            let (mut service, instead, asks) = (service.clone(), Arc::clone(&instead), Arc::clone(&asks));
            async move {
                let asked = Asked::of(&request);
                asks.lock().unwrap().push(asked.clone());
                // The server would create a bucket of any name.
                let is_known = asked.path.starts_with("/jobs");
                let unknown = (404, "<Error><Code>NoSuchBucket</Code></Error>");
                if let Some((status, body)) = if is_known { instead(&asked) } else { Some(unknown) } {
                    // A client that is still sending would not read the answer.
                    request.into_body().collect().await.unwrap();
                    return Response::builder().status(status).body(Body::from(body)).unwrap();
                }
                if is_google {
                    rename(request.headers_mut(), "x-goog-", "x-amz-");
                    // Google's signature is not one of S3.
                    request.headers_mut().remove("authorization");
                }
                let answer = tower::Service::call(&mut service, request).await.unwrap();
                let mut answer = answer.map(Body::new).into_response();
                if is_google {
                    rename(answer.headers_mut(), "x-amz-", "x-goog-");
                }
                answer
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(any(answer));
        let serving = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        let serving = AbortOnDropHandle::new(serving);
        Self { endpoint, folder, asked, _serving: serving }
    }

    /// Adds the endpoint and valid credentials to the arguments of `program`.
    pub(crate) fn admit(&self, program: &mut Command) {
        program.args(["--upload-to-endpoint", &self.endpoint]);
        program.envs([("AWS_ACCESS_KEY_ID", KEY_ID), ("AWS_SECRET_ACCESS_KEY", KEY)]);
    }

    /// Returns the content of a credentials file of the AWS command line, with valid credentials.
    pub(crate) fn profile() -> String {
        format!("[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {KEY}\n")
    }

    /// Returns the object `key`, if it exists.
    pub(crate) fn object(&self, key: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join("jobs").join(key)).ok()
    }

    /// Returns the requests since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Returns the number of requests since the last call that change something.
    pub(crate) fn written(&self) -> usize {
        self.asked().iter().filter(|asked| asked.method != "HEAD" && asked.method != "GET").count()
    }
}

/// Replaces the prefix `from` of header names by `to`.
fn rename(headers: &mut HeaderMap, from: &str, to: &str) {
    let renamed: Vec<_> = headers
        .iter()
        .filter_map(|(name, value)| {
            Some((format!("{to}{}", name.as_str().strip_prefix(from)?), value.clone()))
        })
        .collect();
    for (name, value) in renamed {
        headers.insert(HeaderName::try_from(name).unwrap(), value);
    }
}
