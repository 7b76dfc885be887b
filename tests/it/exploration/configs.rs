//! What is played through: applications, their admins, and how much may happen to each.

use super::{
    oracle::Setting,
    world::{Budget, Trouble},
};
use serde_json::{Value, json};
use spark_operator::{
    api::RestartPolicyType,
    plan::{Policy, submission::Submitter},
};

/// One exploration.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: &'static str,
    pub setting: Setting,
    pub restart: RestartPolicyType,
    pub budget: Budget,
    /// How many runs are followed.
    pub runs: u8,
    /// Whether somebody else's pod has the driver's name.
    pub is_taken: bool,
}

use RestartPolicyType::{Always, Never, OnFailure};
use Submitter::{Native, SparkSubmit};
use Trouble::{Crash, Deletion, Edit, Executor, Fault, Kill, NodeLoss, Orphan, Refusal, Rerun, Suspend};

const BY_USER: [(Trouble, u8); 4] = [(Edit, 2), (Suspend, 2), (Rerun, 1), (Deletion, 1)];
const FAULTS: [(Trouble, u8); 6] =
    [(Kill, 1), (NodeLoss, 1), (Crash, 1), (Fault, 1), (Refusal, 1), (Orphan, 1)];
/// A submission that outlives its operator, or its being ended, makes the driver of its run within the time that it
/// takes, whatever the next run calls its own: two drivers with two names for a moment. That is a limit, so it is not
/// among these.
const OF_RENAMED: [(Trouble, u8); 4] = [(Edit, 2), (Crash, 1), (Fault, 1), (Kill, 1)];
const WITH_EXECUTORS: [(Trouble, u8); 3] = [(Edit, 1), (Crash, 1), (Executor, 1)];
const RESUMED: [(Trouble, u8); 2] = [(Suspend, 3), (Refusal, 1)];
const LOST: [(Trouble, u8); 3] = [(NodeLoss, 1), (Edit, 1), (Suspend, 1)];
/// A driver is deleted before anybody has recorded it, and so made anew.
const ANEW: [(Trouble, u8); 3] = [(Kill, 1), (Crash, 1), (NodeLoss, 1)];

/// All of them, with so many troubles more than CI has the time for.
pub fn configs(more: u8) -> Vec<Config> {
    let everything = [&BY_USER[..], &FAULTS[..]].concat();
    let none = json!({});
    let by_user = Budget::new(2 + more, &BY_USER);
    let faults = Budget::new(2 + more, &FAULTS);
    let both = |count| Budget::new(count + more, &everything);
    let renamed = Budget::new(1 + more, &OF_RENAMED);
    let with_executors = Budget::new(1 + more, &WITH_EXECUTORS);
    let mut protected = config("protected driver", (Native, OnFailure), &none, both(1));
    protected.setting.policy.protects_driver_outcome = true;
    let ttl = json!({"timeToLiveSeconds": 60, "driverPodDisruptionBudget": true});
    let mut mortal = config("time to live and a disruption budget", (Native, Never), &ttl, both(1));
    mortal.setting.policy.has_driver_pdb = true;
    let mut renamed_natively = config("renamed driver", (Native, Never), &none, renamed);
    renamed_natively.setting.names = [0, 1];
    let mut renamed = config("renamed driver, by spark-submit", (SparkSubmit, Never), &none, renamed);
    renamed.setting.names = [0, 1];
    vec![
        Config {
            runs: 2,
            ..config("suspended and resumed", (Native, Never), &none, Budget::new(3, &RESUMED))
        },
        Config { runs: 2, ..config("lost node", (Native, Never), &none, Budget::new(2, &LOST)) },
        Config { runs: 1, ..config("driver made anew", (Native, Never), &none, Budget::new(3, &ANEW)) },
        config("faults", (Native, OnFailure), &none, faults),
        config("faults, by spark-submit", (SparkSubmit, OnFailure), &none, faults),
        config("user and faults", (Native, OnFailure), &none, both(1)),
        config("user and faults, by spark-submit", (SparkSubmit, OnFailure), &none, both(1)),
        Config { runs: 2, ..config("executors", (Native, OnFailure), &none, with_executors) },
        renamed_natively,
        renamed,
        Config { runs: 2 + more, ..config("started always", (Native, Always), &none, both(1)) },
        Config { is_taken: true, ..config("name that is taken", (Native, OnFailure), &none, both(1)) },
        protected,
        mortal,
        Config { runs: 2 + more, ..config("its user", (Native, Never), &none, by_user) },
    ]
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
            "type": "OnFailure",
            "onFailureRetries": 1,
            "onFailureRetryInterval": 10,
            "onSubmissionFailureRetries": 1,
            "onSubmissionFailureRetryInterval": 10,
        }),
        Always => json!({"type": "Always"}),
    };
    let mut fields = json!({"restartPolicy": policy});
    json_patch::merge(&mut fields, spec);
    let policy = Policy { submitter, ..Policy::new("k8s://https://10.96.0.1:443") };
    let setting = Setting { spec: fields, names: [0, 0], policy };
    Config { name, setting, restart, budget, runs: 3, is_taken: false }
}
