//! Tests which Services and Ingresses the operator creates for an application. Each case in `tests/data/exposure` has
//! an application, the operator's flags and the expected objects. The other tests cover what is planned when some of
//! the objects exist already.

use crate::{choice::chosen, manifests::settings, prelude::*};
use api::{DriverInfo, ObjectKey, ObjectKind, State};
use json_patch::Patch;
use plan::{
    By, Driver, Observed, Plan, Submission, SubmissionProgress,
    auxiliary::{AskedAddresses, AuxiliaryAction, AuxiliaryObject, AuxiliaryObjects, Try},
    extension::Extensions,
    lifecycle,
    submission_plan::Submitter,
};
use pods::Phase;
use submission::{
    self,
    exposure::{backend, exposure_rights},
};

const UID: &str = "6c1f0b5e-0000-4000-8000-000000000001";

#[test]
fn an_application_has_the_services_and_ingresses_that_its_case_says() {
    let mut golden = Golden::default();
    for case in cases("exposure") {
        let (application, policy) = read(&case);
        let mut made = made_in_turn(&application, &policy);
        let seen = auxiliary(&stored(made.clone()));
        let followed = next(&application, seen, 1, &policy);
        assert_eq!(followed.auxiliary, [], "{}: nothing left to do", case.display());
        for object in &mut made {
            let metadata = &mut object["metadata"];
            let label = metadata["labels"]["sparkoperator.k8s.io/submission-id"].take();
            assert_eq!(label, json!(followed.status.submission_id), "{}", case.display());
            metadata["labels"].as_object_mut().unwrap().remove("sparkoperator.k8s.io/submission-id");
            let owners = metadata.as_object_mut().unwrap().remove("ownerReferences").unwrap();
            assert_eq!((&owners[0]["uid"], &owners[0]["controller"]), (&json!(UID), &json!(true)));
        }
        let info = DriverInfo { pod_name: None, ..followed.status.driver_info };
        golden.compare_yaml(&case.join("objects.yaml"), &json!({"driverInfo": info, "objects": made}));
    }
    golden.finish();
}

/// The example has every existing field: tests/it/crds.rs.
#[test]
fn every_field_that_changes_what_can_be_reached_needs_a_right() {
    let mut full: Value = yaml(&data("api/sparkapplication.yaml"));
    full["spec"]["suspend"] = json!(false);
    full["metadata"]["uid"] = json!(UID);
    full["metadata"]["generation"] = json!(1);
    let policy = policy(&["--ingress-url-format={{$appName}}.example.com"]);
    let reached = |application: &SparkApplication| {
        let seen = |object: Value| {
            let kind = if object["kind"] == "Ingress" { &object["spec"] } else { &object["spec"]["type"] };
            (object["metadata"]["annotations"].clone(), kind.clone())
        };
        made_in_turn(application, &policy).into_iter().map(seen).collect::<Vec<_>>()
    };
    let read = |object: &Value| serde_json::from_value::<SparkApplication>(object.clone());
    let new = read(&full).unwrap();
    let mut deciding = Vec::new();
    for path in paths(&full["spec"]) {
        let mut without = full.clone();
        let (parent, field) = path.rsplit_once('/').unwrap();
        match without["spec"].pointer_mut(parent) {
            Some(Value::Object(fields)) => drop(fields.remove(&field.replace("~1", "/"))),
            Some(Value::Array(list)) => drop(list.remove(field.parse().unwrap())),
            other => unreachable!("{path} is in {other:?}"),
        }
        let Ok(old) = read(&without) else { continue };
        if reached(&old) != reached(&new) {
            assert_ne!(exposure_rights(Some(&old.spec), &new.spec, "spec"), [], "{path}");
            deciding.push(path);
        }
    }
    for field in ["/sparkUIOptions/serviceType", "/driverIngressOptions/0/ingressURLFormat"] {
        assert!(deciding.iter().any(|path| path == field), "{field} is not among {deciding:?}");
    }
}

/// Returns the JSON pointers of all values in `value`.
fn paths(value: &Value) -> Vec<String> {
    let inside: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.replace('/', "~1"), value)).collect()
        }
        Value::Array(list) => list.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    let below = |(name, value): (String, &Value)| {
        let deeper: Vec<_> = paths(value).iter().map(|path| format!("/{name}{path}")).collect();
        [format!("/{name}")].into_iter().chain(deeper)
    };
    inside.into_iter().flat_map(below).collect()
}

