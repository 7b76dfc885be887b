//! Proves that a driver's web UI is exposed if that is enabled, and that this delays no application.

use super::{application, complaints, edit_spec, ended, reported, running, submitted};
use crate::apiserver::{
    installation::{is_not_ready, restored},
    operator::USER,
    policy::AdmissionPolicy,
    prelude::*,
};

const BY_PATH: &str = "--ingress-url-format=ui.example.com/{{$appNamespace}}/{{$appName}}";
const SUBMISSION_ID: &str = "sparkoperator.k8s.io/submission-id";

pub(in crate::apiserver) fn kubernetes_accepts_the_objects_of_every_golden_case(namespace: &Namespace) {
    let golden = cases("exposure").into_iter().map(|case| yaml::<Value>(&case.join("objects.yaml")));
    let objects: Vec<_> = golden
        .flat_map(|mut case| serde_json::from_value::<Vec<Value>>(case["objects"].take()).unwrap())
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let create =
        ["create", "--dry-run=server", "--validate=strict", "--namespace", namespace.name, "--filename=-"];
    kubectl_with(&list, &create);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_web_ui_is_exposed_until_the_spec_disables_it() {
    let namespace = Namespace::new("exposed").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).argument(BY_PATH).start().await;
    let ports = json!([{"servicePort": 8888, "servicePortName": "notebook", "ingressURLFormat": "{{$appName}}.example.com"}]);
    let spec = json!({"sparkConf": {"spark.ui.port": "4041"}, "driverIngressOptions": ports});
    namespace.apply(&application("pi", &spec));
    let first = running(&namespace, "pi", 1).await;
    let service = namespace.there::<Service>("pi-ui-svc").await;
    assert_eq!(service["metadata"]["ownerReferences"], owned_by(&first));
    namespace.there::<Ingress>("pi-ing-8888").await;
    namespace.there::<Service>("pi-driver-8888").await;
    let address = format!("{}:4041", service["spec"]["clusterIP"].as_str().unwrap());
    let told = json!({
        "podName": "pi-driver", "webUIServiceName": "pi-ui-svc", "webUIPort": 4041, "webUIAddress": address,
        "webUIIngressName": "pi-ui-ingress", "webUIIngressAddress": "http://ui.example.com/exposed/pi",
    });
    let is_told = |application: &Value| application["status"]["driverInfo"] == told;
    let first = namespace.until::<SparkApplication>("pi", "has the URLs of its web UI", is_told).await;

    // A new operator creates nothing a second time.
    operator.stop().await;
    let written = proxy.writes_in(namespace.name).len();
    let operator = Operator::with(&namespace).through(&proxy).argument(BY_PATH).start().await;
    operator.has_looked_at(1).await;
    let writes = proxy.writes_in(namespace.name).split_off(written);
    assert!(writes.is_empty(), "{writes:?}");

    // Objects that a user edits or deletes are restored.
    let edit = json!({
        "metadata": {"labels": {"sparkoperator.k8s.io/app-name": "other", "sparkoperator.k8s.io/created-by-spark-operator": null}},
        "spec": {"ports": [{"name": "x", "port": 80, "targetPort": 80}], "selector": {"spark-role": "executor"}},
    });
    namespace.merge::<Service>("pi-ui-svc", &edit);
    namespace.delete::<Ingress>("pi-ui-ingress").await;
    let mended = is(&namespace, "pi-ui-svc", &service).await;
    assert_eq!(mended["metadata"]["uid"], service["metadata"]["uid"]);
    namespace.there::<Ingress>("pi-ui-ingress").await;
    namespace.until::<SparkApplication>("pi", "has the URLs of its web UI", is_told).await;

    // The objects stay when the run has ended, are reused by the next run, and are deleted when the spec does not need
    // them.
    let completed = namespace.completes("pi").await;
    assert!(is_told(&completed), "{completed}");
    edit_spec(&namespace, "pi", &json!({"driverIngressOptions": null}));
    let second = running(&namespace, "pi", 2).await;
    assert_ne!(second["status"]["submissionID"], first["status"]["submissionID"]);
    let mut expected = service.clone();
    expected["metadata"]["labels"][SUBMISSION_ID] = second["status"]["submissionID"].clone();
    let kept = is(&namespace, "pi-ui-svc", &expected).await;
    assert_eq!(kept["metadata"]["uid"], service["metadata"]["uid"], "the Service keeps its address");
    namespace.is_gone::<Service>("pi-driver-8888").await;
    namespace.is_gone::<Ingress>("pi-ing-8888").await;
    namespace.until::<SparkApplication>("pi", "has the URLs of its web UI", is_told).await;
    // A restarted operator does not know when the Service was changed, and so deletes it without a delay.
    operator.stop().await;
    let operator = Operator::with(&namespace).through(&proxy).argument(BY_PATH).start().await;
    edit_spec(&namespace, "pi", &json!({"sparkConf": {"spark.ui.enabled": "false"}}));
    running(&namespace, "pi", 3).await;
    namespace.is_gone::<Service>("pi-ui-svc").await;
    namespace.is_gone::<Ingress>("pi-ui-ingress").await;
    is_not_exposed(&namespace).await;
    assert_eq!(complaints(&operator.log()), Vec::<&str>::new());
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_failure_to_expose_a_ui_gets_one_event_and_blocks_no_application() {
    let namespace = Namespace::new("not-exposed").await;
    let kept = namespace.beside("kept-exposure").await;
    let operator = Operator::with(&namespace).argument(BY_PATH).start().await;
    an_object_that_cannot_be_created_gets_one_event(&namespace).await;
    an_object_that_cannot_be_deleted_gets_an_event_and_is_retried(&kept, operator).await;
}

async fn an_object_that_cannot_be_created_gets_one_event(namespace: &Namespace) {
    let others = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "pi-ui-svc"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    namespace.apply(&others);
    let before = namespace.get::<Service>("pi-ui-svc").await;
    let _policy = no_ingresses(namespace).await;
    namespace.apply(&application("pi", &json!({})));
    let pi = running(namespace, "pi", 1).await;
    assert_eq!(pi["status"]["driverInfo"], json!({"podName": "pi-driver"}));
    reported(namespace, "Service pi-ui-svc already exists and is not this application's: delete it; ").await;
    namespace.apply(&application("lone", &json!({})));
    running(namespace, "lone", 1).await;
    reported(namespace, "failed to create Ingress lone-ui-ingress: ").await;
    reported(namespace, "no ingresses today").await;
    let address = "ui.example.com/not-exposed/lone";
    let ports = json!([{"servicePort": 8080, "servicePortName": "api", "ingressURLFormat": address}]);
    namespace.apply(&application("twin", &json!({"driverIngressOptions": ports})));
    running(namespace, "twin", 1).await;
    reported(namespace, &format!("{address} is the address of application lone in namespace not-exposed: "))
        .await;
    namespace.completes("pi").await;
    assert_eq!(namespace.get::<Service>("pi-ui-svc").await, before, "the other Service is left alone");

    // Once the name is free, the Service is created.
    let mut others = others;
    others["metadata"]["name"] = json!("later-ui-svc");
    namespace.apply(&others);
    namespace.apply(&application("later", &json!({})));
    submitted(namespace, "later", 1).await;
    reported(namespace, "Service later-ui-svc already exists").await;
    namespace.delete::<Service>("later-ui-svc").await;
    kubelet::runs(namespace, "later-driver").await;
    let has_address = |later: &Value| later["status"]["driverInfo"]["webUIAddress"].is_string();
    namespace.until::<SparkApplication>("later", "has the address of its web UI", has_address).await;
    let events = namespace.events().await;
    let auxiliary = |of: &str| {
        let mut auxiliary: Vec<_> = events.iter().map(|[_, reason, _, note]| (reason, note)).collect();
        auxiliary.retain(|(reason, note)| *reason == "SparkApplicationAuxiliaryFailed" && note.contains(of));
        auxiliary.len()
    };
    assert_eq!((auxiliary("lone-ui-"), auxiliary("pi-ui-")), (1, 1), "{events:?}");
    assert_eq!(auxiliary("pi-ui-ingress"), 0, "no Ingress may lead to the other Service: {events:?}");
}

async fn an_object_that_cannot_be_deleted_gets_an_event_and_is_retried(
    namespace: &Namespace,
    operator: Operator,
) {
    namespace.apply(&application("pi", &json!({})));
    running(namespace, "pi", 1).await;
    is_exposed(namespace, "pi").await;
    // A restarted operator does not know when the Ingress was created, and so tries to delete it without a delay.
    operator.stop().await;
    let setup = Operator::with(namespace).argument(BY_PATH).argument("--delete-ui-service-on-end");
    let _operator = setup.start().await;
    let policy = no_ingresses(namespace).await;
    namespace.completes("pi").await;
    reported(namespace, "failed to delete Ingress pi-ui-ingress: ").await;
    namespace.is_gone::<Service>("pi-ui-svc").await;
    drop(policy);
    namespace.is_gone::<Ingress>("pi-ui-ingress").await;
    is_not_exposed(namespace).await;
}

/// Neither the application with the slow Service nor another application waits.
pub(super) async fn no_application_waits_for_a_slow_ui_service(namespace: &Namespace, proxy: &Proxy) {
    let service = Call { method: "POST", path: "/slow-exposure/services" };
    let service_is_made = proxy.hold_saying("pi-ui-svc", service, Moment::Before);
    namespace.apply(&application("pi", &json!({})));
    let held = service_is_made.caught().await;
    running(namespace, "pi", 1).await;
    namespace.apply(&application("other", &json!({})));
    ended(namespace, "other", 1, 0).await;
    namespace.reaches("other", "COMPLETED").await;
    namespace.completes("pi").await;
    held.close();
}

/// Covers a cluster without Ingresses, and a cluster in which the operator has no permission to read Ingresses.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_without_ingresses_runs_applications_and_sends_an_event() {
    let namespace = Namespace::new("no-ingresses").await;
    let proxy = Proxy::start().await;
    proxy.guarded_by(Box::new(|request| {
        let is_ingress = request.uri().path().contains("/networking.k8s.io/v1/")
            && request.uri().path().contains("ingresses");
        if is_ingress { vec![Fault::Refused(StatusCode::NOT_FOUND)] } else { Vec::new() }
    }));
    {
        let operator = Operator::with(&namespace).through(&proxy).argument(BY_PATH).start().await;
        namespace.apply(&application("absent", &json!({})));
        running(&namespace, "absent", 1).await;
        reported(&namespace, "failed to create Ingress absent-ui-ingress: ").await;
        namespace.completes("absent").await;
        let unwatched = |line: &&str| line.contains("not watched");
        assert_eq!(operator.log().lines().filter(unwatched).count(), 1);
    }

    let _restored = restored("manifests/rbac");
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/spark-operator-applications";
    let role = calls::get(path).expect(path);
    let rules = role["rules"].as_array().unwrap().iter();
    let rules: Vec<_> = rules.filter(|rule| rule["resources"] != json!(["ingresses"])).collect();
    calls::merge(path, &json!({"rules": rules}));
    calls::until_may_create(false, USER, "ingresses.networking.k8s.io", "default").await;
    let operator = Operator::with(&namespace).argument(BY_PATH).spawn();
    is_not_ready(&operator, "permissions", &["the operator's account may not ", "watch ingresses"]).await;
    namespace.apply(&application("forbidden", &json!({})));
    running(&namespace, "forbidden", 1).await;
    reported(
        &namespace,
        "failed to create Ingress forbidden-ui-ingress: ingresses.networking.k8s.io is forbidden",
    )
    .await;
    namespace.completes("forbidden").await;
}

