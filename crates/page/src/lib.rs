//! The web page: applications that run, that ran and why they failed, and Spark's own UI, at one URL.
//!
//! The page has no rights of its own. All its requests have the caller's credentials, so RBAC alone decides what it
//! shows and does. It is served in two ways: by `sparkctl page` for the local user, and by `spark-operator page` for
//! everybody who has a token of the cluster.
//!
//! ```text
//!  browser ──► entry: who is it? ──► callers: a client and lists for each caller ──► API server
//!     ▲                                     │
//!     └── layout ◄── overview, applications, application, logs, schedules, …
//!
//!  a frame ──► windows: which driver, for which caller? ──► port-forward ──► Spark's UI
//! ```
//!
//! Pages are complete without JavaScript. With it, a visible page is refreshed every few seconds.

mod actions;
mod application;
mod applications;
mod callers;
mod connects;
mod counted;
mod edits;
mod entry;
mod layout;
mod lists;
mod logs;
mod overview;
mod pods_and_events;
mod query;
mod reads;
mod refusal;
mod rows;
mod schedule_text;
mod schedules;
mod scope;
mod secrets;
mod shares;
mod spark_ui;
mod timeline;
mod windows;

use api::{ScheduledSparkApplication, SparkApplication, SparkConnect};
use axum::{
    Router,
    extract::{DefaultBodyLimit, Path},
    middleware::map_response,
    routing::{any, get, post},
};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use std::sync::Arc;

// The items that modules use of each other: each module imports them from here.
use actions::{Action, buttons};
use application::{conditions, spec};
use callers::{Caller, Callers, bearer, with_header};
use entry::{Session, is_part};
use layout::{POLICY, UNREADABLE, ago, duration, hidden, page, state, table, trouble, wide, word};
use lists::List;
use logs::log_of;
use overview::link;
use pods_and_events::pods_and_events;
use query::{Query, address};
use reads::{LARGEST, Reader};
use refusal::Refusal;
use rows::{Application, Connect, Key, Row, Schedule, reduced};
use schedule_text::in_words;
use secrets::{CallerId, Secrets};
use shares::{Share, Shares};
use timeline::{Bar, outcomes};
use windows::{Driver, Window, Windows};

/// The result of a function, or the reason why the caller does not get it.
type Result<T, E = Refusal> = std::result::Result<T, E>;
/// The namespace and the name in the path of a request.
type Named = Path<(String, String)>;

/// The credentials of the page's requests to the API server.
#[derive(Clone)]
pub enum Credentials {
    /// The credentials of this client, for the local user, who logs in by [`Page::entrance`].
    Own(Client),
    /// The token of each caller. The client knows the URL of the API server, and has no credentials.
    Tokens(Client),
}

/// The settings of a page, by the admin or the local user.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Whether there are buttons that suspend, resume, run again, trigger and delete.
    pub allows_actions: bool,
    /// The URL of Spark's history server, for links from applications that have ended.
    pub history_server: Option<String>,
    /// The URL of a dashboard with the metrics of an application, in which `{namespace}` and `{name}` are replaced by
    /// those of the application.
    pub dashboard: Option<String>,
    /// Renders the objects of the next run of an application.
    pub render: Option<Render>,
}

/// Returns the objects of the next run of this application as text, or why they cannot be predicted.
pub type Render = fn(&Value) -> Result<String, String>;

/// A page with its callers and their state.
pub struct Page {
    credentials: Credentials,
    callers: Callers,
    secrets: Secrets,
    windows: Windows,
    settings: Settings,
    /// The name of the cookie with the caller's token.
    cookie: String,
}

impl Page {
    /// Returns a page without callers.
    pub fn new(credentials: Credentials, settings: Settings) -> Self {
        let secrets = Secrets::new();
        let cookie = match credentials {
            // Browsers share cookies between the ports of a host, and several pages may run on this machine.
            Credentials::Own(_) => format!("page-{}", secrets.unguessable()),
            // With the prefix `__Host-`, a browser accepts the cookie only over TLS and only from this host.
            Credentials::Tokens(_) => "__Host-page".to_owned(),
        };
        let (callers, windows) = (Callers::default(), Windows::default());
        Self { credentials, callers, secrets, windows, settings, cookie }
    }

