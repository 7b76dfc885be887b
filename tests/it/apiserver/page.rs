//! Proves that the page shows to each caller, and does for each caller, what the API server allows to the caller's token.

use super::{
    applications::application,
    calls::{self, kubeconfig, token},
    eventually,
    namespace::Namespace,
    seen,
};
use crate::program::free_port;
use api::SparkApplication;
use axum::http::{
    Method, Request, StatusCode,
    header::{AUTHORIZATION, LOCATION},
};
use futures::future::join;
use k8s_openapi::ByteString;
use kube::{Client, Config, client::Body};
use serde_json::json;
use std::{
    env, fs,
    process::{Child, Command, Stdio},
};

/// The process `spark-operator page`, which is killed when this value is dropped.
pub(crate) struct Page {
    process: Child,
    client: Client,
}

impl Page {
    /// Starts the process and waits until it answers.
    pub(crate) async fn start(namespace: &Namespace) -> Self {
        let kubeconfig = kubeconfig();
        let cluster = &kubeconfig["clusters"][0]["cluster"];
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
        let page = Self { process, client: Client::try_from(config).unwrap() };
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
        self.process.id()
    }

    /// Sends a request with the token. Returns the status, the address that is led to, and the text.
    pub(crate) async fn ask(
        &self,
        token: &str,
        method: Method,
        path: &str,
        form: &str,
    ) -> (StatusCode, String, String) {
        let request =
            Request::builder().method(method).uri(path).header(AUTHORIZATION, format!("Bearer {token}"));
        let answer =
            self.client.send(request.body(Body::from(form.as_bytes().to_vec())).unwrap()).await.unwrap();
        let to = answer.headers().get(LOCATION).map_or("", |to| to.to_str().unwrap()).to_owned();
        let status = answer.status();
        let text = answer.into_body().collect_bytes().await.unwrap().to_vec();
        (status, to, String::from_utf8(text).unwrap())
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> String {
        self.ask(token, Method::GET, path, "").await.2
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Creates a service account of the namespace `home`, which may do this with applications in `namespace`.
pub(crate) fn account(name: &str, home: &str, namespace: &str, verbs: &[&str]) {
    let metadata = json!({"name": name, "namespace": namespace});
    let rules =
        json!([{"apiGroups": ["sparkoperator.k8s.io"], "resources": ["sparkapplications"], "verbs": verbs}]);
    let rbac = "rbac.authorization.k8s.io";
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": home}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home}],
        }),
    ] {
        calls::apply(&object, object["metadata"]["namespace"].as_str());
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn two_callers_side_by_side_see_and_do_what_each_of_them_may() {
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

    let (of_viewer, of_editor) = join(page.get(&viewer, pi), page.get(&editor, pi)).await;
    let lacks = "You lack the right to patch sparkapplications in the namespace page.";
    assert!(of_viewer.contains(lacks) && of_viewer.contains("You lack the right to delete"), "{of_viewer}");
    assert!(!of_editor.contains(lacks) && of_editor.contains("You lack the right to delete"), "{of_editor}");
    let suspend = |shown: &str| {
        let form = shown.split_once(r#"name="form" value=""#).expect(shown).1.split('"').next().unwrap();
        format!("form={form}&action=suspend")
    };
    let is_suspended = async || namespace.application("pi").await["spec"]["suspend"] == true;
    // The form of another is as little use as the button that cannot be pressed.
    for form in [suspend(&of_viewer), suspend(&of_editor)] {
        let (status, _, _) = page.ask(&viewer, Method::POST, pi, &form).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
    }
    assert!(!is_suspended().await);
    let (status, to, text) = page.ask(&editor, Method::POST, pi, &suspend(&of_editor)).await;
    assert_eq!((status, &*to), (StatusCode::SEE_OTHER, pi), "{text}");
    assert!(is_suspended().await);

    // The list is watched, so it is as the API server has it.
    namespace.create::<SparkApplication>(&application("tau")).await;
    eventually("the list has the new one", async || {
        let shown = page.get(&viewer, list).await;
        seen(shown.contains(">tau<") && shown.contains("2 applications"), shown)
    })
    .await;
    namespace.delete::<SparkApplication>("pi").await;
    eventually("the list does not have the old one", async || {
        let shown = page.get(&viewer, list).await;
        seen(!shown.contains(">pi<") && shown.contains("1 applications"), shown)
    })
    .await;
}
