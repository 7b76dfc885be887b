//! Keeps the SparkConnects that exist, and decides which of them has which port.

use super::spark_connect::{Known, SparkConnect, Uid};
use api::Identity;
use kube::{ResourceExt, runtime::watcher::Event};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    ops::RangeInclusive,
};
use tracing::warn;

/// The SparkConnects of one watch.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    known: BTreeMap<Uid, Known>,
    /// The uids that the list which is being read has contained so far.
    listed: BTreeSet<Uid>,
}

impl Objects {
    /// Applies an event; returns whether a field that the gateway reads has changed. While a list is being read, the
    /// answer is false, and objects that it does not contain are kept until it is complete.
    pub(crate) fn apply(&mut self, event: Event<SparkConnect>) -> bool {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                self.listed.extend(object.uid().map(Uid::from));
                self.learn(object);
            }
            Event::InitDone => {
                let listed = mem::take(&mut self.listed);
                self.known.retain(|uid, _| listed.contains(uid));
                return true;
            }
            Event::Apply(object) => return self.learn(object),
            Event::Delete(object) => return self.known.remove(object.own_uid()).is_some(),
        }
        false
    }

    /// Stores an object; returns whether it is new or has changed. An object that cannot be read keeps its last values.
    fn learn(&mut self, object: SparkConnect) -> bool {
        let (namespace, name, uid) = (object.namespace(), object.name_any(), object.uid());
        match (object.0, uid) {
            (Ok(object), Some(uid)) => {
                let known = Known::of(object);
                self.known.insert(uid.into(), known.clone()) != Some(known)
            }
            (Err(invalid), _) => {
                warn!(namespace, name, error = invalid.error, "object cannot be read");
                false
            }
            (Ok(_), None) => false,
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Uid, &Known)> {
        self.known.iter()
    }
}

/// Returns the SparkConnects whose status names a port: each with the port, or with `None` if the port is out of range
/// or belongs to another one. If several name the same port, it belongs to the oldest: its clients must not reach
/// another server.
pub(crate) fn assigned<'k>(
    objects: impl Iterator<Item = (&'k Uid, &'k Known)>,
    ports: &RangeInclusive<u16>,
) -> BTreeMap<&'k Uid, (Option<u16>, &'k Known)> {
    let mut objects: Vec<_> = objects.filter_map(|(uid, known)| Some((known.port?, uid, known))).collect();
    objects.sort_by_key(|(_, uid, known)| (known.created, *uid));
    let mut taken = BTreeSet::new();
    let assign = |(port, uid, known): (i64, &'k Uid, &'k Known)| {
        let port = u16::try_from(port).ok().filter(|port| ports.contains(port) && taken.insert(*port));
        (uid, (port, known))
    };
    objects.into_iter().map(assign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(uid: &str, created: &str, status: &Value) -> SparkConnect {
        let metadata = json!({"name": uid, "namespace": "a", "uid": uid, "creationTimestamp": created});
        let object = json!({"metadata": metadata, "spec": {}, "status": status});
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn with_port(uid: &str, created: &str, port: i64) -> SparkConnect {
        object(uid, created, &json!({"gateway": {"port": port}}))
    }

    const EARLY: &str = "2026-11-28T08:00:00Z";
    const LATE: &str = "2026-11-28T09:00:00Z";

    #[test]
    fn a_port_belongs_to_the_oldest_spark_connect_that_names_it() {
        let mut objects = Objects::default();
        for object in [
            with_port("young", LATE, 20_000),
            with_port("old", EARLY, 20_000),
            with_port("b", EARLY, 20_001),
            with_port("c", EARLY, 20_001),
            with_port("low", EARLY, 19_999),
            with_port("negative", EARLY, -45_535),
            with_port("large", EARLY, 86_000),
            object("none", EARLY, &json!({"state": "Ready"})),
        ] {
            assert!(objects.apply(Event::Apply(object)));
        }
        let all = |objects: &Objects| {
            let assigned = assigned(objects.all(), &(20_000..=29_999));
            let ports = assigned.into_iter().map(|(uid, (port, _))| (uid.to_string(), port));
            ports.filter_map(|(uid, port)| Some(format!("{uid} {}", port?))).collect::<Vec<_>>()
        };
        assert_eq!(assigned(objects.all(), &(20_000..=29_999)).len(), 7, "all that name a port");
        assert_eq!(all(&objects), ["b 20001", "old 20000"]);
        assert!(objects.apply(Event::Delete(with_port("old", EARLY, 20_000))));
        assert_eq!(all(&objects), ["b 20001", "young 20000"]);
    }

    #[test]
    fn only_fields_that_the_gateway_reads_count_as_changes() {
        let ready =
            |ip: &str| json!({"state": "Ready", "server": {"podIp": ip}, "gateway": {"port": 20_000}});
        let mut objects = Objects::default();
        let mut apply = |status: &Value| objects.apply(Event::Apply(object("a", EARLY, status)));
        assert!(apply(&ready("10.0.0.1")));
        assert!(!apply(&ready("10.0.0.1")));
        assert!(apply(&ready("10.0.0.2")));
        assert!(apply(&json!({"gateway": {"port": 20_000}})));
        assert!(!apply(&json!({"gateway": {"port": 20_000}, "executors": {"Running": 2}})));
        let late = object("a", "9999-12-31T12:00:00Z", &json!({"gateway": {"port": 20_001}}));
        assert!(!objects.apply(Event::Apply(late)), "the object cannot be read");
        assert!(!objects.apply(Event::Delete(with_port("b", EARLY, 20_000))), "the object was not known");
    }

    #[test]
    fn a_list_replaces_the_known_objects_when_it_is_complete() {
        let mut objects = Objects::default();
        for name in ["a", "b"] {
            objects.apply(Event::Apply(with_port(name, EARLY, 20_000)));
        }
        let names = |objects: &Objects| objects.all().map(|(uid, _)| uid.to_string()).collect::<Vec<_>>();
        assert!(!objects.apply(Event::Init));
        assert!(!objects.apply(Event::InitApply(with_port("c", EARLY, 20_002))));
        assert!(!objects.apply(Event::InitApply(with_port("a", EARLY, 20_000))));
        assert_eq!(names(&objects), ["a", "b", "c"]);
        assert!(objects.apply(Event::InitDone));
        assert_eq!(names(&objects), ["a", "c"]);
    }
}
