//! A file store that speaks as much of WebHDFS as Spark needs: the only remote file system that needs no more than the
//! jars of Spark itself. It replaces the stores to which `spark-submit` uploads local files
//! (`spark.kubernetes.file.upload.path`).

use crate::prelude::*;
use axum::{
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Uri, header},
    response::{IntoResponse, Response},
    routing::any,
};

/// The part of each URL path before the path of the file.
const PREFIX: &str = "/webhdfs/v1";

/// The store, which stops when this value is dropped.
pub(super) struct WebHdfs {
    /// The root of the store, `webhdfs://HOST:PORT`.
    pub url: String,
    entries: Entries,
    _background: Background,
}

/// The files and directories of the store by path: the content of a file, `None` for a directory.
type Entries = Arc<Mutex<BTreeMap<String, Option<Bytes>>>>;

impl WebHdfs {
    /// Starts an empty store, which pods reach at `host`, an address of the node.
    pub(super) fn start(host: &str) -> Self {
        let background = Background::start();
        let listener = background.block_on(TcpListener::bind((host, 0))).unwrap();
        let url = format!("webhdfs://{}", listener.local_addr().unwrap());
        let entries = Entries::default();
        let router = Router::new().fallback(any(answer)).layer(DefaultBodyLimit::disable());
        let router = router.with_state(Arc::clone(&entries));
        background.spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, entries, _background: background }
    }

    /// Returns the contents of all files by file name; panics if two files have the same name.
    pub(super) fn files(&self) -> BTreeMap<String, String> {
        let entries = self.entries.lock().unwrap();
        let mut files = BTreeMap::new();
        for (path, content) in entries.iter().filter_map(|(path, content)| Some((path, content.as_ref()?))) {
            let name = path.rsplit('/').next().unwrap_or_default();
            let text = String::from_utf8_lossy(content).into_owned();
            assert_eq!(files.insert(name.to_owned(), text), None, "two files are called {name}");
        }
        files
    }
}

async fn answer(
    State(entries): State<Entries>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
    let query: BTreeMap<_, _> =
        uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')).collect();
    let operation = query.get("op").copied().unwrap_or_default();
    if matches!(operation, "CREATE" | "OPEN") && !query.contains_key("redirected") {
        // A name node does not transfer data: it redirects to a data node. Here both are the same server.
        let host = headers[header::HOST].to_str().unwrap_or_default();
        let location = format!("http://{host}{uri}&redirected=true");
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response();
    }
    let mut entries = entries.lock().unwrap();
    match (method.as_str(), operation) {
        ("PUT", "MKDIRS") => {
            let ends = path.match_indices('/').map(|(index, _)| index).skip(1).chain([path.len()]);
            for end in ends {
                entries.entry(path[..end].to_owned()).or_default();
            }
            Json(json!({"boolean": true})).into_response()
        }
        ("PUT", "CREATE") => {
            entries.insert(path, Some(body));
            StatusCode::CREATED.into_response()
        }
        ("PUT", "SETPERMISSION") => StatusCode::OK.into_response(),
        ("GET", "GETFILESTATUS") => match entries.get(&path) {
            Some(entry) => Json(json!({"FileStatus": status(entry.as_ref())})).into_response(),
            None => is_missing(&path),
        },
        ("GET", "OPEN") => match entries.get(&path) {
            Some(Some(content)) => {
                let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
                let begin = number("offset").unwrap_or(0).min(content.len());
                let length = number("length").unwrap_or(usize::MAX).min(content.len() - begin);
                content.slice(begin..begin + length).into_response()
            }
            Some(None) | None => is_missing(&path),
        },
        (method, operation) => {
            let message = format!("{method} with op={operation} is not implemented by this store");
            refused(StatusCode::BAD_REQUEST, "java.lang.UnsupportedOperationException", &message)
        }
    }
}

fn status(content: Option<&Bytes>) -> Value {
    json!({
        "accessTime": 0, "blockSize": 128 << 20, "childrenNum": 0, "fileId": 1, "group": "store",
        "length": content.map_or(0, Bytes::len), "modificationTime": 0, "owner": "store", "pathSuffix": "",
        "permission": "755", "replication": 1, "storagePolicy": 0,
        "type": if content.is_some() { "FILE" } else { "DIRECTORY" },
    })
}

fn is_missing(path: &str) -> Response {
    refused(StatusCode::NOT_FOUND, "java.io.FileNotFoundException", &format!("File does not exist: {path}"))
}

fn refused(status: StatusCode, class: &str, message: &str) -> Response {
    let name = class.rsplit('.').next().unwrap_or_default();
    let exception = json!({"exception": name, "javaClassName": class, "message": message});
    (status, Json(json!({"RemoteException": exception}))).into_response()
}
