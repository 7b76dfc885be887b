//! Starts an operator among many applications that are as large as the API server stores them, and measures its memory.

use crate::apiserver::prelude::*;
use procfs::process::Process;

const MANY: usize = 500;
/// Maximum memory of the operator, in KiB.
const MOST: u64 = 200 << 10;
/// Maximum length of an argument in the CRD, in characters.
const ARGUMENT: usize = 262_144;

/// In an earlier version, a list of such applications was one response of 750 MB, which was parsed several times.
#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn five_hundred_applications_of_the_largest_size_fit_into_memory() {
    let namespace = Namespace::new("soak-large").await;
    // With five arguments an application is too large to be read, with three it is read but too large to be kept.
    for arguments in [5, 3] {
        stream::iter(0..MANY)
            .for_each_concurrent(4, |i| {
                let mut large = application(&format!("large-{i}"));
                large["spec"]["arguments"] = json!(vec!["x".repeat(ARGUMENT - 1024); arguments]);
                // The operator creates nothing for a suspended application.
                large["spec"]["suspend"] = json!(true);
                let namespace = &namespace;
                async move { drop(namespace.create::<SparkApplication>(&large).await) }
            })
            .await;
        let operator = Operator::start(&namespace).await;
        let status = Process::new(i32::try_from(operator.id()).unwrap()).unwrap().status().unwrap();
        let peak = status.vmhwm.unwrap();
        println!(
            "soak: {MANY} applications of {} KiB each: the operator starts with {} MiB at most",
            arguments * ARGUMENT / 1024,
            peak / 1024
        );
        operator.stop().await;
        namespace.clear::<SparkApplication>().await;
        assert!(peak < MOST, "{peak} KiB");
    }
}
