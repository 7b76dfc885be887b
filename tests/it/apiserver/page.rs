//! Proves that the page shows to each caller, and does for each caller, what the API server allows to the caller's token.

use super::{
    calls::{kubeconfig, token},
    fleet,
};
use crate::apiserver::prelude::*;
use axum::http::{
    Request,
    header::{AUTHORIZATION, COOKIE, HeaderName, LOCATION},
};
use futures::future::join;
use kube::{Config, client::Body};

/// The process `spark-operator page`, which is killed when this value is dropped.
pub(crate) struct Page {
    process: EndedOnDrop,
    client: Client,
}

impl Page {
    /// Starts the process and waits until it answers.
    pub(crate) async fn start(namespace: &Namespace) -> Self {
        Self::of(namespace, &kubeconfig()["clusters"][0]["cluster"]).await
    }

    /// Starts the process for a cluster, as a kubeconfig has it, and waits until it answers.
    async fn of(namespace: &Namespace, cluster: &Value) -> Self {
        let ByteString(authority) =
            serde_json::from_value(cluster["certificate-authority-data"].clone()).unwrap();
        let file = namespace.folder.join("ca.crt");
        fs::write(&file, authority).unwrap();
        let port = free_port();
        let program = env::var("OPERATOR").unwrap_or(env!("CARGO_BIN_EXE_spark-operator").to_owned());
        let process = Command::new(program)
            .arg("page")
            .arg(format!("--bind-address=127.0.0.1:{port}"))
            .arg(format!("--api-server={}", cluster["server"].as_str().unwrap()))
            .arg(format!("--certificate-authority={}", file.display()))
            .arg("--allow-actions")
            .stderr(Stdio::from(fs::File::create(namespace.folder.join("page.log")).unwrap()))
            .spawn()
            .unwrap();
        let config = Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
        let page = Self { process: EndedOnDrop(process), client: Client::try_from(config).unwrap() };
        eventually("the page answers", async || {
            page.client
                .request_text(Request::get("/healthz").body(Vec::new()).unwrap())
                .await
                .map_err(|error| error.to_string())
        })
        .await;
        page
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Sends a request with the token. Returns the status, the URL of a redirect (or an empty text), and the body.
    pub(crate) async fn ask(
        &self,
        token: &str,
        method: Method,
        path: &str,
        form: &str,
    ) -> (StatusCode, String, String) {
        let value = format!("Bearer {token}");
        asked(&self.client, (AUTHORIZATION, value.as_str()), method, path, form).await
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> String {
        self.ask(token, Method::GET, path, "").await.2
    }
}

/// Sends a request with a header. Returns the status, the URL of a redirect (or an empty text), and the body.
async fn asked(
    client: &Client,
    (name, value): (HeaderName, &str),
    method: Method,
    path: &str,
    form: &str,
) -> (StatusCode, String, String) {
    let request = Request::builder().method(method).uri(path).header(name, value);
    let answer = client.send(request.body(Body::from(form.as_bytes().to_vec())).unwrap()).await.unwrap();
    let to = answer.headers().get(LOCATION).map_or("", |to| to.to_str().unwrap()).to_owned();
    let status = answer.status();
    let text = answer.into_body().collect_bytes().await.unwrap().to_vec();
    (status, to, String::from_utf8(text).unwrap())
}

/// Returns the form data that requests this action for the object whose page is `shown`.
fn form(shown: &str, action: &str) -> String {
    let form = shown.split_once(r#"name="form" value=""#).expect(shown).1.split('"').next().unwrap();
    format!("form={form}&action={action}")
}

/// Returns the form data that suspends the application whose page is `shown`.
fn suspend(shown: &str) -> String {
    form(shown, "suspend")
}

/// Creates a service account of the namespace `home`, which has these verbs on applications in `namespace`.
pub(crate) fn account(name: &str, home: &str, namespace: &str, verbs: &[&str]) {
    let of_applications = &["sparkapplications"][..];
    account_with(name, home, namespace, &[("sparkoperator.k8s.io", of_applications, verbs)]);
}

/// Creates a service account of `home` with these rights in `namespace`: API group, resources and verbs.
fn account_with(name: &str, home: &str, namespace: &str, rights: &[(&str, &[&str], &[&str])]) {
    calls::apply(
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
        Some(home),
    );
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": home});
    calls::grant(name, Some(namespace), &subject, rights);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn concurrent_callers_see_and_do_only_what_each_of_them_may() {
    let namespace = Namespace::new("page").await;
    namespace.create::<SparkApplication>(&application("pi")).await;
    account("editor", "page", "page", &["get", "list", "watch", "patch"]);
    account("viewer", "page", "page", &["get", "list", "watch"]);
    account("nobody", "page", "page", &["create"]);
    let [editor, viewer, nobody] = ["editor", "viewer", "nobody"].map(|name| token(name, "page"));
    let page = Page::start(&namespace).await;

    let (list, pi) = ("/applications?namespace=page", "/applications/page/pi");
    let (of_viewer, of_nobody) = join(page.get(&viewer, list), page.get(&nobody, list)).await;
    assert!(of_viewer.contains(r#"<a href="/applications/page/pi">pi</a>"#), "{of_viewer}");
    assert!(of_nobody.contains("is forbidden") && !of_nobody.contains(">pi<"), "{of_nobody}");
    assert!(page.get(&viewer, "/applications").await.contains("You may not list namespaces either"));
    let (status, _, text) = page.ask("nonsense", Method::GET, list, "").await;
    assert!(status == StatusCode::UNAUTHORIZED && text.contains("does not accept this token"), "{text}");

    // An authenticating proxy adds the token and its own cookie to requests, but neither of them to those of frames.
    let request =
        Request::get(pi).header(AUTHORIZATION, format!("Bearer {viewer}")).header(COOKIE, "door=open");
    let text = page.client.request_text(request.body(Vec::new()).unwrap()).await.unwrap();
    assert!(text.contains("system:serviceaccount:page:viewer") && !text.contains("Log out"), "{text}");
    assert!(!text.contains(&viewer), "{text}");
    let frame = "/spark/guess/jobs/";
    let (status, _, text) = asked(&page.client, (COOKIE, "x=y"), Method::GET, frame, "").await;
    assert!(status == StatusCode::GONE && text.contains("is closed"), "{text}");

    let (of_viewer, of_editor) = join(page.get(&viewer, pi), page.get(&editor, pi)).await;
    let lacks = "You lack the right to patch sparkapplications in the namespace page.";
    assert!(of_viewer.contains(lacks) && of_viewer.contains("You lack the right to delete"), "{of_viewer}");
    assert!(!of_editor.contains(lacks) && of_editor.contains("You lack the right to delete"), "{of_editor}");
    let is_suspended = async || namespace.application("pi").await["spec"]["suspend"] == true;
    // The viewer may send neither the form of its own page, whose button is disabled, nor that of the editor's page.
    for form in [suspend(&of_viewer), suspend(&of_editor)] {
        let (status, _, _) = page.ask(&viewer, Method::POST, pi, &form).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
    }
    assert!(!is_suspended().await);
    let (status, to, text) = page.ask(&editor, Method::POST, pi, &suspend(&of_editor)).await;
    assert_eq!((status, &*to), (StatusCode::SEE_OTHER, pi), "{text}");
    assert!(is_suspended().await);

    // The page watches the list, so that changes appear in it.
    namespace.create::<SparkApplication>(&application("tau")).await;
    eventually("the list has the new application", async || {
        let shown = page.get(&viewer, list).await;
        seen(shown.contains(">tau<") && shown.contains("2 applications"), shown)
    })
    .await;
    namespace.delete::<SparkApplication>("pi").await;
    eventually("the list lacks the deleted application", async || {
        let shown = page.get(&viewer, list).await;
        seen(!shown.contains(">pi<") && shown.contains("1 applications"), shown)
    })
    .await;
    let log = fs::read_to_string(namespace.folder.join("page.log")).unwrap();
    assert!(!log.contains(&viewer) && !log.contains(&editor), "{log}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn bad_input_is_reported_and_the_page_recovers_from_an_outage() {
    // The page asks for the caller's rights only in the first 200 namespaces, in alphabetical order.
    let namespace = Namespace::new("bad-input").await;
    namespace.create::<SparkApplication>(&application("pi")).await;
    account("guide", "bad-input", "bad-input", &["get", "list", "watch"]);
    let subject = json!({"kind": "ServiceAccount", "name": "guide", "namespace": "bad-input"});
    calls::grant("guide", None, &subject, &[("", &["namespaces"], &["list"])]);
    let guide = token("guide", "bad-input");
    let proxy = Proxy::start().await;
    let page = Page::of(&namespace, &proxy.cluster()).await;
    let (list, pi) = ("/applications?namespace=bad-input", "/applications/bad-input/pi");

    // The page says that the caller may not list a namespace, and offers the namespaces that the caller may list.
    for (path, is_told) in [("/applications", false), ("/applications?namespace=kube-system", true)] {
        let shown = page.get(&guide, path).await;
        assert!(shown.contains(&format!(r#"<a href="{list}">bad-input</a>"#)), "{shown}");
        assert!(!shown.contains(r#"?namespace=kube-system""#), "{shown}");
        assert_eq!(shown.contains("You lack a right"), is_told, "{shown}");
    }
    for (path, words) in [
        ("/applications/bad-input/none", "It does not exist"),
        ("/schedules/bad-input/none", "You lack a right"),
        ("/logs/bad-input/none", "You lack a right"),
        ("/ui/bad-input/none/", "It does not exist"),
        ("/ui/bad-input/pi/", "pi has no driver"),
        ("/applications/bad-input/pi%2F..%2Ftau", "that cannot be a name"),
        ("/nowhere", "There is no such page"),
    ] {
        let shown = page.get(&guide, path).await;
        assert!(shown.contains(words), "{path}: {shown}");
    }
    for (token, words) in
        [("wrong", "does not accept this token"), ("a%0Ab", "That is no token"), ("", "That is no token")]
    {
        let form = format!("token={token}&to={list}");
        let (status, _, shown) = asked(&page.client, (COOKIE, "x=y"), Method::POST, "/login", &form).await;
        assert!(status == StatusCode::OK && shown.contains(words), "{token}: {shown}");
    }

    assert!(page.get(&guide, list).await.contains(">pi</a>"));
    proxy.line_is(Line::Refused);
    let is_told = |shown: &str| shown.contains("The API server cannot be reached");
    let (status, _, shown) = page.ask(&guide, Method::GET, pi, "").await;
    assert!(status == StatusCode::BAD_GATEWAY && is_told(&shown), "{status} {shown}");
    eventually("the last known list is shown, and that the API server cannot be reached", async || {
        let shown = page.get(&guide, list).await;
        seen(shown.contains(">pi</a>") && is_told(&shown), shown)
    })
    .await;
    proxy.line_is(Line::Up);
    eventually("the page works again", async || {
        let (of_list, of_pi) = (page.get(&guide, list).await, page.get(&guide, pi).await);
        let is_back = of_list.contains(">pi</a>") && of_pi.contains("pi is <span");
        seen(is_back && !is_told(&of_list), of_list)
    })
    .await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn each_action_works_and_schedules_and_connect_servers_have_pages() {
    let namespace = Namespace::new("actions").await;
    let mut pi = application("pi");
    pi["metadata"]["labels"] = json!({label::SCHEDULED_APP_NAME: "nightly"});
    namespace.create::<SparkApplication>(&pi).await;
    let mut nightly = scheduled("nightly", "30 2 * * 1-5", &pi);
    nightly["spec"]["timeZone"] = json!("Europe/Berlin");
    namespace.apply(&nightly);
    namespace.apply(&connect("notebook"));
    account_with("ada", "actions", "actions", &[("sparkoperator.k8s.io", &["*"], &["*"])]);
    let ada = token("ada", "actions");
    let page = Page::start(&namespace).await;

    let [pi, nightly, notebook] =
        ["applications/actions/pi", "schedules/actions/nightly", "connects/actions/notebook"]
            .map(|path| format!("/{path}"));
    let lists =
        [("/schedules?namespace=actions", ">nightly</a>"), ("/connects?namespace=actions", ">notebook</a>")];
    let due = "Due at 02:30 on Monday to Friday: <code>30 2 * * 1-5</code>, Europe/Berlin";
    for (path, words) in [
        (&*nightly, due),
        (&*nightly, "The last 1 applications, of which 0 have failed"),
        (&*nightly, "?namespace=actions&amp;owner=nightly"),
        (&*notebook, "notebook is <span"),
    ]
    .into_iter()
    .chain(lists)
    {
        let shown = page.get(&ada, path).await;
        assert!(shown.contains(words), "{path}: {shown}");
    }

    let act = async |path: &str, action: &str| {
        let shown = page.get(&ada, path).await;
        let (status, to, text) = page.ask(&ada, Method::POST, path, &form(&shown, action)).await;
        assert_eq!(status, StatusCode::SEE_OTHER, "{action}: {text}");
        to
    };
    for (action, is_suspended) in [("suspend", true), ("resume", false)] {
        for path in [&pi, &nightly, &notebook] {
            assert_eq!(act(path, action).await, *path);
        }
        let objects = [
            namespace.application("pi").await,
            namespace.there::<ScheduledSparkApplication>("nightly").await,
            namespace.there::<SparkConnect>("notebook").await,
        ];
        for object in &objects {
            assert_eq!(object["spec"]["suspend"], is_suspended, "{object:#}");
        }
        let shown = page.get(&ada, &nightly).await;
        assert_eq!(shown.contains("suspended, so no application is created"), is_suspended, "{shown}");
    }
    act(&pi, "rerun").await;
    act(&nightly, "trigger").await;
    let asked = namespace.application("pi").await;
    assert!(asked["metadata"]["annotations"][annotation::RERUN].is_string(), "{asked:#}");
    let asked = namespace.there::<ScheduledSparkApplication>("nightly").await;
    assert!(asked["metadata"]["annotations"][annotation::TRIGGER].is_string(), "{asked:#}");
    for (path, list) in [(&pi, "/applications"), (&nightly, "/schedules"), (&notebook, "/connects")] {
        // In an earlier version, the form of a page that was shown earlier deleted a new object with the same name.
        let shown = page.get(&ada, path).await;
        assert!(shown.contains(r#"<input type="hidden" name="uid" value=""#), "{shown}");
        let of_another = form(&shown, "delete&uid=another");
        let (status, _, text) = page.ask(&ada, Method::POST, path, &of_another).await;
        assert!(status == StatusCode::BAD_REQUEST && text.contains("recondition"), "{text}");
        assert_eq!(act(path, "delete").await, list);
    }
    namespace.is_gone::<SparkApplication>("pi").await;
    namespace.is_gone::<ScheduledSparkApplication>("nightly").await;
    namespace.is_gone::<SparkConnect>("notebook").await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_overview_lists_waiting_applications_and_uis_report_missing_drivers() {
    let namespace = Namespace::new("overview").await;
    // Applications in each stable state: see `fleet::make`.
    fleet::make(&namespace, 41).await;
    // The scope matches no pod: for a short time, the API server would otherwise refuse the pods of the next run of
    // this test.
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cores"},
        "spec": {"hard": {"requests.cpu": "10"}, "scopes": ["Terminating"]},
    });
    namespace.create::<ResourceQuota>(&quota).await;
    let used = json!({"hard": {"requests.cpu": "10"}, "used": {"requests.cpu": "3"}});
    namespace.patch_status::<ResourceQuota>("cores", &used).await;
    let reads = &["get", "list", "watch"][..];
    let rights = [
        ("sparkoperator.k8s.io", &["sparkapplications"][..], reads),
        ("", &["pods", "events", "resourcequotas"][..], reads),
    ];
    account_with("eve", "overview", "overview", &rights);
    let eve = token("eve", "overview");
    let page = Page::start(&namespace).await;

    let shown = page.get(&eve, "/?namespace=overview").await;
    for words in [
        "<caption>Waiting longest</caption>",
        r#"<a href="/applications/overview/app-30">app-30</a>"#,
        "<strong>1</strong> <span class=\"state busy\">RUNNING</span>",
        "<td>requests.cpu 3 of 10</td>",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    for (name, words) in [
        ("app-30", "The driver of app-30 starts: its pod is Pending. Its UI appears here."),
        ("app-0", "app-0 has no driver: it is COMPLETED"),
    ] {
        let shown = page.get(&eve, &format!("/ui/overview/{name}/")).await;
        assert!(shown.contains(words), "{shown}");
    }
    // In an earlier version, the UI of a driver that had ended was announced while the image of its sidecar was pulled.
    let ended = json!({"containerStatuses": [{
        "name": "spark-kubernetes-driver", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0}},
    }]});
    namespace.patch_status::<Pod>("app-30-driver", &ended).await;
    let shown = page.get(&eve, "/ui/overview/app-30/").await;
    assert!(shown.contains("app-30 has no driver: it is SUBMITTED"), "{shown}");
    let shown = page.get(&eve, "/applications/overview/app-20").await;
    assert!(shown.contains("app-20-driver") && shown.contains("Driver and executors"), "{shown}");
    // The right to see a driver's UI does not include the right to kill its jobs.
    let shown = page.get(&eve, "/ui/overview/app-20/").await;
    let (_, frame) = shown.split_once(r#"src="/spark/"#).expect(&shown);
    let (key, _) = frame.split_once("/jobs/").expect(frame);
    for method in [Method::GET, Method::POST] {
        let kill = format!("/spark/{key}/jobs/job/kill/?id=0");
        let (status, _, text) = page.ask(&eve, method, &kill, "").await;
        assert!(status == StatusCode::FORBIDDEN && text.contains("You lack the right to patch"), "{text}");
    }
    let (status, _, text) = page.ask(&eve, Method::GET, &format!("/spark/{key}/jobs/"), "").await;
    let names_right = text.contains("cannot get resource \"pods/portforward\"");
    assert!(
        status == StatusCode::FORBIDDEN && text.starts_with("You lack a right: ") && names_right,
        "{text}"
    );
    namespace.delete::<Pod>("app-20-driver").await;
    let shown = page.get(&eve, "/ui/overview/app-20/").await;
    assert!(shown.contains("app-20 has no driver: it is RUNNING"), "{shown}");
}
