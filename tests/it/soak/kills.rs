//! Proves that no submission is lost or repeated if the operator is killed at random times.

use crate::apiserver::prelude::*;
use kube::{
    api::ObjectMeta,
    runtime::watcher::{self, Event, watcher},
};
use std::time::{SystemTime, UNIX_EPOCH};

const APPLICATIONS: usize = 40;
const KILLS: u32 = 30;
/// The time between two applications, so that a submission is under way whenever the operator is killed.
const PAUSE: Duration = Duration::from_millis(1200);
/// Maximum lifetime of an operator: time for its start and for one or two submissions.
const LIFE: Duration = Duration::from_millis(2500);
/// The pause in seconds between two requests of the stand-in for `spark-submit`, so that a kill often happens between
/// two requests.
const STAND_IN_PAUSE: &str = "0.2";

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn an_operator_killed_at_random_starts_one_driver_for_each_application() {
    let mut random = Random::from_environment();
    let seed = random.0;
    println!("soak: SOAK_SEED={seed}");
    let namespace = Namespace::new("soak-kills").await;
    let pods = Ever::follow::<Pod>(&namespace);
    let config_maps = Ever::follow::<ConfigMap>(&namespace);
    let _node =
        SubmissionNode::of(&namespace, &stand_in()).env("STAND_IN_PAUSE", STAND_IN_PAUSE).start().await;
    let operator = || Operator::with(&namespace).by_spark_submit();
    let names: Vec<_> = (0..APPLICATIONS).map(|i| format!("app-{i}")).collect();

    let made = async {
        for name in &names {
            let mut application = application(name);
            // While no operator runs, nothing answers for the webhook, and the API server refuses drivers: their
            // submissions are retried.
            application["spec"]["restartPolicy"] = json!({
                "type": "OnFailure", "onSubmissionFailureRetries": 100, "onSubmissionFailureRetryInterval": 1,
            });
            namespace.create::<SparkApplication>(&application).await;
            sleep(PAUSE).await;
        }
    };
    futures::join!(made, killed(&mut random, operator));

    let _operator = operator().start().await;
    let mut drivers = 0;
    let mut half_made = 0;
    let mut failed = 0;
    for name in &names {
        let submitted = namespace.reaches(name, "SUBMITTED").await;
        let status = &submitted["status"];
        assert_eq!(status["executionAttempts"], 1, "{name}: {status}");
        assert_eq!(status["submissionAttempts"], status["runOrdinal"], "{name}: {status}");
        failed += status["submissionAttempts"].as_u64().unwrap() - 1;
        let driver = namespace.pod(&format!("{name}-driver")).await.unwrap()["metadata"]["uid"].take();
        let (whole, half) = eventually(&format!("{name} has a complete driver"), async || {
            let all = pods.with(|pod| {
                let labels = pod.labels.as_ref().unwrap();
                labels["sparkoperator.k8s.io/app-name"] == *name && labels["spark-role"] == "driver"
            });
            // The ConfigMap with Spark's configuration is created last.
            let (whole, half): (Vec<_>, Vec<_>) = all.into_iter().partition(|uid| {
                let is_of_it = |map: &ObjectMeta| {
                    map.name.as_ref().unwrap().starts_with("spark-drv-")
                        && map.owner_references.iter().flatten().any(|owner| owner.uid == *uid)
                };
                !config_maps.with(is_of_it).is_empty()
            });
            seen(!whole.is_empty(), &half).map(|()| (whole, half))
        })
        .await;
        assert_eq!(json!(whole), json!([driver]), "{name}");
        drivers += whole.len();
        half_made += half.len();
    }
    println!(
        "soak: killed {KILLS} times: {APPLICATIONS} applications, {drivers} drivers, {half_made} half-made pods replaced, \
         {failed} submissions tried again (seed {seed})"
    );
    namespace.has_no_submission().await;
}

/// The same with native submission, and with ten times as many applications, since each takes only milliseconds.
#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn an_operator_killed_at_random_creates_every_object_once() {
    let mut random = Random::from_environment();
    let seed = random.0;
    println!("soak: SOAK_SEED={seed}");
    let namespace = Namespace::new("soak-native-kills").await;
    let (pods, services) = (Ever::follow::<Pod>(&namespace), Ever::follow::<Service>(&namespace));
    let config_maps = Ever::follow::<ConfigMap>(&namespace);
    let names: Vec<_> = (0..10 * APPLICATIONS).map(|i| format!("app-{i}")).collect();
    let made = async {
        for name in &names {
            namespace.create::<SparkApplication>(&application(name)).await;
            sleep(PAUSE / 10).await;
        }
    };
    futures::join!(made, killed(&mut random, || Operator::with(&namespace)));

    let _operator = Operator::start(&namespace).await;
    for name in &names {
        namespace.reaches_at_once(name, "SUBMITTED").await;
        let is_of_it = |metadata: &ObjectMeta| {
            metadata.labels.as_ref().is_some_and(|labels| labels["sparkoperator.k8s.io/app-name"] == *name)
        };
        let ever = || [&pods, &services, &config_maps].map(|kind| kind.with(is_of_it).len());
        eventually(&format!("{name} has all its objects"), async || {
            let all = ever();
            seen(all.iter().zip([1, 2, 2]).all(|(found, expected)| *found >= expected), all)
        })
        .await;
        assert_eq!(ever(), [1, 2, 2], "{name}: pods, Services and ConfigMaps that have ever existed");
    }
    println!("soak: killed {KILLS} times: {} applications, each object made once (seed {seed})", names.len());
}

/// Starts an operator again and again, and kills each after a random time.
async fn killed<'a>(random: &mut Random, operator: impl Fn() -> Setup<'a>) {
    for _ in 0..KILLS {
        let mut operator = operator().spawn();
        sleep(LIFE.mul_f64(random.next())).await;
        assert!(operator.is_running());
        operator.kill();
    }
}

/// All objects of a kind that ever existed, by uid.
struct Ever {
    objects: Arc<Mutex<BTreeMap<String, ObjectMeta>>>,
    /// The watch, which ends when this value is dropped.
    _following: AbortOnDropHandle<()>,
}

impl Ever {
    fn follow<K: Ours>(namespace: &Namespace) -> Self {
        let objects = Arc::new(Mutex::new(BTreeMap::new()));
        let seen = Arc::clone(&objects);
        let following = watcher(namespace.api::<K>(), watcher::Config::default()).for_each(move |event| {
            if let Event::Apply(object) | Event::InitApply(object) = event.unwrap() {
                seen.lock().unwrap().insert(object.uid().unwrap(), object.metadata);
            }
            std::future::ready(())
        });
        Self { objects, _following: AbortOnDropHandle::new(tokio::spawn(following)) }
    }

    /// Returns the uids of the objects that fulfil `condition`.
    fn with(&self, condition: impl Fn(&ObjectMeta) -> bool) -> Vec<String> {
        let objects = self.objects.lock().unwrap();
        objects.iter().filter(|(_, object)| condition(object)).map(|(uid, _)| uid.clone()).collect()
    }
}

/// A linear congruential generator (Knuth's MMIX), so that the same seed repeats nearly the same run.
struct Random(u64);

impl Random {
    /// Takes the seed from `SOAK_SEED`, or else from the clock.
    #[expect(clippy::disallowed_methods, reason = "another story each time")]
    fn from_environment() -> Self {
        let given = env::var("SOAK_SEED").ok().map(|seed| seed.parse().expect("SOAK_SEED is a number"));
        Self(given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()))
    }

    /// Returns a number from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 32).expect("32 bits are left")) / f64::from(u32::MAX)
    }
}
