//! Lists the explorations: for each, an application, the operator's settings, and how much may happen.

use super::{oracle::Setting, world::*};
use api::RestartPolicyType;
use batch_schedulers::BatchSchedulers;
use plan::{Policy, extension::only, submission_plan::Submitter};
use serde_json::{Value, json};

/// One exploration.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: &'static str,
    pub setting: Setting,
    pub restart: RestartPolicyType,
    pub budget: Budget,
    /// The number of runs that are explored.
    pub runs: u8,
    /// Whether a pod of another owner has the driver's name.
    pub is_taken: bool,
}

use RestartPolicyType::{Always, Never, OnFailure};
use Submitter::{Native, SparkSubmit};
use Trouble::{
    Closure, Crash, Deletion, Edit, Eviction, Executor, Fault, Hold, Kill, NodeLoss, Orphan, Refusal, Rerun,
    Suspend,
};

const BY_USER: [(Trouble, u8); 4] = [(Edit, 2), (Suspend, 2), (Rerun, 1), (Deletion, 1)];
const FAULTS: [(Trouble, u8); 6] =
    [(Kill, 1), (NodeLoss, 1), (Crash, 1), (Fault, 1), (Refusal, 1), (Orphan, 1)];
const OF_RENAMED: [(Trouble, u8); 4] = [(Edit, 2), (Crash, 1), (Fault, 1), (Kill, 1)];
/// Does not include `Orphan`, which would show a known limit: a `spark-submit` that outlives its pod still makes the
/// driver of its run, even if the next run has another name for its driver, so that two drivers with two names exist
/// for a moment.
const OF_RENAMED_BY_POD: [(Trouble, u8); 5] = [(Edit, 2), (Crash, 1), (Fault, 1), (Kill, 1), (Eviction, 1)];
const FAULTS_OF_PODS: [(Trouble, u8); 5] = [(Kill, 1), (Crash, 1), (Refusal, 1), (Orphan, 1), (Eviction, 1)];
const BY_USER_OF_PODS: [(Trouble, u8); 2] = [(Edit, 1), (Suspend, 2)];
/// Troubles of a submission pod that starts late or never, and whose outcome is read while a sidecar runs on.
const OF_PODS_WITH_SIDECAR: [(Trouble, u8); 7] =
    [(Hold, 1), (Eviction, 1), (Refusal, 1), (Crash, 1), (Kill, 1), (Suspend, 1), (Edit, 1)];
const CLOSED: [(Trouble, u8); 1] = [(Closure, 1)];
const TAKEN: [(Trouble, u8); 5] = [(Kill, 1), (Crash, 1), (Refusal, 1), (Eviction, 1), (Edit, 1)];
const WITH_EXECUTORS: [(Trouble, u8); 3] = [(Edit, 1), (Crash, 1), (Executor, 1)];
const RESUMED: [(Trouble, u8); 2] = [(Suspend, 3), (Refusal, 1)];
/// With the last three, there are seven million worlds.
const QUEUED: [(Trouble, u8); 5] = [(Suspend, 2), (Refusal, 1), (Executor, 1), (Kill, 1), (Crash, 1)];
const GROUPED: [(Trouble, u8); 7] =
    [(Edit, 1), (Suspend, 2), (Kill, 1), (NodeLoss, 1), (Crash, 1), (Fault, 1), (Refusal, 1)];
const GROUPED_BY_POD: [(Trouble, u8); 6] =
    [(Edit, 1), (Suspend, 2), (Kill, 1), (Crash, 1), (Refusal, 1), (Eviction, 1)];
const PARTIAL: [(Trouble, u8); 5] = [(Edit, 2), (Suspend, 1), (Kill, 1), (Crash, 1), (Fault, 1)];
const LOST: [(Trouble, u8); 3] = [(NodeLoss, 1), (Edit, 1), (Suspend, 1)];
/// Troubles after which a driver is deleted before its run is recorded, and is therefore created again.
const ANEW: [(Trouble, u8); 3] = [(Kill, 1), (Crash, 1), (NodeLoss, 1)];

/// Returns all explorations. `more` is the number of additional troubles, for which CI has no time.
pub fn configs(more: u8) -> Vec<Config> {
    [natively(more), by_pod(more)].concat()
}