/// A case in which the Service and the Ingress of a web UI exist already: how they differ, and what is planned.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Existing {
    case: String,
    /// The `sparkUIOptions` of the application.
    #[serde(default)]
    options: Value,
    /// The JSON Patch that turns the two objects as they were created into those that exist.
    differ: Value,
    /// The merge patches of the plan; `RUN` is the id of the run.
    mended: Vec<Value>,
    /// The web UI's address inside the cluster in the status.
    address: Option<String>,
}

#[test]
fn existing_objects_are_repaired_as_their_case_says() {
    for Existing { case, options, differ, mended, address } in
        yaml::<Vec<Existing>>(&data("exposure/standing.yaml"))
    {
        let (mut application, policy) = host_and_path();
        application.spec.spark_ui_options = serde_json::from_value(options).unwrap();
        let mut standing = json!(stored(made_in_turn(&application, &policy)));
        let differ: Patch = serde_json::from_value(differ).unwrap();
        json_patch::patch(&mut standing, &differ).unwrap();
        let plan = next(&application, auxiliary(standing.as_array().unwrap()), 1, &policy);
        let patches = plan.auxiliary.iter().map(|action| match action {
            AuxiliaryAction::Mend(patch) => patch,
            other => panic!("{case}: {other:?}"),
        });
        let patches = json!(patches.collect::<Vec<_>>()).to_string();
        let patches = patches.replace(plan.status.submission_id.as_deref().unwrap(), "RUN");
        assert_eq!(serde_json::from_str::<Value>(&patches).unwrap(), json!(mended), "{case}");
        assert_eq!(plan.status.driver_info.web_ui_address, address, "{case}");
    }
}

#[test]
fn unwanted_objects_are_deleted_unless_they_have_another_owner() {
    let (mut application, policy) = host_and_path();
    application.spec.driver_ingress_options = serde_json::from_value(json!([
        {"servicePort": 8888, "servicePortName": "a", "ingressURLFormat": "a.example.com"},
    ]))
    .unwrap();
    let mut standing = stored(made_in_turn(&application, &policy));
    assert_eq!(standing.len(), 4);
    application.spec.driver_ingress_options.clear();
    let plan = next(&application, auxiliary(&standing), 1, &policy);
    let deleted = |kind: ObjectKind, name: &str| AuxiliaryAction::Delete(kind.named(name));
    let expected =
        [deleted(ObjectKind::SERVICE, "pi-driver-8888"), deleted(ObjectKind::INGRESS, "pi-ing-8888")];
    assert_eq!(
        plan.auxiliary.iter().filter(|action| expected.contains(action)).count(),
        2,
        "{:?}",
        plan.auxiliary
    );

    // Now the objects belong to an earlier application of the same name.
    for object in &mut standing {
        object["metadata"]["ownerReferences"][0]["uid"] = json!("other");
    }
    let plan = next(&application, auxiliary(&standing), 1, &policy);
    assert!(
        plan.auxiliary.iter().all(|action| matches!(action, AuxiliaryAction::Make(_))),
        "{:?}",
        plan.auxiliary
    );
}

/// Services and Ingresses stay until the next run, so that the URL of the web UI stays the same, unless the admin has
/// set `ends_with_run`.
#[test]
fn services_and_ingresses_outlive_the_run_but_not_a_suspension() {
    let (mut application, mut policy) = host_and_path();
    let plan = next(&application, AuxiliaryObjects::default(), 0, &policy);
    let standing = auxiliary(&stored(made_in_turn(&application, &policy)));
    let resting = |application: &SparkApplication, policy: &Policy, state: State| {
        let mut application = application.clone();
        application.status.as_mut().unwrap().application_state.state = state;
        application.spec.suspend = Some(state == State::Suspended);
        let seen = Observed { auxiliary: standing.clone(), ..Observed::default() };
        lifecycle::next(&application, &seen, begin(), policy).auxiliary
    };
    application.status = Some(plan.status);
    let rests = [State::Completed, State::Failed, State::PendingRerun, State::Failing, State::Suspending];
    for state in rests {
        assert_eq!(resting(&application, &policy, state), [], "{state}");
    }
    let all_go = |actions: &[AuxiliaryAction]| {
        actions.len() == 2 && actions.iter().all(|action| matches!(action, AuxiliaryAction::Delete(_)))
    };
    assert!(all_go(&resting(&application, &policy, State::Suspended)));
    policy.submission.exposure.ends_with_run = true;
    for state in rests {
        let actions = resting(&application, &policy, state);
        assert_eq!(
            all_go(&actions),
            matches!(state, State::Completed | State::Failed | State::Failing),
            "{state}: {actions:?}"
        );
    }
}