/// Waits until the web UI of the application has a Service and an Ingress.
async fn is_exposed(namespace: &Namespace, name: &str) {
    namespace.there::<Service>(&format!("{name}-ui-svc")).await;
    namespace.there::<Ingress>(&format!("{name}-ui-ingress")).await;
}

async fn is_not_exposed(namespace: &Namespace) {
    let has_none = |pi: &Value| pi["status"]["driverInfo"] == json!({"podName": "pi-driver"});
    namespace.until::<SparkApplication>("pi", "has no web UI", has_none).await;
}

/// Waits until all fields of the Service that the operator sets are as in `expected`.
async fn is(namespace: &Namespace, name: &str, expected: &Value) -> Value {
    let is_it = |there: &Value| {
        let same = |path: &str| there.pointer(path) == expected.pointer(path);
        ["/metadata/labels", "/metadata/annotations", "/metadata/ownerReferences", "/spec"]
            .into_iter()
            .all(same)
    };
    namespace.until::<Service>(name, "has the expected fields", is_it).await
}

/// Refuses to create and delete Ingresses in `namespace`.
async fn no_ingresses(namespace: &Namespace) -> AdmissionPolicy {
    let rule = json!({
        "apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"],
        "resources": ["ingresses"],
    });
    let refused = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "refused"},
        "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}},
    });
    AdmissionPolicy::refusing(namespace, "no-ingresses", &rule, "false", "no ingresses today", &refused).await
}
