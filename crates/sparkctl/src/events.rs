//! `sparkctl event`: prints the events of an application in the order of time.

use super::{
    cluster::{Cluster, Kind},
    completion,
    failure::{Failure, lasting, of_call},
    names,
    show::{Style, columns, complain, print},
    waiting::Waiting,
    yaml::line,
};
use api::{Identity, SparkApplication};
use clap::Args;
use clap_complete::ArgValueCompleter;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt,
    api::ListParams,
    runtime::{WatchStreamExt, watcher},
};
use spark_operator_client::{
    patience::{GRACE, can_pass, in_time},
    summary::{last_seen, times_seen},
};
use std::{collections::HashSet, pin::pin, time::Duration};
use tokio::time::sleep;

#[derive(Debug, Args)]
#[command(after_help = "Example: sparkctl event spark-pi --follow")]
pub(super) struct Flags {
    /// The application
    #[arg(value_parser = names::application, add = ArgValueCompleter::new(completion::applications))]
    name: String,

    /// Print new events as they come, until the application is deleted or the command is interrupted
    #[arg(short, long)]
    follow: bool,
}

/// The first pause between two checks whether an object is gone. Each further pause is twice as long, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How many of the latest events `sparkctl status` shows; `sparkctl event` shows all.
const LATEST: usize = 10;

pub(super) async fn event(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let applications = cluster.api::<SparkApplication>();
    let application = applications.get_metadata(&flags.name).await.map_err(of_call)?;
    let uid = application.own_uid();
    let events = of(cluster, uid).await?;
    if events.is_empty() && !flags.follow {
        return print("No events.\n");
    }
    print(&table(&events, Style::of_stdout())?)?;
    if flags.follow { follow(cluster, &flags.name, uid, &events).await } else { Ok(()) }
}

/// Returns the events of the object with this uid, oldest first.
pub(super) async fn of(cluster: &Cluster, uid: &str) -> anyhow::Result<Vec<Event>> {
    let api = cluster.api::<Event>();
    let list = api.list(&ListParams::default().fields(&field(uid))).await.map_err(of_call)?;
    let mut events = list.items;
    events.sort_by_key(last_seen);
    Ok(events)
}

/// Returns the end of the output of a status command: a table of the latest events of `object`, or nothing if there are
/// none. If they cannot be read, the user is warned: the rest of the status is shown nevertheless.
pub(super) async fn latest(
    cluster: &Cluster,
    object: &impl ResourceExt,
    style: Style,
) -> anyhow::Result<String> {
    let events = of(cluster, object.own_uid()).await.unwrap_or_else(|error| {
        complain(&format!("Warning: the events are not shown: {error:#}"));
        Vec::new()
    });
    match &events[events.len().saturating_sub(LATEST)..] {
        [] => Ok(String::new()),
        latest => Ok(format!("\n{}", table(latest, style)?)),
    }
}

fn field(uid: &str) -> String {
    format!("involvedObject.uid={uid}")
}

fn table(events: &[Event], style: Style) -> anyhow::Result<String> {
    let header = ["AGE", "TYPE", "REASON", "MESSAGE"].map(str::to_owned).to_vec();
    let rows = events.iter().map(|event| row(event, style));
    columns(&[header].into_iter().chain(rows).collect::<Vec<_>>())
}

fn row(event: &Event, style: Style) -> Vec<String> {
    let age = style.age(last_seen(event).as_ref());
    let times = Some(times_seen(event)).filter(|times| *times > 1);
    let times = times.map(|times| format!(" (x{times})")).unwrap_or_default();
    let text = |text: &Option<String>| line(text.as_deref().unwrap_or_default());
    vec![age + &times, text(&event.type_), text(&event.reason), text(&event.message)]
}

/// Prints the events that come after those in `known`, one row each.
async fn follow(cluster: &Cluster, name: &str, uid: &str, known: &[Event]) -> anyhow::Result<()> {
    // When the watch has to start again, it repeats all events.
    let version = |event: &Event| (event.name_any(), event.resource_version());
    let mut printed: HashSet<_> = known.iter().map(version).collect();
    let events = watcher(cluster.api::<Event>(), watcher::Config::default().fields(&field(uid)))
        .default_backoff()
        .applied_objects()
        .try_filter(move |event| std::future::ready(printed.insert(version(event))));
    let applications = cluster.api::<SparkApplication>();
    let gone = gone(&applications, name, uid, None);
    let (mut events, mut gone) = (pin!(events), pin!(gone));
    loop {
        tokio::select! {
            Some(event) = events.next() => {
                match event {
                    Ok(event) => print(&format!("{}\n", row(&event, Style::of_stdout()).join("   ")))?,
                    Err(error) => if let Some(error) = lasting(error) {
                        return Err(of_call(error));
                    }
                }
            }
            gone = &mut gone => {
                gone.map_err(of_call)?;
                return Err(Failure::NotFound(format!("SparkApplication {name} was deleted")).into());
            }
        }
    }
}

/// Waits until the object with this uid does not exist any more. Polls with `get`, which most users who may delete the
/// object are allowed to send. `waiting` shows the user why the object still exists.
///
/// # Errors
///
/// When the API server refuses the request.
pub(super) async fn gone<K: Kind>(
    api: &Api<K>,
    name: &str,
    uid: &str,
    mut waiting: Option<Waiting>,
) -> Result<(), kube::Error> {
    let mut pause = FIRST_PAUSE;
    loop {
        match in_time(GRACE, api.get_metadata_opt(name)).await.flatten() {
            Ok(found) if found.as_ref().and_then(ResourceExt::uid).as_deref() != Some(uid) => return Ok(()),
            Err(error) if !can_pass(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
        // Most objects are gone at once, so nothing is shown at first.
        if let Some(waiting) = waiting.as_mut().filter(|_| pause > Duration::from_secs(1)) {
            waiting.say(&format!(
                "waiting for the deletion of {name}: finalizers, or objects that it owns, delay it"
            ));
        }
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn events_of_both_apis_have_an_age_and_a_count() {
        let event = |more: serde_json::Value| -> Event {
            let mut event = json!({
                "metadata": {"name": "e"}, "involvedObject": {},
                "type": "Normal", "reason": "SparkDriverRunning", "message": "Driver\nruns",
            });
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            from_value(event).unwrap()
        };
        let events = [
            event(json!({"eventTime": "2026-11-21T11:00:00.000000Z"})),
            event(json!({"lastTimestamp": "2026-11-21T11:59:30Z", "count": 3, "type": "Warning"})),
        ];
        let style = Style { now: "2026-11-21T12:00:00Z".parse().unwrap(), colours: false };
        assert_eq!(
            table(&events, style).unwrap(),
            "AGE        TYPE      REASON               MESSAGE\n\
             1h         Normal    SparkDriverRunning   Driver runs\n\
             30s (x3)   Warning   SparkDriverRunning   Driver runs\n"
        );
    }
}