/// Otherwise a user could give the URL of another application's web UI to a port of their own.
#[test]
fn no_application_can_choose_the_url_of_the_web_ui_of_another() {
    let (mut application, policy) = host_and_path();
    let ui = "ui.example.com/data/pi";
    application.spec.driver_ingress_options = serde_json::from_value(
        json!([{"servicePort": 8080, "ingressURLFormat": "ui.example.com/data/other"}]),
    )
    .unwrap();
    let asked = AskedAddresses::of(&application, &policy.submission.exposure);
    assert_eq!(asked.0, [(ui.to_owned(), true), ("ui.example.com/data/other".to_owned(), false)]);
    assert!(asked.takes(ui, true) && asked.takes(ui, false), "a URL is that of one web UI");
    assert!(
        asked.takes("ui.example.com/data/other", false) && !asked.takes("ui.example.com/data/other", true)
    );
    application.status.get_or_insert_default().application_state.state = State::Suspended;
    assert!(
        AskedAddresses::of(&application, &policy.submission.exposure).0.is_empty(),
        "its Ingresses are deleted"
    );
}

/// The pause between two attempts grows, so that the operator does not endlessly repeat a request that the API server
/// refuses, or a change that another controller undoes.
#[test]
fn a_failed_or_reverted_change_is_retried_with_growing_backoff() {
    let (application, policy) = host_and_path();
    let child = ObjectKind::SERVICE.named("pi-ui-svc");
    let mut tried: Option<Try> = None;
    let (mut tries, mut second) = (Vec::new(), 0);
    while second < 3600 {
        let mut seen = AuxiliaryObjects::default();
        if let Some(tried) = &tried {
            seen.tries.insert(child.clone(), tried.clone());
        }
        let plan = next(&application, seen, second, &policy);
        if made(&plan).iter().any(|object| ObjectKey::of(object).as_ref() == Some(&child)) {
            tries.push(second);
            let begun = Try::begun(tried.take(), at(second));
            assert_eq!(begun.ended, None);
            tried = Some(Try { ended: Some(at(second)), ..begun });
            continue;
        }
        let wake = plan.wake.unwrap();
        assert!(wake > Duration::ZERO && wake <= Duration::from_secs(300), "{wake:?}");
        second += i64::try_from(wake.as_secs()).unwrap().max(1);
    }
    assert_eq!(tries[..7], [0, 5, 15, 35, 75, 155, 315]);
    assert!(tries.windows(2).all(|pair| pair[1] - pair[0] <= 300), "{tries:?}");
    assert_eq!(
        Try::begun(tried.take(), at(7200)).count,
        1,
        "an attempt after a long pause is the first again"
    );
}

