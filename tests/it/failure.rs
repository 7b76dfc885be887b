//! Tests which cause of a failure the operator finds in the stderr of `spark-submit`. Each case was recorded with Spark
//! 4.0.1 and a real API server (status 429: a simulated API server), without the lines that name the machine.

use crate::prelude::*;
use spark_client::failure::{cause, is_driver_there};

#[test]
fn the_cause_is_reported_without_the_stack_trace() {
    for (case, expected) in yaml::<BTreeMap<String, String>>(&data("causes.yaml")) {
        assert_eq!(cause(&stderr(&case)), Some(expected), "{case}");
    }
}

#[test]
fn only_a_pod_of_the_drivers_name_means_that_the_driver_is_there() {
    let cases = fs::read_dir(data("spark-submit")).unwrap().map(|entry| entry.unwrap().path());
    let there: Vec<_> = cases.filter(|path| is_driver_there(&fs::read_to_string(path).unwrap())).collect();
    assert_eq!(there, [data("spark-submit/pod-exists.stderr")]);

    let quota =
        stderr("pod-exists").replace("kind=pods", "kind=resourcequotas").replace("AlreadyExists", "Conflict");
    assert!(!is_driver_there(&quota), "another 409 is a failure");
}

fn stderr(case: &str) -> String {
    fs::read_to_string(data(&format!("spark-submit/{case}.stderr"))).unwrap()
}