    /// Returns the routes of the page.
    pub fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/", get(overview::show))
            .route("/applications", get(applications::show))
            .route(
                "/applications/{namespace}/{name}",
                get(application::show).post(actions::act::<SparkApplication>),
            )
            .route(
                "/applications/{namespace}/{name}/edit",
                get(edits::show).post(edits::show).layer(DefaultBodyLimit::max(query::LONGEST_SPEC)),
            )
            .route("/logs/{namespace}/{pod}", get(logs::show))
            .route("/logs/{namespace}/{pod}/tail", get(logs::tail))
            .route("/schedules", get(schedules::list))
            .route(
                "/schedules/{namespace}/{name}",
                get(schedules::show).post(actions::act::<ScheduledSparkApplication>),
            )
            .route("/connects", get(connects::list))
            .route("/connects/{namespace}/{name}", get(connects::show).post(actions::act::<SparkConnect>))
            .route("/connects/{namespace}/{name}/ui/", get(spark_ui::show_server))
            .route("/ui/{namespace}/{name}/", get(spark_ui::show))
            .route("/spark/{key}/", any(spark_ui::window))
            .route("/spark/{key}/{*path}", any(spark_ui::window))
            .route("/enter/{key}", get(entry::enter))
            .route("/login", get(entry::login).post(entry::log_in))
            .route("/logout", post(entry::log_out))
            .route("/assets/{name}", get(layout::asset))
            .route("/healthz", get(async || "ok\n"))
            .fallback(async || Refusal::not_found("There is no such page."))
            .layer(DefaultBodyLimit::max(query::LONGEST))
            .layer(map_response(layout::guarded))
            .with_state(self)
    }
}

