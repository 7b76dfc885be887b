//! Spark's own UI inside the page: a frame for it, and the answers to the frame's requests.
//!
//! A tenant controls the answers of a driver. They are sandboxed in the frame: the browser gives them no origin, so
//! their scripts can access neither the page nor its cookie. The window's key in the path of the frame authorizes its
//! requests, so they need no cookie.

use super::{Driver, LARGEST, Named, POLICY, Page, Query, Refusal, Result, Session, Window, hidden, is_part};
use api::{Identity, SparkApplication, SparkConnect};
use axum::{
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::{Html, IntoResponse, Response},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use maud::html;
use pods::{Phase, PodSummary};
use spark_operator_client::{connect_summary, summary};
use std::{collections::HashMap, sync::Arc};
use submission::exposure::{is_ui_off, ui_port};

/// The Content-Security-Policy of the frame: Spark's scripts run, also inline, but without an origin. The frame loads
/// from and sends to this server only, and can be embedded by this page only.
const CONFINED: &str = "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads; default-src 'self' \
    'unsafe-inline' 'unsafe-eval' data: blob:; form-action 'self'; frame-ancestors 'self'; base-uri 'none'";
/// The maximum length of the path that a driver puts before all paths, in bytes.
const LONGEST_BASE: usize = 1 << 10;
/// The script with the storage that Spark's scripts need in a frame without an origin: see
/// docs/design/decisions/0015-page-without-rights.md.
const STORAGE: &str = "<head><script src=\"/assets/storage.js\"></script>";

/// Shows the UI of the application's driver in a frame, or says why there is none.
pub(crate) async fn show(session: Session, Path((namespace, name)): Named) -> Result<Response> {
    let (application, _) = session.caller.reader.object::<SparkApplication>(&namespace, &name).await?;
    let driver = driver(&session, &application).await;
    Ok(framed(&session, &name, &format!("/applications/{namespace}/{name}"), driver))
}

/// Shows the UI of a server of Spark Connect in a frame, or says why there is none.
pub(crate) async fn show_server(session: Session, Path((namespace, name)): Named) -> Result<Response> {
    let (connect, _) = session.caller.reader.object::<SparkConnect>(&namespace, &name).await?;
    let none = format!("{name} has no server: it is {}", connect_summary::state_and_why(&connect));
    let (pod, port) = (connect::names::server(&connect), u16::try_from(connect::UI_PORT).unwrap_or_default());
    let uid = connect.own_uid();
    let driver = running(&session, &connect, &pod, port, none, |pod| pod.is_controlled_by(uid)).await;
    Ok(framed(&session, &name, &format!("/connects/{namespace}/{name}"), driver))
}

/// Returns the page with a frame for the UI of a driver, or with the sentence that says why there is no UI.
fn framed(session: &Session, name: &str, back: &str, driver: Result<Driver>) -> Response {
    let window =
        driver.map(|driver| session.page.windows.open(&session.page.secrets, &session.caller, driver));
    let content = html! {
        p { a href=(back) { "← " (name) } }
        @match &window {
            Ok(window) => iframe title={ "Spark UI of " (name) } src={ (window.context()) "/jobs/" }
                sandbox="allow-scripts allow-forms allow-modals allow-popups allow-downloads" {},
            Err(refusal) => p.sentence { (refusal.words) },
        }
    };
    let policy = [(header::CONTENT_SECURITY_POLICY, format!("{POLICY}; frame-src 'self'"))];
    (policy, session.document(&format!("Spark UI of {name}"), true, &content)).into_response()
}

/// Returns the port of the UI of the application's driver.
///
/// # Errors
///
/// If the application has no UI or no running driver.
async fn driver(session: &Session, application: &SparkApplication) -> Result<Driver> {
    let name = application.name_any();
    if is_ui_off(application) {
        let words = format!("{name} has no web UI: its sparkConf turns it off (spark.ui.enabled).");
        return Err(Refusal::not_found(words));
    }
    let port = ui_port(application).and_then(|port| u16::try_from(port).ok()).ok_or_else(|| {
        let why = "lets Spark choose a random port for its web UI (spark.ui.port), so the port is not known";
        Refusal::not_found(format!("{name} {why}."))
    })?;
    let none = format!("{name} has no driver: it is {}", summary::state_and_why(application));
    let status = application.status.as_ref();
    let id = status.and_then(|status| status.submission_id.as_ref());
    let Some(pod) = status.and_then(|status| status.driver_info.pod_name.as_ref()) else {
        return Err(Refusal::not_found(none));
    };
    let is_ours = |pod: &PodSummary| id.is_none() || id == pod.submission_id.as_ref();
    running(session, application, pod, port, none, is_ours).await
}

/// Returns the `port` of the driver of an object, if its `pod` runs. `is_ours` tells whether a pod with this name is
/// really the driver.
///
/// # Errors
///
/// If the driver does not run: with the text `none` if there is no such pod, or if it has ended.
async fn running<K: Resource<DynamicType = ()>>(
    session: &Session,
    of: &K,
    pod: &str,
    port: u16,
    none: String,
    is_ours: impl Fn(&PodSummary) -> bool,
) -> Result<Driver> {
    let (namespace, name) = (of.own_namespace().to_owned(), of.name_any());
    let pod = match session.caller.reader.object::<Pod>(&namespace, pod).await {
        Err(refusal) if refusal.status == StatusCode::NOT_FOUND => return Err(Refusal::not_found(none)),
        pod => PodSummary::of(&pod?.0),
    };
    match pod.phase {
        // A sidecar may keep the pod in phase Pending or Running after the driver has ended.
        _ if pod.ended.is_some() => Err(Refusal::not_found(none)),
        Phase::Running if is_ours(&pod) => {
            Ok(Driver { namespace, resource: K::plural(&()), name, pod: pod.name, uid: pod.uid, port })
        }
        phase @ (Phase::Pending | Phase::Unknown) if is_ours(&pod) => {
            let words = format!("The driver of {name} starts: its pod is {phase:?}. Its UI appears here.");
            Err(Refusal::not_found(words))
        }
        _ => Err(Refusal::not_found(none)),
    }
}

/// Answers a request from a frame with Spark's UI.
pub(crate) async fn window(
    State(page): State<Arc<Page>>,
    Path(path): Path<HashMap<String, String>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let answer = if is_part(&headers) {
        // The Content-Security-Policy of our pages would allow a driver's scripts: their URLs have the same origin.
        Err(Refusal::forbidden("A driver's answers can only be loaded in their frame."))
    } else {
        answer(&page, &path, &method, &uri, &body).await
    };
    let answer = answer.unwrap_or_else(|refusal| (refusal.status, refusal.words).into_response());
    // In a window that a sandboxed frame has opened, a browser shows no page with another opener policy.
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    ([(header::CONTENT_SECURITY_POLICY, CONFINED), (opener, "unsafe-none")], answer).into_response()
}

async fn answer(
    page: &Page,
    path: &HashMap<String, String>,
    method: &Method,
    uri: &Uri,
    body: &[u8],
) -> Result<Response> {
    let gone = || Refusal::new(StatusCode::GONE, "This view of Spark's UI is closed: load the page again.");
    let window = path.get("key").and_then(|key| page.windows.get(key)).ok_or_else(gone)?;
    let target = uri.path_and_query().and_then(|target| target.as_str().strip_prefix(&window.context()));
    let target = target.ok_or_else(gone)?;
    // The request for the UI's root has no `path`.
    let is_kill = path.get("path").is_some_and(|path| is_kill(path));
    let method = match *method {
        Method::OPTIONS => return Ok((StatusCode::NO_CONTENT, may_be_read()).into_response()),
        Method::GET | Method::HEAD => Method::GET,
        Method::POST if is_kill => Method::POST,
        _ => return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "Spark's UI is read-only here.")),
    };
    if is_kill && let Some(question) = kill(page, &window, &method, body).await? {
        return Ok(question);
    }
    let (head, body) = window.ask(method, target).await?;
    let kind =
        head.headers.get(header::CONTENT_TYPE).cloned().unwrap_or(HeaderValue::from_static("text/plain"));
    let body = if kind.as_bytes().starts_with(b"text/html") { adapted(&window, &body)? } else { body };
    let base = window.base.lock().clone().unwrap_or_default();
    let to = head.headers.get(header::LOCATION).and_then(|to| to.to_str().ok());
    let to = to.and_then(|to| inside(&window.context(), &base, to)).map(|to| [(header::LOCATION, to)]);
    Ok((head.status, may_be_read(), [(header::CONTENT_TYPE, kind)], to, body).into_response())
}

