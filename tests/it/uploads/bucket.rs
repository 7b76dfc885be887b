//! What is there to upload to? A server of S3's kind that somebody else has written, with its objects in a folder; what it is asked is
//! written down, and a test answers in its place where it likes.
//!
//! It is a Google Cloud Storage as well: object_store speaks Google's XML API, which is S3's but for the beginning of headers and the
//! signature. (fake-gcs-server takes uploads by the JSON API alone, 1.56.1.)

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName},
    response::{IntoResponse, Response},
    routing::any,
};
use http_body_util::BodyExt;
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use s3s_fs::FileSystem;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, task::JoinHandle};

const KEY_ID: &str = "AKIDEXAMPLE";
const KEY: &str = "wJalrXUtnFEMI";

/// What answers in the server's place, if it does.
type Instead = Box<dyn Fn(&Asked) -> Option<(u16, &'static str)> + Send + Sync>;

/// A request, without its body.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub method: String,
    /// With the query.
    pub path: String,
    /// Of `x-amz-acl` or `x-goog-acl`.
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

/// Ends with the test.
pub(crate) struct Bucket {
    pub endpoint: String,
    pub folder: PathBuf,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: JoinHandle<()>,
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Bucket {
    /// A store with the bucket `jobs`, with its objects in `folder`.
    pub(crate) async fn start(folder: &Path) -> Self {
        Self::start_with(folder, Box::new(|_| None)).await
    }

    pub(crate) async fn start_with(folder: &Path, instead: Instead) -> Self {
        Self::serve(folder, instead, false).await
    }

    /// The same as Google has it, for everybody.
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
                // The server would make a bucket of any name.
                let is_known = asked.path.starts_with("/jobs");
                let unknown = (404, "<Error><Code>NoSuchBucket</Code></Error>");
                if let Some((status, body)) = if is_known { instead(&asked) } else { Some(unknown) } {
                    // Whoever is still sending would not hear it.
                    request.into_body().collect().await.unwrap();
                    return Response::builder().status(status).body(Body::from(body)).unwrap();
                }
                if is_google {
                    rename(request.headers_mut(), "x-goog-", "x-amz-");
                    // No signature of S3's kind.
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
        Self { endpoint, folder, asked, serving }
    }

    /// Lets `program` in.
    pub(crate) fn admit(&self, program: &mut Command) {
        program.args(["--upload-to-endpoint", &self.endpoint]);
        program.envs([("AWS_ACCESS_KEY_ID", KEY_ID), ("AWS_SECRET_ACCESS_KEY", KEY)]);
    }

    /// A file of AWS's command line by which somebody is let in.
    pub(crate) fn profile() -> String {
        format!("[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {KEY}\n")
    }

    /// The object `key`, if there is one.
    pub(crate) fn object(&self, key: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join("jobs").join(key)).ok()
    }

    /// What was asked since somebody last wanted to know.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// How many requests there were of these that make something.
    pub(crate) fn written(&self) -> usize {
        self.asked().iter().filter(|asked| asked.method != "HEAD" && asked.method != "GET").count()
    }
}

/// Gives headers that begin with `from` the beginning `to`.
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
