//! What do the driver and the executors say? Their Spark containers' output, whichever other containers stand beside them, and
//! through the driver's restarts.

use super::{
    cluster::Cluster,
    completion,
    failure::{Failure, of_call},
    show,
    wait::duration,
    waiting::Waiting,
};
use crate::api::{
    RunRecord, SparkApplication, State,
    names::{container, label, role},
};
use anyhow::bail;
use clap::Args;
use clap_complete::ArgValueCompleter;
use futures::{
    AsyncBufRead, AsyncBufReadExt, StreamExt,
    stream::{FuturesUnordered, LocalBoxStream},
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use std::{collections::BTreeSet, pin::pin, str::FromStr, time::Duration};
use tokio::time::sleep;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sparkctl log spark-pi --follow
  sparkctl log spark-pi --executor all --tail 20")]
pub(super) struct Flags {
    /// The application
    #[arg(add = ArgValueCompleter::new(completion::applications))]
    name: String,

    /// Of the executor with this number, or of `all`, instead of the driver's
    #[arg(short, long, value_name = "N|all")]
    executor: Option<Executors>,

    #[command(flatten)]
    how: How,
}

/// Which part of a log is shown.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct How {
    /// Go on as lines come, also in the driver of the next run, until the application has ended
    #[arg(short, long)]
    follow: bool,

    /// Of the run before the present one, what is kept of it in the status: its last words. Of an executor, of the
    /// container that stood in its pod before this one
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,

    /// Only what is younger than this, as in Go: `90s`, `30m`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// Only so many of the last lines
    #[arg(long, value_name = "LINES")]
    tail: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Executors {
    One(String),
    All,
}

impl How {
    /// All of it, to the application's end.
    pub(super) fn to_the_end() -> Self {
        Self { follow: true, ..Self::default() }
    }
}

impl FromStr for Executors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            number if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(Self::One(number.to_owned()))
            }
            _ => Err("is neither the number of an executor nor `all`".to_owned()),
        }
    }
}

/// How often it is looked for pods that are not there yet.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn log(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    match &flags.executor {
        None => of_driver(cluster, &flags.name, &flags.how).await,
        Some(which) => of_executors(cluster, &flags.name, which, &flags.how).await,
    }
}

/// The driver's output; with `--follow` that of each driver until the application has ended.
pub(super) async fn of_driver(cluster: &Cluster, name: &str, how: &How) -> anyhow::Result<()> {
    if how.previous {
        return show::print(&last_words(&cluster.application(name).await?, how)?);
    }
    let mut last = None;
    while let Some(driver) = next_driver(cluster, name, last.as_deref()).await? {
        if last.is_some() {
            show::complain(&format!("--- the next driver of {name} ---"));
        }
        let mut lines = pin!(lines(cluster, &driver, how).await?);
        while let Some(line) = lines.next().await {
            show::print_bytes(&line?)?;
        }
        if !how.follow {
            break;
        }
        last = driver.uid();
    }
    Ok(())
}

/// The end of the driver's log, if its pod is there and says anything to us.
pub(super) async fn last_lines(
    cluster: &Cluster,
    application: &SparkApplication,
    count: i64,
) -> Option<String> {
    let pods = cluster.api::<Pod>();
    let driver = application.status.as_ref()?.driver_info.pod_name.as_deref()?;
    let pod = pods.get_opt(driver).await.ok()??;
    let container = Some(spark_container(&pod));
    let parameters = LogParams { container, tail_lines: Some(count), ..LogParams::default() };
    pods.logs(driver, &parameters).await.ok().filter(|lines| !lines.is_empty())
}

/// What is kept of the run before the present one: its driver's pod is gone, and no container starts again in a driver's pod.
fn last_words(application: &SparkApplication, how: &How) -> anyhow::Result<String> {
    let name = application.name_any();
    let status = application.status.clone().unwrap_or_default();
    let is_before = |run: &&RunRecord| status.run_ordinal.is_some_and(|present| run.ordinal < present);
    let Some(run) = status.runs.iter().rfind(is_before) else {
        return Err(Failure::NotFound(format!("{name} has not run before its present run")).into());
    };
    let Some(words) = &run.message else {
        return Err(
            Failure::NotFound(format!("nothing is kept of what run {} of {name} said", run.ordinal)).into()
        );
    };
    let lines: Vec<_> = words.lines().collect();
    let wanted = how.tail.and_then(|tail| usize::try_from(tail).ok()).unwrap_or(lines.len());
    Ok(lines[lines.len().saturating_sub(wanted)..].iter().flat_map(|line| [line, "\n"]).collect())
}

