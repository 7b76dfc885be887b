//! Compares the Services and Ingresses of an application that exist with those that should exist, and plans what to do.
//!
//! The comparison is made whenever the application is reconciled. So edits and deletions by others are repaired,
//! objects that the spec no longer asks for are deleted, and a run uses the objects of the previous run. The actions
//! run in the background, and failed ones are retried with growing pauses: the application never waits for them.

use super::{
    doors::{INGRESS, SERVICE, wanted},
    exposure::{Door, others, ui},
};
use crate::{Policy, lifecycle::is_followed};
use api::{DriverInfo, SparkApplication, SparkApplicationStatus, State, names::label};
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::IngressTLS;
use serde_json::{Map, Value, json};
use spark_client::Child;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// One effect that nothing waits for. Each can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Aside {
    /// Make it; one of this application's that is there already is made the same.
    Make(Value),
    /// Change it as this merge patch says, which has its kind and name and the uid that it is for.
    Mend(Value),
    /// Delete it, if it is this application's.
    Delete(Child),
}

/// A Service or an Ingress of an application, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    pub child: Child,
    pub uid: String,
    /// The uid of its application.
    pub owner: String,
    pub terminating: bool,
    /// Where a Service is reached.
    pub cluster_ip: Option<String>,
    /// Labels, annotations and what we say in its spec, as JSON: there are thousands of them, and few are looked at.
    content: Box<str>,
}

/// What stands beside an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Companions {
    pub there: Vec<Companion>,
    /// Kinds of which nobody tells: there is no such kind here, or the operator may not watch it.
    pub unwatched: Vec<String>,
    /// What this process has done about them.
    pub tries: BTreeMap<Child, Try>,
}

/// What was done about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Try {
    /// How often in a row, with no more than its pause between: by somebody who fails, or who undoes what another does.
    pub count: u32,
    /// When last.
    pub last: Timestamp,
    /// It is being done just now.
    pub is_under_way: bool,
    /// The run for which it was made.
    pub made_for: Option<String>,
}

/// How soon something may be done about the same object again: long enough for the watch to tell what came of it.
const PAUSE: Duration = Duration::from_secs(5);
/// A user who has mended what was wrong does not wait longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

impl Try {
    /// Something is about to be done, after what was done `before`.
    #[must_use]
    pub fn begun(before: Option<Self>, now: Timestamp) -> Self {
        let recent = before.filter(|before| since(before.last, now) < before.pause() * 2);
        let count = recent.as_ref().map_or(0, |before| before.count).saturating_add(1);
        let made_for = recent.and_then(|before| before.made_for);
        Self { count, last: now, is_under_way: true, made_for }
    }

    fn pause(&self) -> Duration {
        PAUSE.saturating_mul(2_u32.saturating_pow(self.count.saturating_sub(1))).min(LONGEST_PAUSE)
    }

    /// How long it has to wait; nothing if it has not.
    fn rest(&self, now: Timestamp) -> Duration {
        self.pause().saturating_sub(since(self.last, now))
    }
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

impl Companion {
    /// A Service or an Ingress of an application, and the application's name; none if it is nobody's.
    #[must_use]
    pub fn of(kind: &str, object: &Value) -> Option<(String, Self)> {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let owners = metadata["ownerReferences"].as_array()?;
        let owner =
            owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == APPLICATION)?;
        let companion = Self {
            child: Child { kind: kind.to_owned(), name: text(&metadata["name"])? },
            uid: text(&metadata["uid"]).unwrap_or_default(),
            owner: text(&owner["uid"])?,
            terminating: !metadata["deletionTimestamp"].is_null(),
            cluster_ip: text(&object["spec"]["clusterIP"]).filter(|ip| !ip.is_empty() && ip != "None"),
            content: content(kind, object).to_string().into(),
        };
        Some((text(&owner["name"])?, companion))
    }

    fn content(&self) -> Value {
        serde_json::from_str(&self.content).expect("it was JSON before")
    }
}

const APPLICATION: &str = "SparkApplication";

/// What we say of an object, in one form whoever has filled in what nobody said.
fn content(kind: &str, object: &Value) -> Value {
    let spec = &object["spec"];
    let spec = if kind == SERVICE {
        let ports = spec["ports"].as_array().into_iter().flatten();
        let ports = ports.map(
            |port| json!({"name": port["name"], "port": port["port"], "targetPort": port["targetPort"]}),
        );
        json!({"type": spec["type"], "ports": ports.collect::<Vec<_>>(), "selector": spec["selector"]})
    } else {
        json!({"rules": spec["rules"], "tls": certificates(&spec["tls"]), "ingressClassName": spec["ingressClassName"]})
    };
    let metadata = &object["metadata"];
    json!({"labels": metadata["labels"], "annotations": metadata["annotations"], "spec": spec})
}