/// Returns the CORS headers with which the scripts of a frame without an origin can read the answers to their requests.
fn may_be_read() -> [(HeaderName, &'static str); 4] {
    [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "null"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "x-requested-with, content-type"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ]
}

/// Whether the decoded path may be one at which Spark kills a job or a stage. Jetty ignores path parameters, after a
/// semicolon, and Spark 3.5's also decodes the non-standard `%u006b`. As no path of Spark's UI contains a `%` after
/// decoding, each such path counts.
fn is_kill(path: &str) -> bool {
    path.contains('%') || path.split('/').any(|segment| segment.split(';').next() == Some("kill"))
}

/// Returns a form that asks for confirmation before a job or stage is killed. `None` if the caller has confirmed.
///
/// # Errors
///
/// If the page does not allow actions, or if the caller may not patch the SparkApplication or SparkConnect.
async fn kill(page: &Page, window: &Window, method: &Method, body: &[u8]) -> Result<Option<Response>> {
    page.check_actions()?;
    let Driver { namespace, resource, name, .. } = &window.driver;
    if let Some(words) = window.reader.lack("patch", resource, namespace, name).await {
        return Err(Refusal::forbidden(words));
    }
    let posted = Query::of(body);
    if *method == Method::POST && page.secrets.is_form(window.key.as_bytes(), posted.get("form")) {
        return Ok(None);
    }
    // Since Spark 4.1, a kill is a form, whose fields the driver also accepts in the query of the URL.
    let posted = posted.with("form", "").address("");
    let question = html! {
        form method="post" action=[Some(posted).filter(|posted| !posted.is_empty())] {
            (hidden(&page.secrets.form(window.key.as_bytes())))
            p { "Kill it? Its tasks end, and what they have done is lost." }
            button { "Kill" }
        }
    };
    Ok(Some(Html(question.into_string()).into_response()))
}

/// Returns a page of Spark's UI with the window's path before all paths, and with the script that replaces the storage.
///
/// # Errors
///
/// If the page would become too large.
fn adapted(window: &Window, page: &[u8]) -> Result<Bytes> {
    let page = String::from_utf8_lossy(page);
    let context = window.context();
    let base = base_of(&page);
    if let Some(base) = base {
        *window.base.lock() = Some(base.to_owned());
    }
    rewritten(&page, base.unwrap_or(&context), &context)
        .map(Bytes::from)
        .ok_or_else(|| Refusal::new(StatusCode::BAD_GATEWAY, "The driver's page is too large."))
}

/// Returns the path that the driver puts before all paths, from the call of `setUIRoot` in its page. `None` without the
/// call, or if the path exceeds [`LONGEST_BASE`]: each window keeps the path in memory.
fn base_of(page: &str) -> Option<&str> {
    let (base, _) = page.split_once("setUIRoot('")?.1.split_once('\'')?;
    Some(base).filter(|base| base.len() <= LONGEST_BASE)
}

/// Returns the page with `context` instead of `base` at the beginning of all paths. `None` if the result would be too
/// large: a hostile page may consist of such paths.
fn rewritten(page: &str, base: &str, context: &str) -> Option<String> {
    let mut page = page.to_owned();
    if base != context {
        page = page.replacen(&format!("setUIRoot('{base}')"), &format!("setUIRoot('{context}')"), 1);
        for quote in ['"', '\''] {
            let (from, to) = (format!("{quote}{base}/"), format!("{quote}{context}/"));
            if page.len() + page.matches(&from).count() * to.len() > 2 * LARGEST {
                return None;
            }
            page = page.replace(&from, &to);
        }
    }
    Some(page.replacen("<head>", STORAGE, 1))
}

/// Returns the target of a driver's redirect to `to`, as a path inside the window. `None` if the path contains a
/// segment `.` or `..`, by which a browser could leave the window, or if it cannot be parsed.
fn inside(context: &str, base: &str, to: &str) -> Option<HeaderValue> {
    let uri: Uri = to.parse().ok()?;
    let is_up = |segment: &str| [".", ".."].contains(&&*segment.to_lowercase().replace("%2e", "."));
    let path = uri.path_and_query().filter(|_| !uri.path().split('/').any(is_up))?.as_str();
    let below = path.strip_prefix(context).or_else(|| path.strip_prefix(base));
    let path = below.filter(|below| below.starts_with('/')).unwrap_or(path);
    HeaderValue::try_from(format!("{context}{path}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gets_the_storage_script_and_the_paths_of_the_window() {
        let page = "<html><head><script src=\"/b/static/x.js\"></script><script>setUIRoot('/b')</script></head>\
            <a href=\"/b/jobs/\"></a><a href='/b/sql/'></a><a href=\"https://b/\"></a></html>";
        assert_eq!(
            rewritten(page, "/b", "/spark/key").unwrap(),
            "<html><head><script src=\"/assets/storage.js\"></script><script src=\"/spark/key/static/x.js\"></script>\
            <script>setUIRoot('/spark/key')</script></head>\
            <a href=\"/spark/key/jobs/\"></a><a href='/spark/key/sql/'></a><a href=\"https://b/\"></a></html>"
        );
        assert_eq!(rewritten("<a href=\"/k/\">", "/k", "/k").unwrap(), "<a href=\"/k/\">");
        assert_eq!((base_of(page), base_of("<html></html>")), (Some("/b"), None));
        // Without a limit, a driver would decide how much memory each open window takes.
        assert_eq!(base_of(&format!("setUIRoot('{}')", "b".repeat(LONGEST_BASE + 1))), None);
        assert_eq!(rewritten(&"\"/".repeat(LARGEST / 2), "", "/spark/a-long-key"), None);
    }

    #[test]
    fn redirects_of_a_driver_stay_in_its_window() {
        let inside = |to: &str| {
            let to = super::inside("/spark/key", "/b", to)?;
            Some(to.to_str().unwrap().strip_prefix("/spark/key").unwrap().to_owned())
        };
        for to in [
            "/b/jobs/?id=1", "/spark/key/jobs/?id=1", "http://10.0.0.1:4040/jobs/?id=1",
            "https://evil/b/jobs/?id=1",
        ] {
            assert_eq!(inside(to).as_deref(), Some("/jobs/?id=1"), "{to}");
        }
        assert_eq!(inside("//evil/x..y").as_deref(), Some("//evil/x..y"));
        assert_eq!(inside("/bx").as_deref(), Some("/bx"), "`/b` is not a whole segment here");
        for to in ["/../../applications", "/b/./%2E%2e/x", "/b/.", "jobs/ x", ""] {
            assert_eq!(inside(to), None, "{to}");
        }
    }

    #[test]
    fn paths_that_kill_are_recognised_in_all_spellings() {
        for path in
            ["jobs/job/kill/", "stages/stage/kill", "jobs/job/kill;a=b/", "x//kill/y", "jobs/job/%u006bill/"]
        {
            assert!(is_kill(path), "{path}");
        }
        for path in ["jobs/", "static/killer.js", "jobs/job/", "kills"] {
            assert!(!is_kill(path), "{path}");
        }
    }
}
