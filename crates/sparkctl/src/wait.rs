//! `sparkctl wait`: waits until applications are in the wanted state. For pipelines: one exit code when they are, and
//! another when they never will be.

use super::{
    cluster::Cluster,
    completion,
    failure::{Failure, of_client},
    names, show,
};
use api::{SparkApplication, State};
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use cron::go_duration;
use futures::{StreamExt, future::try_join_all};
use spark_operator_client::{self as client, Applications};
use std::{cell::RefCell, collections::BTreeMap, time::Duration};
use tokio::time::timeout;

#[derive(Debug, Args)]
#[command(
    after_help = "Example: sparkctl wait spark-pi --for=completed --timeout=30m || sparkctl log spark-pi"
)]
pub(super) struct Flags {
    /// The applications
    #[arg(required = true, value_name = "NAME", value_parser = names::application, add = ArgValueCompleter::new(completion::applications))]
    names: Vec<String>,

    /// The state to wait for
    #[arg(long = "for", value_name = "STATE", value_enum, default_value_t = Aim::Completed)]
    aim: Aim,

    /// The maximum time, in the notation of Go: `90s`, `30m`, `1h30m` [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Aim {
    /// The driver is running, or the application has completed; fails if the application has failed
    Running,
    /// The application has completed; fails if it has failed and is not retried
    Completed,
    /// The application has failed and is not retried; fails if it has completed
    Failed,
    /// The application has completed, or has failed and is not retried
    Ended,
    /// The application is suspended, and its pods are deleted; fails if it has completed or failed
    Suspended,
    /// There is no such application
    Deleted,
}

impl Aim {
    /// Returns the word by which the flag names it.
    fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// How far an application is from the wanted state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    There,
    OnItsWay,
    /// The application will not reach the wanted state by itself.
    Never,
}

pub(super) async fn wait(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let unknown = |name: &String| (name.clone(), format!("the API server has not returned {name} yet"));
    let late = RefCell::new(flags.names.iter().map(unknown).collect());
    let all = try_join_all(flags.names.iter().map(|name| one(cluster, name, flags.aim, &late)));
    let all = async { all.await.map(drop) };
    match flags.timeout {
        None => all.await,
        Some(limit) => timeout(limit, all).await.unwrap_or_else(|_| {
            let late = flags.names.iter().filter_map(|name| late.borrow().get(name).cloned());
            let (late, aim) = (late.collect::<Vec<_>>().join(", "), flags.aim.word());
            Err(Failure::TimedOut(format!("not {aim} within {limit:?}: {late}")).into())
        }),
    }
}

/// Waits for an application's end. Returns an error if the application has not completed successfully.
pub(super) async fn ended_well(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    one(cluster, name, Aim::Completed, &RefCell::default()).await
}

/// Waits for one application. Until it reaches `aim`, `late` has a description of its state, for the message of a
/// timeout.
async fn one(
    cluster: &Cluster,
    name: &str,
    aim: Aim,
    late: &RefCell<BTreeMap<String, String>>,
) -> anyhow::Result<()> {
    let reached = || {
        late.borrow_mut().remove(name);
        show::complain(&format!("{name} is {}", aim.word()));
        Ok(())
    };
    let mut changes = Applications::new(cluster.client.clone(), &*cluster.namespace).changes(name);
    while let Some(change) = changes.next().await {
        let application = match change {
            Err(client::Error::NotFound { .. }) if aim == Aim::Deleted => break,
            change => change.map_err(of_client)?,
        };
        let unseen = ", and the operator has not reconciled the newest spec or rerun request";
        let asked = if application.is_settled() { "" } else { unseen };
        let state = show::name(application.state());
        late.borrow_mut().insert(name.to_owned(), format!("{name} is {state}{asked}"));
        match reach(&application, aim) {
            Reach::There => return reached(),
            Reach::OnItsWay => {}
            Reach::Never => {
                let why = show::state_and_why(&application);
                return Err(Failure::Ended(format!("SparkApplication {name} is {why}")).into());
            }
        }
    }
    if aim == Aim::Deleted {
        return reached();
    }
    Err(Failure::NotFound(format!("SparkApplication {name} was deleted")).into())
}

fn reach(application: &SparkApplication, aim: Aim) -> Reach {
    let state = application.state();
    if !application.is_settled() {
        return Reach::OnItsWay;
    }
    match (aim, state) {
        (Aim::Completed | Aim::Ended | Aim::Running, State::Completed)
        | (Aim::Failed | Aim::Ended, State::Failed)
        | (Aim::Running, State::Running | State::Succeeding)
        | (Aim::Suspended, State::Suspended) => Reach::There,
        (Aim::Deleted, _) => Reach::OnItsWay,
        (_, State::Completed | State::Failed) => Reach::Never,
        _ => Reach::OnItsWay,
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let nanoseconds = go_duration::nanoseconds(text).and_then(|length| u64::try_from(length).ok());
    nanoseconds.map(Duration::from_nanos).ok_or_else(|| "is not a duration (try `90s` or `30m`)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};
    use std::collections::BTreeMap;

    #[test]
    fn each_state_has_reached_an_aim_or_may_reach_it_or_never_will() {
        let application = |state: State, metadata: Value| -> SparkApplication {
            from_value(json!({
                "metadata": metadata,
                "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
                "status": {"applicationState": {"state": state}, "driverInfo": {}, "observedGeneration": 1, "lastRerun": "a"},
            }))
            .unwrap()
        };
        let told = |aim| {
            State::ALL.map(|state| match reach(&application(state, json!({"generation": 1})), aim) {
                Reach::There => '+',
                Reach::OnItsWay => '.',
                Reach::Never => '-',
            })
        };
        let told = |aim| BTreeMap::from_iter(State::ALL.map(show::name).into_iter().zip(told(aim)));
        let those = |aim, mark| {
            told(aim).into_iter().filter(|(_, told)| *told == mark).map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(those(Aim::Completed, '+'), ["COMPLETED"]);
        assert_eq!(those(Aim::Completed, '-'), ["FAILED"]);
        assert_eq!(those(Aim::Failed, '+'), ["FAILED"]);
        assert_eq!(those(Aim::Failed, '-'), ["COMPLETED"]);
        assert_eq!(those(Aim::Ended, '+'), ["COMPLETED", "FAILED"]);
        assert_eq!(those(Aim::Running, '+'), ["COMPLETED", "RUNNING", "SUCCEEDING"]);
        assert_eq!(those(Aim::Suspended, '-'), ["COMPLETED", "FAILED"]);
        assert!(those(Aim::Deleted, '.').len() == State::ALL.len());

        for unsettled in [
            json!({"generation": 2}),
            json!({"generation": 1, "annotations": {"sparkoperator.k8s.io/rerun": "b"}}),
        ] {
            assert_eq!(reach(&application(State::Failed, unsettled), Aim::Completed), Reach::OnItsWay);
        }
    }
}