fn natively(more: u8) -> Vec<Config> {
    let everything = [&BY_USER[..], &FAULTS[..]].concat();
    let none = json!({});
    // For pairs with a deletion, after which nothing begins, CI has no time.
    let by_user = Budget::new(2 + more, if more == 0 { &BY_USER[..3] } else { &BY_USER });
    let faults = Budget::new(2 + more, &FAULTS);
    let both = |count| Budget::new(count + more, &everything);
    let renamed = Budget::new(1 + more, &OF_RENAMED);
    let with_executors = Budget::new(1 + more, &WITH_EXECUTORS);
    let mut protected = config("protected driver", (Native, OnFailure), &none, both(1));
    protected.setting.policy.protects_driver_outcome = true;
    let ttl = json!({"timeToLiveSeconds": 60, "driverPodDisruptionBudget": true});
    let mut mortal = config("time to live and a disruption budget", (Native, Never), &ttl, both(1));
    mortal.setting.policy.has_driver_pdb = true;
    let mut grouped = config(
        "in a group",
        (Native, OnFailure),
        &json!({"batchScheduler": "volcano"}),
        Budget::new(1 + more, &GROUPED),
    );
    grouped.setting.policy.extensions = only(BatchSchedulers::default());
    let mut renamed_natively = config("renamed driver", (Native, Never), &none, renamed);
    renamed_natively.setting.names = [0, 1, 0];
    let mut partial = config("partial restart", (Native, Never), &none, Budget::new(2 + more, &PARTIAL));
    partial.setting.policy.partial_restart = true;
    let troubles = if more == 0 { &QUEUED[..2] } else { &QUEUED };
    let mut queued = config("in a queue of Kueue", (Native, OnFailure), &none, Budget::new(2, troubles));
    queued.setting.is_queued = true;
    vec![
        Config { runs: 2, ..queued },
        Config { runs: 2, ..partial },
        Config {
            runs: 2,
            ..config("suspended and resumed", (Native, Never), &none, Budget::new(3, &RESUMED))
        },
        Config { runs: 2, ..config("lost node", (Native, Never), &none, Budget::new(2, &LOST)) },
        Config { runs: 1, ..config("driver made anew", (Native, Never), &none, Budget::new(3, &ANEW)) },
        config("faults", (Native, OnFailure), &none, faults),
        config(
            "user and faults",
            (Native, OnFailure),
            &none,
            Budget::new(1 + more, &beside(&everything, &FAULTS, more)),
        ),
        Config { runs: 2, ..config("executors", (Native, OnFailure), &none, with_executors) },
        renamed_natively,
        Config { runs: 2, ..grouped },
        Config { runs: 2 + more, ..config("started always", (Native, Always), &none, both(1)) },
        Config {
            runs: 2 + more,
            is_taken: true,
            ..config("name that is taken", (Native, OnFailure), &none, both(1))
        },
        Config { runs: 2 + more, ..protected },
        mortal,
        Config { runs: 2 + more, ..config("its user", (Native, Never), &none, by_user) },
    ]
}

/// Returns the explorations in which applications are submitted by `spark-submit`, in submission pods.
fn by_pod(more: u8) -> Vec<Config> {
    let everything = [&BY_USER[..], &FAULTS[..], &[(Eviction, 1)]].concat();
    let of = |name, restart, count, troubles: &[(Trouble, u8)]| Config {
        runs: 2,
        ..config(name, (SparkSubmit, restart), &json!({}), Budget::new(count + more, troubles))
    };
    let mut renamed = of("renamed driver, by spark-submit", Never, 1, &OF_RENAMED_BY_POD);
    renamed.setting.names = [0, 1, 0];
    let mut grouped = of("in a group, by spark-submit", OnFailure, 1, &GROUPED_BY_POD);
    grouped.setting.spec["batchScheduler"] = json!("volcano");
    grouped.setting.policy.extensions = only(BatchSchedulers::default());
    let mut with_sidecar = of("submission pods with a sidecar", Never, 1, &OF_PODS_WITH_SIDECAR);
    with_sidecar.setting.has_sidecar = true;
    with_sidecar.setting.has_messages = true;
    let mut taken = of("name of a submission pod that is taken", OnFailure, 1, &everything);
    taken.setting.has_foreign_submission_pod = true;
    let mut all = vec![
        of("faults, by spark-submit", OnFailure, 2, &FAULTS_OF_PODS),
        of("user and faults, by spark-submit", OnFailure, 1, &beside(&everything, &FAULTS_OF_PODS, more)),
        of("its user, by spark-submit", Never, if more > 0 { 2 } else { 1 }, &BY_USER_OF_PODS),
        renamed,
        with_sidecar,
        Config { runs: 3, ..taken },
        Config {
            is_taken: true,
            ..of("name of a driver that is taken, by spark-submit", OnFailure, 1, &TAKEN)
        },
        // CI has no time for retries in such a namespace.
        of("namespace that is deleted", if more > 0 { OnFailure } else { Never }, 1, &CLOSED),
    ];
    // CI explores the group of a driver that the operator makes itself; this one takes as long as ten others.
    if more > 0 {
        all.push(grouped);
    }
    all
}

/// Returns the troubles of an exploration beside one of the same application that has the troubles `known` in pairs: CI
/// explores the other ones. A submission that outlives its operator stays, since it excuses some states.
fn beside(all: &[(Trouble, u8)], known: &[(Trouble, u8)], more: u8) -> Vec<(Trouble, u8)> {
    let is_left = |trouble: &(Trouble, u8)| more > 0 || trouble.0 == Orphan || !known.contains(trouble);
    all.iter().copied().filter(is_left).collect()
}

fn config(
    name: &'static str,
    (submitter, restart): (Submitter, RestartPolicyType),
    spec: &Value,
    budget: Budget,
) -> Config {
    let policy = match restart {
        Never => json!({"type": "Never"}),
        OnFailure => json!({
            "type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 10,
            "onSubmissionFailureRetries": 1, "onSubmissionFailureRetryInterval": 10,
        }),
        Always => json!({"type": "Always"}),
    };
    let mut fields = json!({"restartPolicy": policy});
    json_patch::merge(&mut fields, spec);
    let policy = Policy { submitter, ..Policy::new("k8s://https://10.96.0.1:443") };
    let setting = Setting {
        spec: fields,
        names: [0; SPECS],
        policy,
        is_queued: false,
        has_sidecar: false,
        has_messages: false,
        has_foreign_submission_pod: false,
    };
    Config { name, setting, restart, budget, runs: 3, is_taken: false }
}