/// Waits for a driver that has begun and is not the one with the uid `last`. None if there will be no other.
pub(super) async fn next_driver(
    cluster: &Cluster,
    name: &str,
    last: Option<&str>,
) -> anyhow::Result<Option<Pod>> {
    let mut waiting = Waiting::default();
    loop {
        let application = cluster.application(name).await?;
        let status = application.status.as_ref();
        let driver = status.and_then(|status| status.driver_info.pod_name.clone());
        let pods = cluster.api::<Pod>();
        let pod = match &driver {
            Some(driver) => pods.get_opt(driver).await.map_err(of_call)?,
            None => None,
        };
        let is_next = |pod: &Pod| last.is_none_or(|last| pod.uid().as_deref() != Some(last));
        if let Some(pod) = pod.filter(|pod| is_next(pod) && has_begun(pod)) {
            return Ok(Some(pod));
        }
        let state = application.state();
        if matches!(state, State::Completed | State::Failed | State::Suspended) && application.is_settled() {
            if last.is_some() {
                return Ok(None);
            }
            bail!("the driver of {name} is gone: the application is {}", show::name(state));
        }
        let why =
            status.and_then(|status| status.application_state.error_message.clone()).unwrap_or_default();
        waiting.say(&format!("waiting for the driver of {name}: {} {why}", show::name(state)));
        sleep(PAUSE).await;
    }
}

/// The output of executors. Where it is that of several, each line says whose it is.
async fn of_executors(cluster: &Cluster, name: &str, which: &Executors, how: &How) -> anyhow::Result<()> {
    let mut known = BTreeSet::new();
    let mut streams = FuturesUnordered::new();
    loop {
        let application = cluster.application(name).await?;
        let pods = executors(cluster, &application, which).await?;
        if pods.is_empty() && known.is_empty() && !how.follow {
            let which = match which {
                Executors::One(number) => format!("executor {number}"),
                Executors::All => "executors".to_owned(),
            };
            return Err(Failure::NotFound(format!("{name} has no {which} now")).into());
        }
        for pod in pods.into_iter().filter(has_begun) {
            if known.insert(pod.uid()) {
                let number = pod.labels().get(label::SPARK_EXEC_ID).cloned().unwrap_or_default();
                let prefix = if *which == Executors::All { format!("[{number}] ") } else { String::new() };
                let lines = lines(cluster, &pod, how).await?;
                let lines: LocalBoxStream<_> =
                    lines.map(move |line| line.map(|line| (prefix.clone(), line))).boxed_local();
                streams.push(lines.into_future());
            }
        }
        let has_ended = matches!(application.state(), State::Completed | State::Failed | State::Suspended);
        if streams.is_empty() && (!how.follow || has_ended) {
            return Ok(());
        }
        // Others may come.
        let mut look = pin!(sleep(4 * PAUSE));
        loop {
            tokio::select! {
                Some((line, rest)) = streams.next() => if let Some(line) = line {
                    let (prefix, line) = line?;
                    show::print_bytes(&[prefix.as_bytes(), &line].concat())?;
                    streams.push(rest.into_future());
                },
                () = &mut look => break,
                else => break,
            }
        }
        if streams.is_empty() {
            sleep(PAUSE).await;
        }
    }
}

/// The pods of the executors of the present run.
async fn executors(
    cluster: &Cluster,
    application: &SparkApplication,
    which: &Executors,
) -> anyhow::Result<Vec<Pod>> {
    let run = application.status.as_ref().and_then(|status| status.submission_id.clone()).unwrap_or_default();
    let mut labels = format!("{}={run},{}={}", label::SUBMISSION_ID, label::SPARK_ROLE, role::EXECUTOR);
    if let Executors::One(number) = which {
        labels = format!("{labels},{}={number}", label::SPARK_EXEC_ID);
    }
    let mut pods =
        cluster.api::<Pod>().list(&ListParams::default().labels(&labels)).await.map_err(of_call)?.items;
    let number =
        |pod: &Pod| pod.labels().get(label::SPARK_EXEC_ID).and_then(|number| number.parse::<u64>().ok());
    pods.sort_by_key(number);
    Ok(pods)
}

