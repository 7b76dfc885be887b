//! Measures how long applications in Kubernetes' own gangs take that are created at once, and how long the same
//! applications take without gangs if a client creates each one only when there is room for it.

use super::Results;
use crate::{
    apiserver::prelude::*,
    soak::gangs::{GANGS, apply, completed, with_room},
};

const APPLICATIONS: usize = 3 * GANGS;
const PAUSE: Duration = Duration::from_millis(500);

#[test]
#[ignore = "measures, on a node of Kubernetes 1.36 or later: make bench"]
fn gangs() {
    let _cluster = with_room();
    let mut results = Results::default();
    // The first application on a node takes longer.
    apply(1..=1, None);
    done(1);
    let at_once = measured(|| apply(1..=APPLICATIONS, Some("kubernetes")));
    let in_turn = measured(|| {
        for number in 1..=APPLICATIONS {
            done(number.saturating_sub(GANGS));
            apply(number..=number, None);
        }
    });
    results.put(&format!("gangs.kubernetes.all_done_s.{APPLICATIONS}"), at_once);
    results.put(&format!("gangs.kubernetes.per_minute.{APPLICATIONS}"), APPLICATIONS as f64 * 60.0 / at_once);
    results.put(&format!("gangs.in_turn.all_done_s.{APPLICATIONS}"), in_turn);
    results.put(&format!("gangs.kubernetes.over_in_turn.{APPLICATIONS}"), at_once / in_turn);
    results.finish();
}

/// Returns the seconds until all applications have completed.
fn measured(apply_all: impl FnOnce()) -> f64 {
    kubectl(&["delete", "sparkapplications", "--all"]);
    let begun = Instant::now();
    apply_all();
    done(APPLICATIONS);
    begun.elapsed().as_secs_f64()
}

/// Waits until `count` applications have completed.
fn done(count: usize) {
    let begun = Instant::now();
    while completed() < count {
        assert!(
            begun.elapsed() < Duration::from_secs(900),
            "{}",
            kubectl(&["get", "sparkapplications,pods"])
        );
        thread::sleep(PAUSE);
    }
}
