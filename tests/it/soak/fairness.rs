//! Measures how long a tenant's application waits for its driver beside another tenant who creates as much work as
//! possible.

use crate::apiserver::prelude::*;
use futures::{FutureExt, stream};
use std::future::pending;
use tokio::select;

const BUSY: &str = "turns-busy";
const OTHER: &str = "turns-other";
/// How many times as long the other tenant may wait. `TRIES` is the number of measurements beside each source of work.
const TIMES: u32 = 10;
const TRIES: usize = 5;

#[tokio::test]
#[ignore = "takes long: make soak"]
async fn a_tenant_waits_at_most_ten_times_as_long_beside_another_one() {
    let namespace = Namespace::new(BUSY).await;
    let client = Client::try_default().await.unwrap();
    calls::make_namespace(OTHER);
    let _operator = Operator::with(&namespace).argument("--submitter=native").start().await;
    longest(&client, "first").await;
    let alone = longest(&client, "alone").await;
    println!("soak: alone, a driver is there after {alone:?} at most");
    for (what, objects, meanwhile) in [
        ("1,000 applications", applications(), Meanwhile::Nothing),
        ("60 schedules", schedules(), Meanwhile::Nothing),
        ("edits", claims(), Meanwhile::Nothing),
        ("300 exposed UIs", exposed(), Meanwhile::Nothing),
        ("300 SparkConnects", connects(), Meanwhile::Nothing),
        ("deletions", claims(), Meanwhile::Deletions),
        ("poison", poison(), Meanwhile::Nothing),
        ("reviews", Vec::new(), Meanwhile::Reviews),
    ] {
        stream::iter(&objects)
            .for_each_concurrent(16, |object| calls::applied(&client, object, Some(BUSY)))
            .await;
        // The names are new ones each time, since nothing in this cluster deletes the objects of deleted applications.
        let name = what.split(' ').next_back().unwrap_or_default().to_lowercase();
        let beside = select! {
            beside = longest(&client, &name) => beside,
            () = meanwhile.goes_on(&client) => unreachable!("this work does not end"),
        };
        println!("soak: beside {what} of another tenant, after {beside:?} at most");
        // A machine that is busy makes the API server as slow as the operator.
        assert!(
            beside.driver <= TIMES * alone.driver.max(alone.config_map * 2) * beside.slowdown(&alone),
            "{what}"
        );
        calls::delete_all::<api::ScheduledSparkApplication>(&client, BUSY).await;
        calls::delete_all::<api::SparkApplication>(&client, BUSY).await;
        calls::delete_all::<api::SparkConnect>(&client, BUSY).await;
        calls::delete_all::<Pod>(&client, BUSY).await;
        sleep(Duration::from_secs(20)).await;
    }
}

/// The busy tenant's work while the other one waits.
enum Meanwhile {
    Nothing,
    Deletions,
    /// Sends reviews of large applications (dry runs), several at a time.
    Reviews,
}

impl Meanwhile {
    async fn goes_on(&self, client: &Client) {
        match self {
            Self::Nothing => {}
            Self::Deletions => calls::delete_all::<api::SparkApplication>(client, BUSY).await,
            Self::Reviews => {
                let mut large = application("large");
                large["metadata"]["namespace"] = json!(BUSY);
                large["spec"]["arguments"] = vec!["a".repeat(1000); 600].into();
                stream::repeat(())
                    .for_each_concurrent(8, |()| calls::is_tried(client, &large).map(drop))
                    .await;
            }
        }
        pending().await
    }
}

/// The longest times until a driver and until a ConfigMap existed.
#[derive(Debug)]
struct Waited {
    driver: Duration,
    config_map: Duration,
}

impl Waited {
    fn slowdown(&self, alone: &Self) -> u32 {
        u32::try_from((self.config_map.as_millis() / alone.config_map.as_millis().max(1)).max(1)).unwrap()
    }
}

async fn longest(client: &Client, name: &str) -> Waited {
    let mut longest = Waited { driver: Duration::ZERO, config_map: Duration::ZERO };
    let pods = Api::<Pod>::namespaced(client.clone(), OTHER);
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), OTHER);
    for i in 0..TRIES {
        let begun = Instant::now();
        let empty = serde_json::from_value(json!({"metadata": {"generateName": "turns-"}})).unwrap();
        config_maps.create(&PostParams::default(), &empty).await.unwrap();
        longest.config_map = longest.config_map.max(begun.elapsed());
        let begun = Instant::now();
        let name = format!("{name}-{i}");
        calls::applied(client, &application(&name), Some(OTHER)).await;
        while pods.get_metadata_opt(&format!("{name}-driver")).await.unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no driver after a minute");
            sleep(Duration::from_millis(5)).await;
        }
        longest.driver = longest.driver.max(begun.elapsed());
        calls::delete_all::<api::SparkApplication>(client, OTHER).await;
        pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default())
            .await
            .unwrap();
    }
    longest
}

fn applications() -> Vec<Value> {
    (0..1000).map(|i| application(&format!("busy-{i}"))).collect()
}

fn schedules() -> Vec<Value> {
    // Their concurrencyPolicy is Allow by default.
    (0..60).map(|i| scheduled(&format!("busy-{i}"), "@every 1s", &application("busy"))).collect()
}

/// Applications that want a Service of their own and an Ingress each.
fn exposed() -> Vec<Value> {
    let exposed = |i: usize| {
        let mut application = application(&format!("busy-{i}"));
        application["spec"]["sparkUIOptions"] =
            json!({"serviceType": "ClusterIP", "ingressAnnotations": {"a": "b"}});
        application
    };
    (0..300).map(exposed).collect()
}

fn connects() -> Vec<Value> {
    (0..300).map(|i| connect(&format!("busy-{i}"))).collect()
}

/// Pods that look like the operator's and have more values than it reads.
fn poison() -> Vec<Value> {
    let sources = json!({"name": "v", "projected": {"sources": vec![json!({}); 100_000]}});
    let pod = |i: usize| {
        let name = format!("busy-{i}");
        let mut pod = plain_pod(&json!({"name": name, "labels": {
            "sparkoperator.k8s.io/launched-by-spark-operator": "true", "sparkoperator.k8s.io/app-name": name,
        }}));
        pod["spec"]["volumes"] = json!([sources]);
        pod
    };
    (0..50).map(pod).collect()
}

/// Applications with hundreds of volume claims on demand, applied and edited.
fn claims() -> Vec<Value> {
    let with_claims = |i: usize, argument: &str| {
        let mut application = application(&format!("busy-{i}"));
        let volumes = (0..300).flat_map(|volume| {
            let prefix = format!("spark.kubernetes.driver.volumes.persistentVolumeClaim.v{volume}");
            [
                (format!("{prefix}.options.claimName"), json!("OnDemand")),
                (format!("{prefix}.options.sizeLimit"), json!("1Gi")),
                (format!("{prefix}.options.storageClass"), json!("none")),
                (format!("{prefix}.mount.path"), json!(format!("/v{volume}"))),
            ]
        });
        application["spec"]["sparkConf"] = volumes.collect::<serde_json::Map<_, _>>().into();
        application["spec"]["arguments"] = json!([argument]);
        application
    };
    ["1", "2"].into_iter().flat_map(|argument| (0..12).map(move |i| with_claims(i, argument))).collect()
}