/// The lines of a pod's Spark container, each with its end.
async fn lines(
    cluster: &Cluster,
    pod: &Pod,
    how: &How,
) -> anyhow::Result<impl futures::Stream<Item = anyhow::Result<Vec<u8>>> + use<>> {
    let parameters = LogParams {
        container: Some(spark_container(pod)),
        follow: how.follow,
        previous: how.previous,
        since_seconds: how.since.and_then(|since| since.as_secs().try_into().ok()),
        tail_lines: how.tail,
        ..LogParams::default()
    };
    let pods: Api<Pod> = cluster.api();
    let stream = pods.log_stream(&pod.name_any(), &parameters).await.map_err(of_call)?;
    Ok(futures::stream::unfold(Box::pin(stream), next_line))
}

async fn next_line<R: AsyncBufRead + Unpin>(mut stream: R) -> Option<(anyhow::Result<Vec<u8>>, R)> {
    let mut line = Vec::new();
    match stream.read_until(b'\n', &mut line).await {
        Ok(0) => None,
        Ok(_) => Some((Ok(line), stream)),
        Err(error) => Some((Err(anyhow::anyhow!("the log has broken off: {error}")), stream)),
    }
}

/// The container that Spark runs in: the one that it calls so, else the first.
fn spark_container(pod: &Pod) -> String {
    let containers = || pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| &container.name);
    let is_sparks = |name: &&String| {
        [container::DRIVER, container::EXECUTOR, container::EXECUTOR_SPARK_2].contains(&name.as_str())
    };
    containers().find(is_sparks).or(containers().next()).cloned().unwrap_or_default()
}

/// Whether there is a log to read.
fn has_begun(pod: &Pod) -> bool {
    let name = spark_container(pod);
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let has_run = |status: &ContainerStatus| {
        let is_now = |state: &k8s_openapi::api::core::v1::ContainerState| {
            state.running.is_some() || state.terminated.is_some()
        };
        status.state.as_ref().is_some_and(is_now) || status.last_state.as_ref().is_some_and(is_now)
    };
    statuses.into_iter().any(|status| status.name == name && has_run(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn the_log_is_sparks_also_beside_sidecars() {
        let pod = |containers: &[&str], begun: &[&str]| -> Pod {
            let state = |name: &&str| json!({"name": name, "state": {"running": {}}, "image": "", "imageID": "", "ready": true, "restartCount": 0});
            from_value(json!({
                "spec": {"containers": containers.iter().map(|name| json!({"name": name})).collect::<Vec<Value>>()},
                "status": {"containerStatuses": begun.iter().map(state).collect::<Vec<Value>>()},
            }))
            .unwrap()
        };
        let driver = pod(&["istio-proxy", "spark-kubernetes-driver"], &["istio-proxy"]);
        assert_eq!(spark_container(&driver), "spark-kubernetes-driver");
        assert!(!has_begun(&driver));
        let own_name = pod(&["main", "istio-proxy"], &["main"]);
        assert_eq!(spark_container(&own_name), "main");
        assert!(has_begun(&own_name));
    }

    #[test]
    fn of_a_run_that_is_over_there_are_its_last_words() {
        let words = |runs: Value, tail| {
            let application = from_value(json!({
                "metadata": {"name": "pi"},
                "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
                "status": {"applicationState": {"state": "RUNNING"}, "driverInfo": {}, "runOrdinal": 3, "runs": runs},
            }));
            last_words(&application.unwrap(), &How { tail, ..How::default() })
                .map_err(|error| error.to_string())
        };
        let runs = json!([{"ordinal": 1, "message": "first"}, {"ordinal": 2, "message": "no\nluck"}, {"ordinal": 3, "message": "not yet"}]);
        assert_eq!(words(runs.clone(), None).unwrap(), "no\nluck\n");
        assert_eq!(words(runs, Some(1)).unwrap(), "luck\n");
        assert_eq!(
            words(json!([{"ordinal": 3}]), None).unwrap_err(),
            "pi has not run before its present run"
        );
        let silent = json!([{"ordinal": 2}]);
        assert_eq!(words(silent, None).unwrap_err(), "nothing is kept of what run 2 of pi said");
    }

    #[test]
    fn executors_are_numbers_or_all() {
        assert_eq!("7".parse(), Ok(Executors::One("7".to_owned())));
        assert_eq!("all".parse(), Ok(Executors::All));
        for odd in ["", "-1", "All", "1,2"] {
            assert!(odd.parse::<Executors>().is_err(), "{odd}");
        }
    }
}
