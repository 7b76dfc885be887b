//! Proves that an application that exceeds a ResourceQuota of its namespace is refused. The ResourceQuotas are real,
//! but no controller counts their use in this cluster, so the test writes their status.

use super::certificates::bundle;
use crate::{
    apiserver::prelude::*,
    webhook::{Client, handshake, trusting},
};

const ENFORCED: &str = "--enable-resource-quota-enforcement";
const RBAC: &str = "manifests/rbac/quota.yaml";
const DENIED: &str = "admission webhook \"validate-sparkoperator-k8s-io-v1beta2-sparkapplication.sparkoperator.k8s.io\" denied \
                      the request: ";

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_application_is_admitted_only_if_its_quotas_are_known_to_suffice() {
    let namespace = Namespace::new("quota").await;
    let _reviewed = reviewed();
    let allowed = granted(RBAC);
    let proxy = Proxy::start().await;
    let known = format!("--webhook-client-ca={}", cluster_ca().display());
    let setup = Operator::with(&namespace).through(&proxy).argument(ENFORCED).argument(&known);
    let operator = setup.start().await;
    let quota = Quota::begin(&namespace).await;
    an_application_that_exceeds_its_quota_is_refused(&namespace, &operator, &quota).await;
    namespace.delete::<SparkApplication>("pi").await;
    an_unresponsive_api_server_leads_to_a_quick_refusal(&namespace, &proxy).await;
    drop(allowed);
    an_operator_that_may_not_read_quotas_admits_nothing(&namespace).await;
    operator.stop().await;
}