#[expect(clippy::disallowed_methods, reason = "ages are relative to the time of the request")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{
        body::{Body, Bytes, to_bytes},
        http::{
            Method, Request, Response, StatusCode,
            header::{AUTHORIZATION, AsHeaderName, CONTENT_SECURITY_POLICY, LOCATION, SET_COOKIE},
        },
    };
    use futures::stream::pending;
    use parking_lot::Mutex;
    use serde_json::json;
    use std::convert::Infallible;
    use tower::ServiceExt;

    const HOSTILE: &str = "<script>alert(1)</script>";
    const APPLICATION: &str = "/applications/team-a/pi";

    /// The requests that an API server received: method, path and token.
    type Requests = Arc<Mutex<Vec<String>>>;

    /// Returns a client of an API server that answers each request with the code and the body that `answer` returns.
    pub(crate) fn client<B: Into<Body>>(
        answer: impl Fn(&Request<kube::client::Body>) -> (u16, B) + Send + 'static,
    ) -> Client {
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (code, body) = answer(&request);
            let answer = Response::builder().status(code).body(body.into()).unwrap();
            async move { Ok::<_, Infallible>(answer) }
        });
        Client::new(service, "default")
    }

    /// Returns a client of an API server and the requests that it receives. The token `one` may do everything, `other`
    /// may only list applications in team-b, `crowd` may do nothing, and other tokens are not accepted. A read of the
    /// application `slow` is never answered.
    fn cluster() -> (Client, Requests) {
        let requests = Requests::default();
        let seen = Arc::clone(&requests);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let token = request.headers().get(AUTHORIZATION).map(|token| token.to_str().unwrap().to_owned());
            let token = token.unwrap_or_default().replace("Bearer ", "");
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            seen.lock().push(format!("{} {path} {token}", request.method()));
            let answer = if query.contains("watch=true") {
                Response::new(Body::from_stream(pending::<Result<Bytes, Infallible>>()))
            } else {
                let (code, body) = answer(&token, path);
                Response::builder().status(code).body(Body::from(body.to_string())).unwrap()
            };
            let is_slow = path.ends_with("/slow");
            async move {
                if is_slow {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(answer)
            }
        });
        (Client::new(service, "default"), requests)
    }

    fn answer(token: &str, path: &str) -> (u16, Value) {
        let metadata = json!({"name": "pi", "namespace": "team-a", "uid": "u", "resourceVersion": "7"});
        let spec = json!({"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}});
        let status =
            json!({"applicationState": {"state": "FAILED", "errorMessage": HOSTILE}, "driverInfo": {}});
        let application = json!({"metadata": metadata, "spec": spec, "status": status});
        let list = |items: Value| (200, json!({"metadata": {"resourceVersion": "7"}, "items": items}));
        let refused =
            |code: u16| (code, json!({"status": "Failure", "code": code, "message": "no", "reason": "No"}));
        match (token, path.rsplit('/').next().unwrap()) {
            ("one" | "other" | "crowd", "selfsubjectreviews") => {
                (201, json!({"metadata": {}, "status": {"userInfo": {"username": token}}}))
            }
            ("one", "selfsubjectaccessreviews") => {
                (201, json!({"metadata": {}, "spec": {}, "status": {"allowed": true}}))
            }
            ("other", "sparkapplications") if path.contains("/team-b/") => list(json!([])),
            ("one", "sparkapplications") => list(json!([application])),
            ("one", "pi") => (200, application),
            ("one", "pods" | "events") => list(json!([])),
            ("one" | "other" | "crowd", _) => refused(403),
            _ => refused(401),
        }
    }

    /// Sends a request with a header. Returns the answer and its body.
    async fn ask(
        page: &Arc<Page>,
        method: Method,
        path: &str,
        header: (&str, &str),
        body: &str,
    ) -> (Response<()>, String) {
        let request = Request::builder().method(method).uri(path).header(header.0, header.1);
        let answer = Arc::clone(page)
            .router()
            .oneshot(request.body(Body::from(body.to_owned())).unwrap())
            .await
            .unwrap();
        let (head, body) = answer.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        (Response::from_parts(head, ()), String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(page: &Arc<Page>, path: &str, header: (&str, &str)) -> (Response<()>, String) {
        ask(page, Method::GET, path, header, "").await
    }

    /// Returns a page that allows actions.
    fn acting(credentials: Credentials) -> Arc<Page> {
        Arc::new(Page::new(credentials, Settings { allows_actions: true, ..Settings::default() }))
    }

    fn header(answer: &Response<()>, name: impl AsHeaderName) -> &str {
        answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[tokio::test]
    async fn every_route_sets_a_content_security_policy_and_requires_a_token() {
        let page = acting(Credentials::Tokens(cluster().0));
        for path in [
            "/", "/applications", APPLICATION, "/schedules", "/schedules/a/b", "/connects", "/connects/a/b",
            "/connects/a/b/ui/", "/applications/a/b/edit", "/logs/a/b", "/logs/a/b/tail", "/ui/a/b/",
        ] {
            let (answer, _) = get(&page, path, ("x", "y")).await;
            assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{path}");
            assert!(header(&answer, LOCATION).starts_with("/login?to="), "{path}");
            assert!(
                header(&answer, CONTENT_SECURITY_POLICY).starts_with("default-src 'none'; script-src 'self'"),
                "{path}"
            );
        }
        for (path, policy) in [
            ("/assets/page.css", "default-src 'none'"),
            ("/none", "default-src 'none'"),
            ("/spark/key/jobs/", "sandbox "),
        ] {
            let (answer, _) = get(&page, path, ("x", "y")).await;
            assert!(header(&answer, CONTENT_SECURITY_POLICY).starts_with(policy), "{path}");
            // With another policy, a link of Spark's UI could not be opened in a new window.
            let opener = if policy == "sandbox " { "unsafe-none" } else { "same-origin" };
            assert_eq!(header(&answer, "cross-origin-opener-policy"), opener, "{path}");
        }
        // An element that a tenant has injected into a page cannot load a script from a driver.
        for (site, status) in [("same-origin", StatusCode::FORBIDDEN), ("cross-site", StatusCode::GONE)] {
            let header = ("sec-fetch-site", site);
            let (answer, _) = get(&page, "/spark/key/x.js", header).await;
            assert_eq!(answer.status(), status, "{site}");
        }
        let elsewhere = "http://evil.example/schedules?q=a";
        let (answer, _) = get(&page, elsewhere, ("host", "evil.example")).await;
        assert_eq!(header(&answer, LOCATION), "/login?to=%2Fschedules%3Fq%3Da");
        let (_, body) = get(&page, "/", ("sec-fetch-site", "cross-site")).await;
        assert!(body.contains("A page of another site has sent this"), "{body}");
    }

    #[tokio::test]
    async fn each_token_sees_what_the_api_server_allows_it() {
        let (client, requests) = cluster();
        let page = acting(Credentials::Tokens(client));
        let (_, one) = get(&page, "/applications", ("authorization", "Bearer one")).await;
        assert!(one.contains(r#"<a href="/applications/team-a/pi">pi</a>"#), "{one}");
        let (_, other) = get(&page, "/applications", ("authorization", "Bearer other")).await;
        assert!(other.contains("You may not list") && !other.contains("team-a"), "{other}");
        let allowed = "/applications?namespace=team-b";
        let (_, other) = get(&page, allowed, ("authorization", "Bearer other")).await;
        assert!(other.contains("0 applications"), "{other}");
        let (wrong, body) = get(&page, "/applications", ("authorization", "Bearer wrong")).await;
        assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
        assert!(body.contains("does not accept this token") && !body.contains("wrong"), "{body}");
        assert!(requests.lock().iter().all(|request| !request.ends_with(' ')), "a request had no token");
    }

    /// Without a limit, some hundred concurrent requests, each for a megabyte of a log, would exceed the memory limit.
    #[tokio::test]
    async fn a_party_with_too_many_requests_gets_429_and_others_are_answered() {
        let page = Arc::new(Page::new(Credentials::Tokens(cluster().0), Settings::default()));
        let slow = || {
            let page = Arc::clone(&page);
            async move {
                let crowd = ("authorization", "Bearer crowd");
                get(&page, "/applications/team-a/slow", crowd).await.0.status()
            }
        };
        let crowd: Vec<_> = (0..40).map(|_| tokio::spawn(slow())).collect();
        // 32 requests are answered concurrently, and one party may have half of them.
        while crowd.iter().filter(|task| task.is_finished()).count() < 24 {
            tokio::task::yield_now().await;
        }
        let (answer, _) = get(&page, "/applications", ("authorization", "Bearer one")).await;
        assert_eq!(answer.status(), StatusCode::OK);
        for task in crowd {
            task.abort();
            if let Ok(status) = task.await {
                assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
            }
        }
        let (answer, _) = get(&page, APPLICATION, ("authorization", "Bearer crowd")).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    }

    #[tokio::test]
    async fn an_encoded_path_reaches_no_other_object() {
        let (client, requests) = cluster();
        let page = Arc::new(Page::new(Credentials::Tokens(client), Settings::default()));
        for path in [
            "/applications/team-a%2Fpods/pi", "/applications/team-a/..%2Fsecrets",
            "/applications/team-a/pi%3Fwatch=true", "/applications/%2E%2E/pi/edit", "/schedules/team-a/x%00",
            "/connects/team-a/..%5C/ui/", "/ui/team-a/pi%2F..%2Fother/", "/logs/team-a/%2e%2e",
            "/logs/team-a/pi%23/tail",
        ] {
            let (answer, _) = get(&page, path, ("authorization", "Bearer one")).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
        }
        let asked = requests.lock();
        assert!(asked.iter().all(|request| request.contains("/selfsubjectreviews ")), "{asked:?}");
    }

    #[tokio::test]
    async fn a_form_without_the_callers_signature_changes_nothing() {
        let (client, requests) = cluster();
        let page = acting(Credentials::Tokens(client));
        let one = ("authorization", "Bearer one");
        let (_, shown) = get(&page, APPLICATION, one).await;
        assert!(
            shown.contains("pi is <span")
                && shown.contains("&lt;script&gt;alert(1)")
                && !shown.contains(HOSTILE),
            "{shown}"
        );
        let form = shown.split_once(r#"name="form" value=""#).unwrap().1.split('"').next().unwrap();
        let others = page.secrets.form(&page.secrets.caller("other"));
        for wrong in
            [String::new(), "form=&action=suspend".to_owned(), format!("form={others}&action=suspend")]
        {
            let (answer, body) = ask(&page, Method::POST, APPLICATION, one, &wrong).await;
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{wrong}");
            assert!(body.contains("reload the page"), "{body}");
        }
        let edit = format!("{APPLICATION}/edit");
        let (answer, _) = ask(&page, Method::POST, &edit, one, "spec=type: Scala").await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let (_, told) = ask(&page, Method::POST, &edit, one, &format!("form={form}&spec=type:+Python")).await;
        assert!(told.contains("<td>Scala</td><td>Python</td>"), "{told}");
        let changes = || requests.lock().iter().filter(|request| request.starts_with("PATCH")).count();
        assert_eq!(changes(), 0);
        let (answer, _) =
            ask(&page, Method::POST, APPLICATION, one, &format!("form={form}&action=suspend")).await;
        assert_eq!(
            (answer.status(), header(&answer, LOCATION), changes()),
            (StatusCode::SEE_OTHER, APPLICATION, 1)
        );
    }

    #[tokio::test]
    async fn a_page_without_actions_has_no_buttons_and_refuses_forms() {
        let page = Arc::new(Page::new(Credentials::Tokens(cluster().0), Settings::default()));
        let one = ("authorization", "Bearer one");
        let (_, shown) = get(&page, APPLICATION, one).await;
        assert!(!shown.contains("<button"), "{shown}");
        let form = page.secrets.form(&page.secrets.caller("one"));
        let (answer, body) =
            ask(&page, Method::POST, APPLICATION, one, &format!("form={form}&action=delete")).await;
        assert!(answer.status() == StatusCode::FORBIDDEN && body.contains("--allow-actions"), "{body}");
    }

    #[tokio::test]
    async fn a_login_sets_a_cookie_that_only_the_page_can_read_and_create() {
        let page = acting(Credentials::Tokens(cluster().0));
        let (wrong, body) = ask(&page, Method::POST, "/login", ("x", "y"), "token=wrong").await;
        assert!(
            header(&wrong, SET_COOKIE).is_empty() && body.contains("does not accept this token"),
            "{body}"
        );
        let (answer, _) = ask(&page, Method::POST, "/login", ("x", "y"), "token=one&to=/schedules").await;
        assert_eq!(header(&answer, LOCATION), "/schedules");
        let (cookie, attributes) = header(&answer, SET_COOKIE).split_once(';').unwrap();
        assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure");
        assert!(cookie.starts_with("__Host-page="), "{cookie}");
        let (answer, body) = get(&page, "/applications", ("cookie", cookie)).await;
        assert!(answer.status() == StatusCode::OK && body.contains("Log out"), "{body}");
        let changed = format!("{cookie}A");
        let (answer, _) = get(&page, "/applications", ("cookie", &changed)).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    }

    #[tokio::test]
    async fn the_local_user_logs_in_by_an_unguessable_url() {
        // The client has the user's credentials.
        let (client, _) = cluster();
        let client = callers::with_header(&client, callers::bearer("one").unwrap());
        let page = acting(Credentials::Own(client));
        let (answer, _) = get(&page, "/", ("authorization", "Bearer one")).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        // With another host name that resolves to this machine (DNS rebinding), the browser sends no cookie.
        let (answer, _) = get(&page, "/", ("host", "evil.example")).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        let (answer, _) = get(&page, "/enter/guess", ("x", "y")).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        let (answer, _) = get(&page, &page.entrance(), ("x", "y")).await;
        let cookie = header(&answer, SET_COOKIE).split(';').next().unwrap().to_owned();
        let (answer, _) = get(&page, "/applications", ("cookie", &cookie)).await;
        assert_eq!(answer.status(), StatusCode::OK);
    }
}