/// As Kubernetes keeps them, whatever a user has written beside.
fn certificates(tls: &Value) -> Value {
    let kept = |tls: &Value| {
        let IngressTLS { hosts, secret_name } = serde_json::from_value(tls.clone()).unwrap_or_default();
        let (hosts, secret_name) =
            (hosts.filter(|hosts| !hosts.is_empty()), secret_name.filter(|name| !name.is_empty()));
        json!(IngressTLS { hosts, secret_name })
    };
    let kept: Vec<_> = tls.as_array().into_iter().flatten().map(kept).collect();
    if kept.is_empty() { Value::Null } else { kept.into() }
}

/// The merge patch that makes what is there what it should be; none if it is.
///
/// What others have added to its labels and annotations stays for as long as the run does: cloud controllers write
/// there. What was for another run goes.
#[must_use]
pub fn mend(wanted: &Value, there: &Companion) -> Option<Value> {
    let (is, should) = (there.content(), content(&there.child.kind, wanted));
    let run = |content: &Value| content["labels"][label::SUBMISSION_ID].clone();
    let is_of_other_run = run(&is) != run(&should);
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        let changed = changed(&is[field], &should[field], is_of_other_run);
        if !changed.is_empty() {
            metadata.insert(field.to_owned(), changed.into());
        }
    }
    let mut spec = Map::new();
    for (field, should) in should["spec"].as_object().into_iter().flatten() {
        let is = &is["spec"][field];
        // The cluster may have a class for those that do not say.
        if is == should || should.is_null() && field == "ingressClassName" {
            continue;
        }
        let value = if should.is_object() { changed(is, should, true).into() } else { should.clone() };
        spec.insert(field.clone(), value);
    }
    if metadata.is_empty() && spec.is_empty() {
        return None;
    }
    metadata.insert("name".to_owned(), there.child.name.as_str().into());
    metadata.insert("uid".to_owned(), there.uid.as_str().into());
    let mut patch =
        json!({"apiVersion": wanted["apiVersion"], "kind": there.child.kind, "metadata": metadata});
    if !spec.is_empty() {
        patch["spec"] = spec.into();
    }
    Some(patch)
}

/// The entries that have to be other than they are, and nulls for those that `should` does not have, if they are to go.
fn changed(is: &Value, should: &Value, others_go: bool) -> Map<String, Value> {
    let entries = |map: &Value| map.as_object().cloned().unwrap_or_default();
    let (is, should) = (entries(is), entries(should));
    let gone = is.keys().filter(|key| others_go && !should.contains_key(*key));
    let gone: Vec<_> = gone.map(|key| (key.clone(), Value::Null)).collect();
    should.into_iter().filter(|(key, value)| is.get(key) != Some(value)).chain(gone).collect()
}

/// What is to be done about the Services and Ingresses of `application`, of which `status` is about to be recorded, and
/// when to look again because of them.
#[must_use]
pub fn aside(
    application: &SparkApplication,
    status: &SparkApplicationStatus,
    seen: &Companions,
    now: Timestamp,
    policy: &Policy,
) -> (Vec<Aside>, Option<Duration>) {
    let state = status.application_state.state;
    let mut due = Due { seen, now, wake: None };
    let own = || there(application, seen).filter(|companion| !companion.terminating);
    let kept = kept(application, status, policy);
    let unwanted = own().filter(|companion| !kept.contains(&companion.child));
    let mut aside: Vec<_> = unwanted
        .filter(|companion| due.is_now(&companion.child))
        .map(|companion| Aside::Delete(companion.child.clone()))
        .collect();
    if !is_followed(state) {
        return (aside, due.wake);
    }
    let all: BTreeMap<_, _> =
        there(application, seen).map(|companion| (&companion.child, companion)).collect();
    for object in wanted(application, status, policy) {
        let Some(child) = Child::of(&object) else { continue };
        let next = match all.get(&child) {
            Some(there) if there.terminating => None,
            Some(there) => mend(&object, there).map(Aside::Mend),
            None if seen.has_made(&child, status) => None,
            None => Some(Aside::Make(object)),
        };
        aside.extend(next.filter(|_| due.is_now(&child)));
    }
    (aside, due.wake)
}

