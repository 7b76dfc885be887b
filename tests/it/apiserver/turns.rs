//! Proves that every application is reconciled regularly under a load that does not end.

use crate::apiserver::prelude::*;
use futures::future::join_all;

const APPLICATIONS: usize = 20;
/// The duration of a reconcile. One worker cannot reconcile all applications as often as they change.
const LOOK: Duration = Duration::from_millis(50);
/// The time between two changes of each application.
const CHANGE: Duration = Duration::from_millis(250);
/// Enough time for five reconciles of each application.
const LOAD: Duration = Duration::from_secs(5);

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn every_application_has_its_turn_under_a_load_that_does_not_end() {
    let namespace = Namespace::new("turns").await;
    let proxy = Proxy::start().await;
    let looks = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let counted = Arc::clone(&looks);
    proxy.guarded_by(Box::new(move |request| {
        let driver = request.uri().path().strip_prefix("/api/v1/namespaces/turns/pods/");
        let Some(driver) = driver.filter(|_| request.method() == Method::GET) else { return Vec::new() };
        *counted.lock().unwrap().entry(driver.to_owned()).or_default() += 1;
        vec![Fault::Late(LOOK)]
    }));
    let names: Vec<_> = (0..APPLICATIONS).map(|i| format!("app-{i}")).collect();
    for name in &names {
        namespace.create::<SparkApplication>(&application(name)).await;
        // The driver does not exist yet, so the operator looks for it in each reconcile.
        let submitted = json!({
            "applicationState": {"state": "SUBMITTED"}, "driverInfo": {}, "submissionID": name,
            "lastSubmissionAttemptTime": now().to_string(),
        });
        namespace.patch_status::<SparkApplication>(name, &submitted).await;
    }
    let setup = Operator::with(&namespace).through(&proxy).argument("--controller-threads=1");
    let _operator = setup.argument("--driver-pod-creation-grace-period=10m").start().await;
    eventually("each was looked at", async || {
        let looks = looks.lock().unwrap();
        seen(looks.len() == APPLICATIONS, &looks)
    })
    .await;

    looks.lock().unwrap().clear();
    let begun = Instant::now();
    let changed = names.iter().map(async |name| {
        let applications = namespace.api::<SparkApplication>();
        for i in 0.. {
            if begun.elapsed() > LOAD {
                break;
            }
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"change": i.to_string()}}}));
            applications.patch(name, &PatchParams::default(), &patch).await.unwrap();
            sleep(CHANGE).await;
        }
    });
    join_all(changed).await;

    let looks = looks.lock().unwrap();
    let (least, most) = (looks.values().min(), looks.values().max());
    assert!(looks.len() == APPLICATIONS && most.unwrap() - least.unwrap() <= 2, "{looks:?}");
}
