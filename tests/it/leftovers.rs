//! Proves that all objects that a run has created, except its pods, are deleted when the run is over.

use crate::{choice::policy, native::program, prelude::*};
use api::{ObjectKey, ObjectKind};
use plan::{
    Action, By, Driver, Observed, Submission, SubmissionProgress, lifecycle::next, submission_plan::choose,
};
use serde_json::from_value;
use spark_client::Environment;

/// The volumes with PersistentVolumeClaims, and the name of each claim. Spark generates the name of the first for each
/// driver (`OnDemand`); the user has chosen the name of the second.
const CLAIMS: [(&str, &str); 2] = [("scratch", "OnDemand"), ("data", "data")];

/// An earlier version planned the deletion as if the admin had configured nothing. If only spark-defaults.conf had an
/// image, nothing could be planned, and all objects stayed.
#[test]
fn a_runs_objects_are_deleted_at_its_end_whatever_the_admin_configures() {
    for (name, application, submission_environment) in cases() {
        let (application, objects) = made(application, &submission_environment);
        let driver = driver(&application, &objects);
        let seen = Observed {
            driver: Driver::Pod { pod: Box::new(driver.clone()), complete: true },
            ..Observed::default()
        };
        assert_eq!(left(&application, &objects, &seen), [], "{name}");
        // Now the driver pod is gone already, and the watch has reported its last state.
        let seen = Observed { driver: Driver::Gone, departed: Some(Box::new(driver)), ..Observed::default() };
        assert_eq!(left(&application, &objects, &seen), [], "{name}, without its driver");
    }
}

/// A submission fails after it has created objects, for example, when a quota refuses the driver's pod, which is
/// created last.
#[test]
fn the_objects_of_a_failed_submission_are_deleted() {
    for (name, application, submission_environment) in cases() {
        let (_, objects) = made(application.clone(), &submission_environment);
        let id = Run::next(&application).id;
        let progress = SubmissionProgress::Failed("exceeded quota".to_owned());
        let seen = Observed {
            driver: Driver::Gone,
            submission: Some(Submission { id, progress }),
            submission_environment,
            ..Observed::default()
        };
        assert_eq!(left(&application, &objects, &seen), [], "{name}");
    }
}

#[test]
fn a_claim_whose_name_the_user_has_chosen_is_kept() {
    let (application, objects) =
        made(program(json!({"sparkConf": claims()})), &SubmissionEnvironment::default());
    let driver = Driver::Pod { pod: Box::new(driver(&application, &objects)), complete: true };
    let deleted = deleted(&application, &Observed { driver, ..Observed::default() });
    let is_claim = |child: &&ObjectKey| child.kind == ObjectKind::PERSISTENT_VOLUME_CLAIM;
    let claims: Vec<_> = deleted.iter().filter(is_claim).map(|claim| claim.name.as_str()).collect();
    let made: Vec<_> =
        objects.children.iter().filter_map(ObjectKey::of).filter(|child| is_claim(&child)).collect();
    assert_eq!(made.len(), 2);
    assert!(claims.len() == 1 && claims[0].ends_with("-driver-pvc-1"), "{claims:?}");
}

/// Returns applications, each with a name and with the admin's configuration of Spark.
fn cases() -> [(&'static str, SparkApplication, SubmissionEnvironment); 5] {
    let defaults =
        |text: String| SubmissionEnvironment { defaults: text, ..SubmissionEnvironment::default() };
    let file = ("core-site.xml".to_owned(), "<configuration/>".to_owned());
    let hadoop = Environment { hadoop_conf: Some([file].into()), ..Environment::default() };
    let lines = claims()
        .as_object()
        .unwrap()
        .iter()
        .fold(String::new(), |text, (key, value)| format!("{text}{key} {}\n", value.as_str().unwrap()));
    [
        ("nothing", program(json!({})), SubmissionEnvironment::default()),
        ("Spark 4.2", program(json!({"sparkVersion": "4.2.0"})), SubmissionEnvironment::default()),
        (
            "the image",
            program(json!({"image": null})),
            defaults("spark.kubernetes.container.image spark\n".to_owned()),
        ),
        (
            "HADOOP_CONF_DIR",
            program(json!({})),
            SubmissionEnvironment { environment: hadoop, ..SubmissionEnvironment::default() },
        ),
        (
            "claims",
            program(json!({"image": null})),
            defaults(format!("spark.kubernetes.container.image spark\n{lines}")),
        ),
    ]
}

/// Returns the properties of [`CLAIMS`].
fn claims() -> Value {
    let mut properties = json!({});
    for (volume, claim) in CLAIMS {
        for (setting, value) in [
            ("mount.path", format!("/{volume}")),
            ("options.claimName", claim.to_owned()),
            ("options.storageClass", "fast".to_owned()),
            ("options.sizeLimit", "1Gi".to_owned()),
        ] {
            let key = format!("spark.kubernetes.driver.volumes.persistentVolumeClaim.{volume}.{setting}");
            properties[key] = value.into();
        }
    }
    properties
}

/// Returns the application when its run is about to end, and the objects that were created for that run.
fn made(
    mut application: SparkApplication,
    submission_environment: &SubmissionEnvironment,
) -> (SparkApplication, Objects) {
    let run = Run::next(&application);
    let chosen =
        choose(&application, &run, submission_environment, &policy(), Timestamp::UNIX_EPOCH).unwrap();
    let By::Native(objects) = chosen.request.by else { panic!("{:?}", chosen.request.by) };
    let status = json!({
        "applicationState": {"state": "SUCCEEDING"}, "submissionID": run.id, "runOrdinal": run.ordinal,
        "driverInfo": {"podName": objects.pod["metadata"]["name"]},
    });
    application.status = Some(from_value(status).unwrap());
    (application, objects)
}

/// Returns the summary of the driver pod as the API server stores the pod.
fn driver(application: &SparkApplication, objects: &Objects) -> PodSummary {
    let mut pod: Pod = from_value(objects.pod.clone()).unwrap();
    pod.metadata.uid = Some("d1".to_owned());
    let record = PodSummary::of(&pod);
    assert!(record.is_controlled_by(application.metadata.uid.as_deref().unwrap()));
    record
}

/// Returns the objects that only this run uses and that the plan for `seen` does not delete. The claim with the user's
/// name is not among them, because other runs may use it.
fn left(application: &SparkApplication, objects: &Objects, seen: &Observed) -> Vec<ObjectKey> {
    let deleted = deleted(application, seen);
    let of_user = ObjectKind::PERSISTENT_VOLUME_CLAIM.named("data");
    let made = objects.children.iter().filter_map(ObjectKey::of).filter(|child| *child != of_user);
    made.filter(|child| !deleted.contains(child)).collect()
}

fn deleted(application: &SparkApplication, seen: &Observed) -> BTreeSet<ObjectKey> {
    let plan = next(application, seen, Timestamp::UNIX_EPOCH, &policy());
    let children = plan.actions.into_iter().map(|action| match action {
        Action::DeleteChildren(children) => children,
        other => panic!("{other:?}"),
    });
    children.flatten().collect()
}