async fn an_application_that_exceeds_its_quota_is_refused(
    namespace: &Namespace,
    operator: &Operator,
    quota: &Quota,
) {
    let create = ["create", "--dry-run=server", "--namespace", namespace.name, "-f", "-"];
    let no_room = "ResourceQuota team: pods: the application requests 4 (driver 1, 3 executors 1 each); of 5, 2 are used and 3 left: \
                   lower spec.executor.instances, or wait until others have ended; \
                   ResourceQuota team: requests.memory: the application requests 5632Mi (driver 1408Mi, 3 executors 1408Mi each); of 8Gi, \
                   3Gi are used and 5Gi left: lower spec.executor.instances, or memory or memoryOverhead of driver and executor, or wait \
                   until others have ended";
    assert_eq!(
        try_kubectl_with(&of_executors(3), &create).unwrap_err(),
        format!("Error from server (Forbidden): error when creating \"STDIN\": {DENIED}{no_room}")
    );
    calls::tried_in(namespace.name, &of_executors(2)).unwrap();
    let counted = "spark_operator_webhook_denials_total{kind=\"SparkApplication\",reason=\"ResourceQuota\"}";
    assert_eq!(operator.metric(counted).await, Ok(2.0));

    // A suspended application needs no room; a stored one can be labelled and suspended, but not resumed without room.
    let mut waiting = of_executors(3);
    waiting["spec"]["suspend"] = json!(true);
    namespace.apply(&waiting);
    namespace.kubectl(&["label", "sparkapplication", "pi", "team=data"]);
    let edited = |spec: Value| {
        let patch = json!({"spec": spec}).to_string();
        let patch =
            ["patch", "sparkapplication", "pi", "--type=merge", "--dry-run=server", "--patch", &patch];
        try_kubectl_with(&Value::Null, &[&patch[..], &["--namespace", namespace.name]].concat())
    };
    let refused = edited(json!({"suspend": false})).unwrap_err();
    assert!(refused.contains(&format!("{DENIED}{no_room}")), "{refused}");
    // The applications of a schedule are reviewed when they are created.
    calls::tried_in(namespace.name, &scheduled("nightly", "@daily", &of_executors(100))).unwrap();

    quota.is_used(namespace, &json!({"pods": "1", "requests.memory": "1408Mi"})).await;
    edited(json!({"suspend": false, "executor": {"instances": 5}})).unwrap_err();
    edited(json!({"suspend": false})).unwrap();

    let server = |executors: u32| {
        let mut server = connect("notebook");
        server["spec"]["executor"]["instances"] = json!(executors);
        server
    };
    let refused = calls::tried_in(namespace.name, &server(4)).unwrap_err();
    let asked = "ResourceQuota team: pods: the SparkConnect requests 5 (server 1, 4 executors 1 each); of 5, 1 are used and 4 left: ";
    assert!(refused.contains(asked), "{refused}");
    calls::tried_in(namespace.name, &server(3)).unwrap();

    // For a client other than the API server, the operator reads no ResourceQuota.
    let said = answer_to_a_stranger(namespace, &of_executors(100)).await;
    assert!(said.contains("--webhook-client-ca") && !said.contains("left"), "{said}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn spark_defaults_count_and_nothing_is_admitted_if_they_cannot_be_read() {
    let namespace = Namespace::new("quota-defaults").await;
    let _reviewed = reviewed();
    let _allowed = granted(RBAC);
    let directory = namespace.folder.join("conf");
    fs::create_dir(&directory).unwrap();
    let setup = Operator::with(&namespace).argument(ENFORCED);
    let _operator = setup.env("SPARK_CONF_DIR", directory.to_str().unwrap()).start().await;
    let _quota = Quota::begin(&namespace).await;
    let tried = || calls::tried_in(namespace.name, &of_executors(2));
    tried().unwrap();

    fs::write(directory.join("spark-defaults.conf"), "spark.executor.memoryOverhead 1g\n").unwrap();
    let refused = tried().unwrap_err();
    let asked = "requests.memory: the application requests 5504Mi (driver 1408Mi, 2 executors 2Gi each); that is more than there is left";
    assert!(refused.contains(asked), "{refused}");
    let said = answer_to_a_stranger(&namespace, &of_executors(2)).await;
    assert!(said.contains(asked) && !said.contains("8Gi") && !said.contains("3Gi"), "{said}");

    fs::remove_dir_all(&directory).unwrap();
    fs::write(&directory, "no directory").unwrap();
    let refused = tried().unwrap_err();
    let expected = format!(
        "{DENIED}nobody knows whether the ResourceQuotas of namespace quota-defaults have room, because the operator cannot read {}: \
         Not a directory (os error 20); have the administrator mend that, or run the operator without {ENFORCED}",
        directory.display()
    );
    assert!(refused.contains(&expected), "{refused}");
}

async fn an_operator_that_may_not_read_quotas_admits_nothing(namespace: &Namespace) {
    let refused = eventually("the removal of the right is effective", async || {
        calls::tried_in(namespace.name, &of_executors(1)).err().ok_or_else(|| "it is admitted".to_owned())
    })
    .await;
    let complaint = "the ResourceQuotas of namespace quota cannot be read, so nobody knows whether there is room: \
                     resourcequotas is forbidden: User \"system:serviceaccount:spark-operator:spark-operator\" cannot list resource \
                     \"resourcequotas\" in API group \"\" in the namespace \"quota\"; let the operator list them (apply what \
                     `spark-operator manifests rbac` prints with --enable-resource-quota-enforcement and the operator's other flags), or \
                     run the operator without --enable-resource-quota-enforcement";
    assert!(refused.contains(&format!("{DENIED}{complaint}")), "{refused}");
}

async fn an_unresponsive_api_server_leads_to_a_quick_refusal(namespace: &Namespace, proxy: &Proxy) {
    let tried = || calls::tried_in(namespace.name, &of_executors(1));
    tried().unwrap();

    let trap = proxy.hold(Call { method: "GET", path: "/quota/resourcequotas" }, Moment::Before);
    let refused = tried().unwrap_err();
    let unknown = format!(
        "{DENIED}the ResourceQuotas of namespace quota cannot be read, so nobody knows whether there is room: "
    );
    // The message comes from the operator: after 5 s without an answer, the API server would report a timeout instead.
    let silent = format!(
        "{unknown}the API server has not answered for 1 s; try again, or run the operator without {ENFORCED}"
    );
    assert!(refused.contains(&silent), "{refused}");
    trap.caught().await.close();
    tried().unwrap();

    proxy.line_is(Line::Refused);
    let refused = tried().unwrap_err();
    assert!(refused.contains(&unknown) && refused.contains("cannot be reached"), "{refused}");
    proxy.line_is(Line::Up);
    eventually("the API server is reached again", async || tried()).await;
}

/// Returns the application `pi` with `number` executors.
fn of_executors(number: u32) -> Value {
    let mut application = application("pi");
    application["spec"]["executor"]["instances"] = json!(number);
    application
}

/// Returns the CA of the certificate that the API server of these tests presents to webhooks.
fn cluster_ca() -> PathBuf {
    PathBuf::from(env::var_os("KUBECONFIG").unwrap()).with_file_name("pki").join("ca.crt")
}

/// Returns the message of the webhook to a client without a certificate about the creation of `application`.
async fn answer_to_a_stranger(namespace: &Namespace, application: &Value) -> String {
    let mut application = application.clone();
    application["metadata"]["namespace"] = json!(namespace.name);
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "sparkoperator.k8s.io", "version": "v1beta2", "kind": "SparkApplication"},
        "namespace": namespace.name, "operation": "CREATE", "object": application,
    }});
    let ByteString(cas) = serde_json::from_value(json!(bundle())).unwrap();
    let cas = String::from_utf8(cas).unwrap();
    let stream = handshake(([127, 0, 0, 1], WEBHOOK_PORT).into(), &trusting(&cas)).await.unwrap();
    let answer = Client::http1(stream).await.review_at("/validate", &review).await;
    answer["response"]["status"]["message"].as_str().unwrap().to_owned()
}

/// A ResourceQuota whose rest suffices for a driver and two executors.
struct Quota(Value);

impl Quota {
    async fn begin(namespace: &Namespace) -> Self {
        let hard =
            json!({"pods": "5", "requests.memory": "8Gi", "limits.cpu": "100", "count/configmaps": "0"});
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard}});
        namespace.apply(&quota);
        let quota = Self(hard);
        quota.is_used(namespace, &json!({"pods": "2", "requests.memory": "3Gi"})).await;
        quota
    }

    /// Writes the status that the controller manager would write.
    async fn is_used(&self, namespace: &Namespace, used: &Value) {
        let status = json!({"hard": self.0, "used": used});
        namespace.patch_status::<ResourceQuota>("team", &status).await;
        let written = namespace.get::<ResourceQuota>("team").await.unwrap();
        seen(written["status"]["used"] == *used, &written).unwrap();
    }
}