fn there<'a>(application: &SparkApplication, seen: &'a Companions) -> impl Iterator<Item = &'a Companion> {
    let uid = application.metadata.uid.clone();
    seen.there.iter().filter(move |companion| Some(&companion.owner) == uid.as_ref())
}

impl Companions {
    /// Whether an object of which nobody tells was made for the present run.
    fn has_made(&self, child: &Child, status: &SparkApplicationStatus) -> bool {
        let made_for = || self.tries.get(child).and_then(|tried| tried.made_for.as_ref());
        self.unwatched.contains(&child.kind)
            && status.submission_id.is_some()
            && made_for() == status.submission_id.as_ref()
    }
}

/// What may be done now, and when what may not.
struct Due<'a> {
    seen: &'a Companions,
    now: Timestamp,
    wake: Option<Duration>,
}

impl Due<'_> {
    fn is_now(&mut self, child: &Child) -> bool {
        let Some(tried) = self.seen.tries.get(child) else { return true };
        let rest = tried.rest(self.now);
        // Whoever does it says when it is done.
        if tried.is_under_way || rest.is_zero() {
            return !tried.is_under_way;
        }
        self.wake = self.wake.into_iter().chain([rest]).min();
        false
    }
}

/// Those that may stay. What is to be reached while a driver runs stays between its runs and after the last, so that
/// its address is the same; not while the application is suspended.
fn kept(application: &SparkApplication, status: &SparkApplicationStatus, policy: &Policy) -> BTreeSet<Child> {
    match status.application_state.state {
        State::Suspended => return BTreeSet::new(),
        State::Completed | State::Failed if policy.exposure.ends_with_run => return BTreeSet::new(),
        _ => {}
    }
    let id = status.spark_application_id.as_deref();
    let of_door = |door: Door| {
        let has_address = door.url_format.is_some() && door.url(application, id).is_ok();
        let service = Child { kind: SERVICE.to_owned(), name: door.service };
        let ingress = Child { kind: INGRESS.to_owned(), name: door.ingress };
        [Some(service), has_address.then_some(ingress)].into_iter().flatten()
    };
    ui(application, policy).into_iter().chain(others(application, policy)).flat_map(of_door).collect()
}

/// The application has ended: forgets where its web UI was, unless that stays.
pub fn note_end(application: &SparkApplication, status: &mut SparkApplicationStatus, policy: &Policy) {
    if policy.exposure.ends_with_run || ui(application, policy).is_none() {
        let pod_name = status.driver_info.pod_name.take();
        status.driver_info = DriverInfo { pod_name, ..DriverInfo::default() };
    }
}

/// Writes down where the web UI is, as far as it stands.
pub fn note(
    application: &SparkApplication,
    status: &mut SparkApplicationStatus,
    seen: &Companions,
    policy: &Policy,
) {
    let pod_name = status.driver_info.pod_name.take();
    let Some(door) = ui(application, policy) else {
        status.driver_info = DriverInfo { pod_name, ..DriverInfo::default() };
        return;
    };
    let standing = |kind: &str, name: &str| {
        there(application, seen).find(|there| there.child.kind == kind && there.child.name == name)
    };
    let is_made = |kind: &str, name: &str| {
        seen.has_made(&Child { kind: kind.to_owned(), name: name.to_owned() }, status)
    };
    let mut info = DriverInfo { pod_name, ..status.driver_info.clone() };
    let service = standing(SERVICE, &door.service);
    if service.is_some() || is_made(SERVICE, &door.service) {
        info.web_ui_port = Some(door.port);
        info.web_ui_address = service.and_then(|service| service.cluster_ip.as_ref()).map(|ip| {
            if ip.contains(':') { format!("[{ip}]:{}", door.port) } else { format!("{ip}:{}", door.port) }
        });
        info.web_ui_service_name = Some(door.service.clone());
    }
    match door.url(application, status.spark_application_id.as_deref()) {
        Ok(Some(url)) => {
            if standing(INGRESS, &door.ingress).is_some() || is_made(INGRESS, &door.ingress) {
                info.web_ui_ingress_address = Some(door.address(&url));
                info.web_ui_ingress_name = Some(door.ingress);
            }
        }
        Ok(None) if door.url_format.is_some() => {}
        Ok(None) | Err(_) => {
            info.web_ui_ingress_address = None;
            info.web_ui_ingress_name = None;
        }
    }
    status.driver_info = info;
}
