//! `sparkctl log`: prints the output of the Spark containers of the driver and the executors. Other containers of the
//! pods, such as sidecars, are left out; with --follow the output continues through restarts of the driver. `sparkctl
//! connect log` does the same with a server of Spark Connect.

mod output;
mod pods;

use super::{
    cluster::Cluster,
    completion,
    failure::{Failure, of_call},
    names, show,
    wait::duration,
    waiting::Waiting,
};
use anyhow::bail;
use api::{RunRecord, SparkApplication, SparkConnect, names::label, spark_container_of};
use clap::Args;
use clap_complete::ArgValueCompleter;
use futures::{StreamExt, TryStreamExt, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::{ResourceExt, api::ListParams};
use output::lines;
use pods::Facts;
pub(super) use pods::Whose;
use spark_operator_client::patience::{GRACE, Patience, can_pass, in_time};
use std::{
    collections::{BTreeSet, VecDeque},
    pin::pin,
    str::FromStr,
    time::Duration,
};
use tokio::time::sleep;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sparkctl log spark-pi --follow
  sparkctl log spark-pi --executor all --tail 20")]
pub(super) struct Flags {
    /// The application
    #[arg(value_parser = names::application, add = ArgValueCompleter::new(completion::applications))]
    name: String,

    #[command(flatten)]
    what: What,
}

/// Which logs are shown.
#[derive(Debug, Args)]
pub(super) struct What {
    /// The log of the executor with this number, or of `all` executors, instead of that of the driver or server
    #[arg(short, long, value_name = "N|all")]
    executor: Option<Executors>,

    #[command(flatten)]
    how: How,
}

/// Which part of a log is shown.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct How {
    /// Print new lines as they come, also after a broken connection and those of the next drivers or servers, until no
    /// further one will be created
    #[arg(short, long)]
    follow: bool,

    /// The end of the log of the previous run, or of the server that has failed last, as far as the status has it. With
    /// --executor, the log of the previous container in the executor's pod
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,

    /// Only lines that are newer than this, in the notation of Go: `90s`, `30m`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// Only this number of the last lines that exist now [default: -1, all of them]
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    tail: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Executors {
    One(String),
    All,
}

impl How {
    /// Returns the options for the whole log, followed until the application has ended.
    pub(super) fn to_the_end() -> Self {
        Self { follow: true, ..Self::default() }
    }

    /// Returns the options for drivers and executors that are found later. With --follow their logs are printed whole,
    /// because --since and --tail concern only the logs that existed at the start.
    fn of_later_pods(&self) -> Self {
        if self.follow { Self::to_the_end() } else { self.clone() }
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

/// The maximum number of executors' logs that are read at once without --follow. Each takes a connection, and an
/// application may have more executors than this process may open files.
const AT_ONCE: usize = 16;
/// The pause before the next request for something that does not exist yet.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn log(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    print(cluster, Whose::Application(&flags.name), &flags.what).await
}

/// Prints the logs that the flags select.
pub(super) async fn print(cluster: &Cluster, whose: Whose<'_>, what: &What) -> anyhow::Result<()> {
    match (&what.executor, whose) {
        (None, Whose::Application(name)) if what.how.previous => {
            show::print(&message_of_previous_run(&cluster.application(name).await?, &what.how)?)
        }
        (None, Whose::Connect(name)) if what.how.previous => {
            show::print(&message_of_last_failure(&cluster.read::<SparkConnect>(name).await?, &what.how)?)
        }
        (None, _) => match of_driver(cluster, whose, &what.how).await? {
            0 => bail!(whose.without_pod(cluster).await?),
            _ => Ok(()),
        },
        (Some(which), _) => of_executors(cluster, whose, which, &what.how).await,
    }
}

/// Prints the output of the driver or server; with `--follow`, that of each one until no further one will be created.
/// Returns how many there were.
pub(super) async fn of_driver(cluster: &Cluster, whose: Whose<'_>, how: &How) -> anyhow::Result<usize> {
    let (mut last, mut count, mut how) = (None, 0, how.clone());
    while let Some(driver) = next_pod(cluster, whose, last.as_deref()).await? {
        if last.is_some() {
            show::complain(&format!("--- the next {} of {} ---", whose.pod(), whose.name()));
        }
        count += 1;
        let mut lines = pin!(lines(cluster.api(), &driver, &how));
        while let Some(line) = lines.next().await {
            show::print_bytes(&line?)?;
        }
        if !how.follow {
            break;
        }
        last = driver.uid();
        how = how.of_later_pods();
    }
    Ok(count)
}

/// Returns the last `count` lines of the driver's log; `None` if the pod does not exist, or if its log is empty or
/// cannot be read.
pub(super) async fn last_lines(
    cluster: &Cluster,
    application: &SparkApplication,
    count: i64,
) -> Option<String> {
    let pod = Facts::of_application(application).pod(cluster).await.ok()??;
    let how = How { tail: Some(count), ..How::default() };
    let lines: Vec<_> = lines(cluster.api(), &pod, &how).try_collect().await.ok()?;
    Some(String::from_utf8_lossy(&lines.concat()).into_owned()).filter(|lines| !lines.is_empty())
}

/// Returns the message of the previous run that its record in the status contains. Nothing else is left of that run:
/// the pod of its driver is deleted, and the container of a driver's pod is never restarted, so the present pod has no
/// previous log either.
fn message_of_previous_run(application: &SparkApplication, how: &How) -> anyhow::Result<String> {
    let name = application.name_any();
    let status = application.status.clone().unwrap_or_default();
    let is_before = |run: &&RunRecord| status.run_ordinal.is_some_and(|present| run.ordinal < present);
    let Some(run) = status.runs.iter().rfind(is_before) else {
        bail!(Failure::NotFound(format!("{name} has no run before the present one")));
    };
    let Some(words) = &run.message else {
        bail!(Failure::NotFound(format!("the status has no output of run {} of {name}", run.ordinal)));
    };
    Ok(ending(words, how))
}

/// Returns the message of the last server that has ended by itself. Its pod is deleted already, or will be soon.
fn message_of_last_failure(connect: &SparkConnect, how: &How) -> anyhow::Result<String> {
    let failure = connect.status.as_ref().and_then(|status| status.last_failure.as_ref());
    let Some(words) = failure.and_then(|failure| failure.message.as_ref()) else {
        bail!(Failure::NotFound(format!("no server of {} has ended by itself", connect.name_any())));
    };
    Ok(ending(words, how))
}

/// Returns the last lines of `words`, as many as --tail says.
fn ending(words: &str, how: &How) -> String {
    let lines: Vec<_> = words.lines().collect();
    let wanted = how.tail.and_then(|tail| usize::try_from(tail).ok()).unwrap_or(lines.len());
    lines[lines.len().saturating_sub(wanted)..].iter().flat_map(|line| [line, "\n"]).collect()
}

/// Waits for a driver or server whose Spark container has started and whose uid is not `last`. Returns `None` if no
/// further one will be created. If the API server cannot be reached any more after it has answered once, the requests
/// are repeated until it answers.
pub(super) async fn next_pod(
    cluster: &Cluster,
    whose: Whose<'_>,
    last: Option<&str>,
) -> anyhow::Result<Option<Pod>> {
    let mut poll = Poll { patience: Patience::default(), has_answered: last.is_some() };
    let mut waiting = Waiting::default();
    loop {
        let seen = async {
            let facts = whose.facts(cluster).await?;
            let pod = match &facts {
                Ok(facts) => facts.pod(cluster).await?,
                Err(_) => None,
            };
            Ok((facts, pod))
        };
        let Some((facts, pod)) = poll.patiently(seen, &mut waiting).await? else {
            continue;
        };
        let facts = facts?;
        let is_next = |pod: &Pod| last.is_none_or(|last| pod.uid().as_deref() != Some(last));
        if let Some(pod) = pod.filter(|pod| is_next(pod) && has_begun(pod)) {
            return Ok(Some(pod));
        }
        if facts.has_ended {
            return Ok(None);
        }
        waiting.say(&format!("waiting for {whose}: {}", facts.state));
        sleep(PAUSE).await;
    }
}

/// The state of a loop that polls the API server.
struct Poll {
    patience: Patience,
    /// Whether the API server has answered once. Before that an error is returned at once, because the cluster may not
    /// exist at all.
    has_answered: bool,
}

impl Poll {
    /// Returns the result of `request`; `None` if the error may be temporary and the caller has to repeat the request.
    async fn patiently<T>(
        &mut self,
        request: impl Future<Output = Result<T, kube::Error>>,
        waiting: &mut Waiting,
    ) -> anyhow::Result<Option<T>> {
        match request.await {
            Ok(seen) => {
                self.has_answered = true;
                self.patience.restore();
                Ok(Some(seen))
            }
            Err(error) if self.has_answered && can_pass(&error) => {
                waiting.say(&of_call(error).to_string());
                self.patience.pause().await;
                Ok(None)
            }
            Err(error) => Err(of_call(error)),
        }
    }
}

/// Prints the output of executors. With `--executor all`, each line begins with the number of its executor.
async fn of_executors(
    cluster: &Cluster,
    whose: Whose<'_>,
    which: &Executors,
    how: &How,
) -> anyhow::Result<()> {
    let (mut known, mut how, mut trouble) = (BTreeSet::new(), how.clone(), None);
    let (mut waiting, mut streams) = (VecDeque::new(), FuturesUnordered::new());
    let mut poll = Poll { patience: Patience::default(), has_answered: false };
    loop {
        let seen = async {
            let facts = whose.facts(cluster).await?;
            let pods = match &facts {
                Ok(facts) => executors(cluster, facts.executors(), which).await?,
                Err(_) => Vec::new(),
            };
            Ok((facts, pods))
        };
        let Some((facts, pods)) = poll.patiently(seen, &mut Waiting::default()).await? else {
            continue;
        };
        let facts = facts?;
        let (begun, others): (Vec<_>, Vec<_>) = pods.into_iter().partition(has_begun);
        if begun.is_empty() && known.is_empty() && !how.follow {
            let which = match which {
                Executors::One(number) => format!("executor {number}"),
                Executors::All => "executors".to_owned(),
            };
            let yet = if others.is_empty() { "now" } else { "that has begun: wait for it with --follow" };
            return Err(Failure::NotFound(format!("{} has no {which} {yet}", whose.name())).into());
        }
        for pod in begun {
            if known.insert(pod.uid()) {
                let number = pod.labels().get(label::SPARK_EXEC_ID).cloned().unwrap_or_default();
                let lines = lines(cluster.api(), &pod, &how).map(move |line| (number.clone(), line));
                waiting.push_back(lines.boxed_local());
            }
        }
        how = how.of_later_pods();
        if streams.is_empty() && waiting.is_empty() && facts.has_ended {
            return trouble.map_or(Ok(()), Err);
        }
        // Other executors may start: with --follow the pods are listed again after a pause.
        let mut pause = pin!(sleep(4 * PAUSE));
        loop {
            while (how.follow || streams.len() < AT_ONCE)
                && let Some(lines) = waiting.pop_front()
            {
                streams.push(lines.into_future());
            }
            if streams.is_empty() && !how.follow {
                return trouble.map_or(Ok(()), Err);
            }
            tokio::select! {
                Some((line, rest)) = streams.next(), if !streams.is_empty() => match line {
                    Some((number, Ok(line))) => {
                        let whose = if *which == Executors::All { format!("[{number}] ") } else { String::new() };
                        show::print_bytes(&[whose.as_bytes(), &line].concat())?;
                        streams.push(rest.into_future());
                    }
                    // An error in the log of one executor does not end the logs of the others.
                    Some((number, Err(error))) => {
                        if let Some(before) = trouble.replace(error.context(format!("executor {number}"))) {
                            show::complain(&format!("{before:#}"));
                        }
                    }
                    None => {}
                },
                () = &mut pause, if how.follow => break,
            }
        }
    }
}

/// Returns the executor pods with these labels, ordered by number.
async fn executors(
    cluster: &Cluster,
    mut labels: String,
    which: &Executors,
) -> Result<Vec<Pod>, kube::Error> {
    if let Executors::One(number) = which {
        labels = format!("{labels},{}={number}", label::SPARK_EXEC_ID);
    }
    let parameters = ListParams::default().labels(&labels);
    let mut pods = in_time(GRACE, cluster.api::<Pod>().list(&parameters)).await??.items;
    let number =
        |pod: &Pod| pod.labels().get(label::SPARK_EXEC_ID).and_then(|number| number.parse::<u64>().ok());
    pods.sort_by_key(number);
    Ok(pods)
}

/// Returns the name of the container that Spark runs in.
fn spark_container(pod: &Pod) -> String {
    spark_container_of(pod).map(|container| container.name.clone()).unwrap_or_default()
}

/// Whether the Spark container has started at least once, so that a log exists.
fn has_begun(pod: &Pod) -> bool {
    let is_or_was = |state: &ContainerState| state.running.is_some() || state.terminated.is_some();
    spark_status(pod)
        .is_some_and(|status| [&status.state, &status.last_state].into_iter().flatten().any(is_or_was))
}

/// Whether the Spark container is running, so that its log may grow.
pub(super) fn runs(pod: &Pod) -> bool {
    spark_status(pod).and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
}

/// Returns the status of the container that Spark runs in.
fn spark_status(pod: &Pod) -> Option<&ContainerStatus> {
    let name = spark_container(pod);
    pod.status.as_ref()?.container_statuses.as_ref()?.iter().find(|status| status.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn the_log_is_that_of_the_spark_container_not_of_sidecars() {
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
        let mut appended = pod(&["proxy", "main"], &["proxy"]);
        appended.spec.as_mut().unwrap().containers[1].args = Some(vec!["driver".to_owned()]);
        assert_eq!(spark_container(&appended), "main");
    }

    #[test]
    fn the_message_of_the_previous_run_is_printed() {
        let words = |runs: Value, tail| {
            let application = from_value(json!({
                "metadata": {"name": "pi"},
                "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
                "status": {"applicationState": {"state": "RUNNING"}, "driverInfo": {}, "runOrdinal": 3, "runs": runs},
            }));
            message_of_previous_run(&application.unwrap(), &How { tail, ..How::default() })
                .map_err(|error| error.to_string())
        };
        let runs = json!([{"ordinal": 1, "message": "first"}, {"ordinal": 2, "message": "no\nluck"}, {"ordinal": 3, "message": "not yet"}]);
        assert_eq!(words(runs.clone(), None).unwrap(), "no\nluck\n");
        assert_eq!(words(runs, Some(1)).unwrap(), "luck\n");
        assert_eq!(words(json!([{"ordinal": 3}]), None).unwrap_err(), "pi has no run before the present one");
        let silent = json!([{"ordinal": 2}]);
        assert_eq!(words(silent, None).unwrap_err(), "the status has no output of run 2 of pi");
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