/// In an earlier version, an application whose Service had the name of somebody else's Service got an Ingress that led
/// to that one, while an event reported that its own could not be created.
#[test]
fn an_ingress_leads_to_no_service_of_another_owner() {
    let (application, policy) = host_and_path();
    let made_beside = |seen: AuxiliaryObjects| {
        let made = made(&next(&application, seen, 1, &policy));
        made.iter().filter_map(|object| object["kind"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let of_another = |service: &Value| {
        let mut service = service.clone();
        service["metadata"]["ownerReferences"][0]["uid"] = json!("other");
        service
    };
    let own = stored(made_in_turn(&application, &policy)).swap_remove(0);
    assert_eq!(made_beside(AuxiliaryObjects::default()), ["Service"]);
    assert_eq!(made_beside(auxiliary(&[of_another(&own)])), ["Service"]);
    assert_eq!(made_beside(auxiliary(&[own])), ["Ingress"]);

    // No watch reports the Service, but the API server has confirmed its creation.
    let run = Run::next(&application).id.to_string();
    for (made_for, expected) in [(Some(run), ["Ingress"]), (None, ["Service"])] {
        let tried = Try { ended: Some(at(-600)), made_for, ..Try::begun(None, at(-600)) };
        let seen = AuxiliaryObjects {
            unwatched: vec![ObjectKind::SERVICE],
            tries: [(ObjectKind::SERVICE.named("pi-ui-svc"), tried)].into(),
            ..AuxiliaryObjects::default()
        };
        assert_eq!(made_beside(seen), expected);
    }
}

#[test]
fn an_object_of_a_kind_without_a_watch_is_created_once_a_run() {
    let (application, policy) = host_and_path();
    let unwatched = vec![ObjectKind::INGRESS];
    let child = ObjectKind::INGRESS.named("pi-ui-ingress");
    let standing = stored(made_in_turn(&application, &policy));
    let mut seen = AuxiliaryObjects { unwatched, ..auxiliary(&standing[..1]) };
    let first = next(&application, seen.clone(), 0, &policy);
    assert_eq!(first.auxiliary.len(), 1);
    let made_for = first.status.submission_id.clone();
    let made = Try { ended: Some(at(0)), made_for, ..Try::begun(None, at(0)) };
    seen.tries.insert(child.clone(), made.clone());
    let later = next(&application, seen.clone(), 600, &policy);
    assert_eq!(later.auxiliary, []);
    let address = later.status.driver_info.web_ui_ingress_address;
    assert_eq!(address.as_deref(), Some("http://ui.example.com/data/pi"));
    seen.tries.insert(child, Try { made_for: Some("another run".into()), ..made });
    assert_eq!(next(&application, seen, 600, &policy).auxiliary.len(), 1);
}

/// The operator passes the path of the Ingress to Spark, which needs it for the links of its web UI. A path that
/// contains Spark's application id is known before the submission only if the submission is native.
#[test]
fn the_web_ui_gets_the_path_of_its_ingress() {
    let (base, redirect) = ("spark.ui.proxyBase", "spark.ui.proxyRedirectUri");
    let properties = |format: &str, conf: &Value, by_spark_submit: bool| -> [Option<String>; 2] {
        let (mut application, _) = host_and_path();
        application.spec.spark_conf = serde_json::from_value(conf.clone()).unwrap();
        let settings = policy(&[&format!("--ingress-url-format={format}")]).submission;
        let run = Run::next(&application);
        let application = &validate(&application).unwrap();
        let properties = if by_spark_submit {
            submission::spark_submit(application, &run, &settings, "").unwrap().properties
        } else {
            let environment = SubmissionEnvironment::default().environment;
            submission::native(application, &run, &settings, "", environment, begin()).unwrap().properties
        };
        [base, redirect].map(|key| properties.get(key).cloned())
    };
    let some = |base: &str, redirect: &str| [Some(base.to_owned()), Some(redirect.to_owned())];
    for by_spark_submit in [false, true] {
        let of = |format: &str, conf: &Value| properties(format, conf, by_spark_submit);
        assert_eq!(of("{{$appName}}.example.com/", &json!({})), [None, None]);
        assert_eq!(of("example.com/{{$appNamespace}}/{{$appName}}", &json!({})), some("/data/pi", "/"));
        assert_eq!(of("example.com/x", &json!({base: "/own"})), some("/own", "/"));
        assert_eq!(of("example.com/x", &json!({redirect: "/own"})), some("/x", "/own"));
        assert_eq!(of("example.com/x", &json!({"spark.ui.enabled": "false"})), [None, None]);
    }
    let (application, _) = host_and_path();
    let policy = policy(&["--ingress-url-format=example.com/{{$appId}}"]);
    let By::Native(objects) = chosen(&application, &policy).request.by else { panic!("not native") };
    let id = objects.pod["metadata"]["labels"]["spark-app-selector"].as_str().unwrap();
    let by_id = "example.com/{{$appId}}";
    assert_eq!(properties(by_id, &json!({}), false), some(&format!("/{id}"), "/"));
    assert_eq!(properties(by_id, &json!({}), true), [None, None], "spark-submit generates the id");
    let notes = |submitter: Submitter| {
        let policy = Policy { submitter, ..policy.clone() };
        let events = chosen(&application, &policy).events.into_iter();
        events.map(|event| event.note).collect::<Vec<_>>()
    };
    assert_eq!(notes(Submitter::Native), Vec::<String>::new());
    let [note] = &notes(Submitter::SparkSubmit)[..] else { panic!("one note") };
    assert!(note.starts_with("the links of the web UI lack the path of its Ingress"), "{note}");
}

/// The host depends on the application, so the operator cannot check its length when the operator starts.
#[test]
fn an_invalid_url_gets_an_event_when_a_run_is_recorded() {
    let (mut application, _) = host_and_path();
    application.metadata.name = Some("a".repeat(60));
    let policy = policy(&["--ingress-url-format={{$appName}}-{{$appNamespace}}.example.com"]);
    let run = Run::next(&application);
    let succeeded = SubmissionProgress::Succeeded { spark_application_id: Some("spark-1".into()) };
    let submission = Some(Submission { id: run.id.clone(), progress: succeeded });
    let plan =
        lifecycle::next(&application, &Observed { submission, ..Observed::default() }, begin(), &policy);
    assert_eq!(plan.status.application_state.state, State::Submitted);
    let [_, event] = &plan.events[..] else { panic!("{:?}", plan.events) };
    assert_eq!(event.reason, "SparkApplicationAuxiliaryFailed");
    assert!(event.note.contains("has 65 characters, at most 63 are possible"), "{}", event.note);
    assert_eq!(made_in_turn(&application, &policy).len(), 1, "the Service alone");
    let later = next(&application, AuxiliaryObjects::default(), 1, &policy);
    assert_eq!(later.events, []);
}

fn read(case: &Path) -> (SparkApplication, Policy) {
    let mut application: SparkApplication = yaml(&case.join("application.yaml"));
    application.metadata.uid = Some(UID.to_owned());
    application.metadata.generation = Some(1);
    let flags = fs::read_to_string(case.join("flags")).unwrap();
    (application, policy(&flags.lines().collect::<Vec<_>>()))
}

fn host_and_path() -> (SparkApplication, Policy) {
    read(&crate::golden::data("exposure/host-and-path"))
}

fn policy(flags: &[&str]) -> Policy {
    let mut policy = Policy::new("k8s://https://10.96.0.1:443");
    policy.submission.exposure = settings(flags).exposure.exposure();
    policy
}

/// Returns the plan for `application` with a running driver and the objects `auxiliary`, `second` seconds after
/// [`begin`]. Spark's id of the application is `spark-1`, unless its status has another one.
fn next(application: &SparkApplication, auxiliary: AuxiliaryObjects, second: i64, policy: &Policy) -> Plan {
    let mut application = application.clone();
    let run = Run::next(&application);
    let id = application.status.take().and_then(|status| status.spark_application_id);
    application.status = Some(
        serde_json::from_value(json!({
            "applicationState": {"state": "RUNNING"}, "submissionID": run.id,
            "sparkApplicationId": id.as_deref().unwrap_or("spark-1"), "runOrdinal": 1,
            "observedGeneration": 1, "specHash": run.spec_hash,
        }))
        .unwrap(),
    );
    let driver: PodSummary = serde_json::from_value(json!({
        "name": "pi-driver", "uid": "d1", "role": "driver", "application": application.metadata.name,
        "submissionId": run.id, "controller": {"kind": "SparkApplication", "name": "pi", "uid": UID},
    }))
    .unwrap();
    let driver = PodSummary { phase: Phase::Running, started: true, ..driver };
    let seen = Observed {
        driver: Driver::Pod { pod: Box::new(driver), complete: true },
        auxiliary,
        made: true,
        ..Observed::default()
    };
    lifecycle::next(&application, &seen, at(second), policy)
}

fn made(plan: &Plan) -> Vec<Value> {
    let made = |action: &AuxiliaryAction| match action {
        AuxiliaryAction::Make(object) => Some(object.clone()),
        AuxiliaryAction::Mend(_) | AuxiliaryAction::Delete(_) => None,
    };
    plan.auxiliary.iter().filter_map(made).collect()
}

/// Returns the objects that are created for `application`: each Service, and the Ingress that leads to it, which is
/// created once the Service exists.
fn made_in_turn(application: &SparkApplication, policy: &Policy) -> Vec<Value> {
    let services = made(&next(application, AuxiliaryObjects::default(), 0, policy));
    let seen = auxiliary(&stored(services.clone()));
    let mut ingresses = made(&next(application, seen, 1, policy));
    let mut all = Vec::new();
    for service in services {
        let leads_to_it = |ingress: &mut Value| backend(ingress) == service["metadata"]["name"].as_str();
        let own: Vec<_> = ingresses.extract_if(.., leads_to_it).collect();
        all.push(service);
        all.extend(own);
    }
    assert_eq!(ingresses, Vec::<Value>::new());
    all
}

/// Returns `objects` as the API server stores them: with a uid, and Services with a cluster IP.
fn stored(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        object["metadata"]["uid"] = format!("uid of {}", object["metadata"]["name"].as_str().unwrap()).into();
        if object["kind"] == "Service" {
            object["spec"]["clusterIP"] = "10.0.0.1".into();
        }
    }
    objects
}

fn auxiliary(objects: &[Value]) -> AuxiliaryObjects {
    let read = |object: &Value| {
        let kind = ObjectKey::of(object).unwrap().kind;
        AuxiliaryObject::of(&kind, object, &Extensions::default()).unwrap().1
    };
    AuxiliaryObjects { there: objects.iter().map(read).collect(), ..AuxiliaryObjects::default() }
}

fn begin() -> Timestamp {
    "2026-11-21T08:00:00Z".parse().unwrap()
}

fn at(second: i64) -> Timestamp {
    begin() + SignedDuration::from_secs(second)
}
