//! What has happened to an application? Its events, in the order in which they came.

use super::{
    cluster::{Cluster, Kind},
    completion,
    failure::{Failure, of_call},
    show::{Style, columns, print},
};
use crate::api::SparkApplication;
use clap::Args;
use clap_complete::ArgValueCompleter;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Event, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, ResourceExt,
    api::ListParams,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use std::pin::pin;

#[derive(Debug, Args)]
#[command(after_help = "Example: sparkctl event spark-pi --follow")]
pub(super) struct Flags {
    /// The application
    #[arg(add = ArgValueCompleter::new(completion::applications))]
    name: String,

    /// Go on until the application is deleted, or this is interrupted
    #[arg(short, long)]
    follow: bool,
}

pub(super) async fn event(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let applications = cluster.api::<SparkApplication>();
    let application = applications.get_metadata(&flags.name).await.map_err(of_call)?;
    let uid = application.uid().unwrap_or_default();
    let events = of(cluster, &uid).await?;
    if events.is_empty() && !flags.follow {
        return print("No events.\n");
    }
    print(&table(&events, Style::of_stdout())?)?;
    if flags.follow { follow(cluster, &flags.name, &uid, &events).await } else { Ok(()) }
}

/// The events of the object with this uid, oldest first.
pub(super) async fn of(cluster: &Cluster, uid: &str) -> anyhow::Result<Vec<Event>> {
    let api = cluster.api::<Event>();
    let list = api.list(&ListParams::default().fields(&field(uid))).await.map_err(of_call)?;
    let mut events = list.items;
    events.sort_by_key(when);
    Ok(events)
}

fn field(uid: &str) -> String {
    format!("involvedObject.uid={uid}")
}

/// When it was seen last. Whoever writes `events.k8s.io` leaves the older fields empty.
fn when(event: &Event) -> Option<Timestamp> {
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    series.or(last).or(first).or(event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

pub(super) fn table(events: &[Event], style: Style) -> anyhow::Result<String> {
    let header = ["AGE", "TYPE", "REASON", "MESSAGE"].map(str::to_owned).to_vec();
    let rows = events.iter().map(|event| row(event, style));
    columns(&[header].into_iter().chain(rows).collect::<Vec<_>>())
}

fn row(event: &Event, style: Style) -> Vec<String> {
    let age = style.age(when(event).map(Time).as_ref());
    let count = event.series.as_ref().and_then(|series| series.count).or(event.count);
    let times = count.filter(|count| *count > 1).map(|count| format!(" (x{count})")).unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    vec![age + &times, text(&event.type_), text(&event.reason), text(&event.message)]
}

/// Prints what comes after `known`, a row an event.
async fn follow(cluster: &Cluster, name: &str, uid: &str, known: &[Event]) -> anyhow::Result<()> {
    let versions: Vec<_> = known.iter().map(|event| (event.name_any(), event.resource_version())).collect();
    let events = watcher(cluster.api::<Event>(), watcher::Config::default().fields(&field(uid)))
        .default_backoff()
        .applied_objects()
        .try_filter(move |event| {
            std::future::ready(!versions.contains(&(event.name_any(), event.resource_version())))
        });
    let gone = gone(cluster.api::<PartialObjectMeta<SparkApplication>>(), name, uid);
    let (mut events, mut gone) = (pin!(events), pin!(gone));
    loop {
        tokio::select! {
            Some(event) = events.next() => {
                // The watch goes on after an error.
                if let Ok(event) = event {
                    let text = row(&event, Style::of_stdout()).join("   ");
                    print(&format!("{text}\n"))?;
                }
            }
            () = &mut gone => {
                return Err(Failure::NotFound(format!("SparkApplication {name} was deleted")).into());
            }
        }
    }
}

/// Ends when there is no such object any more.
pub(super) async fn gone<K: Kind>(api: Api<PartialObjectMeta<K>>, name: &str, uid: &str) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut watch = pin!(watcher(api, config).default_backoff());
    let is_it = |object: &PartialObjectMeta<K>| object.uid().as_deref() == Some(uid);
    let mut is_there = false;
    while let Some(event) = watch.next().await {
        match event {
            Ok(watcher::Event::Init) => is_there = false,
            Ok(watcher::Event::InitApply(object)) => is_there |= is_it(&object),
            Ok(watcher::Event::InitDone) if !is_there => return,
            Ok(watcher::Event::Delete(object)) if is_it(&object) => return,
            // Tried again.
            Ok(_) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn events_of_either_kind_have_an_age_and_how_often_they_came() {
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
