//! Watches the gateway's pods, gives each SparkConnect that needs the gateway a port of its own, and keeps the
//! NetworkPolicy that lets clients reach these ports.

use super::{
    super::{
        calls,
        kept::{Keep, Kept, KeptConnect},
        source::Source,
    },
    Watched,
};
use api::{ConnectAccess, Identity, Lenient, SparkConnect};
use connect::{Gateway, ServerPod, gateway_policy};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher::Event,
    },
};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet},
    mem,
    ops::RangeInclusive,
    time::Duration,
};
use tokio::{
    sync::{Notify, watch as state},
    time::{Instant, sleep, timeout},
};
use tracing::warn;
use work::may_have;

/// The pause in which changes of ports are collected before the NetworkPolicy is written.
const PAUSE: Duration = Duration::from_millis(200);
/// The interval in which the NetworkPolicy is applied again, in case somebody has changed it.
const REAPPLY_AFTER: Duration = Duration::from_secs(60);

/// The time for which no server counts as idle after the gateway's first pod has become ready or this process has
/// started. While the operator is down, its webhook is too, so all reports of open connections fail. The gateway
/// retries every 8 s, `sparkctl connect open` every 20 s, and the webhook's Service needs some seconds to reach this
/// process.
const SETTLING: Duration = Duration::from_secs(60);

/// The operator's settings about its gateway.
#[derive(Clone, Debug)]
pub struct GatewaySetup {
    /// The namespace and the labels of its pods.
    pub gateway: Gateway,
    /// The ports among which each SparkConnect gets its own.
    pub ports: RangeInclusive<i32>,
    /// The name of the NetworkPolicy.
    pub policy: String,
}

/// The gateway: its settings, the IP addresses of its pods, and the ports that were given to SparkConnects.
pub(super) struct KnownGateway {
    setup: GatewaySetup,
    /// The IP addresses of its ready pods; `None` before the pods are listed.
    addresses: state::Sender<Option<Vec<String>>>,
    /// The time since which this process has seen at least one ready pod of the gateway. `None` if there is none.
    pub ready_since: Mutex<Option<Instant>>,
    given: Mutex<Given>,
    /// Notified when SparkConnects have changed.
    pub news: Notify,
}

/// The ports that were given to SparkConnects.
#[derive(Default)]
struct Given {
    /// The port of each SparkConnect that was reconciled and has one, by its uid.
    ports: HashMap<String, i32>,
    /// The port that was last given to a SparkConnect without a port.
    latest: Option<i32>,
    /// The ports that are in the statuses of two SparkConnects.
    shared: HashSet<i32>,
}

/// The IP address of a pod of the gateway; `None` if the pod is not ready or is being deleted.
#[derive(Clone, Debug)]
pub(super) struct Address(Option<String>);

impl Keep<Pod> for Address {
    fn of(pod: &Lenient<Pod>, _: &str) -> Self {
        let pod = pod.0.as_ref().ok().map(ServerPod::of);
        Self(pod.filter(|pod| pod.is_ready && !pod.summary.terminating).and_then(|pod| pod.ip))
    }
}

impl KnownGateway {
    pub(super) fn new(setup: GatewaySetup) -> Self {
        Self {
            setup,
            addresses: state::Sender::new(None),
            ready_since: Mutex::default(),
            given: Mutex::default(),
            news: Notify::new(),
        }
    }

    /// Waits until the pods that existed at the start are known.
    pub(super) async fn synced(&self) {
        // The sender lives as long as `self`, so this wait cannot fail.
        drop(self.addresses.subscribe().wait_for(Option::is_some).await);
    }

    /// Returns the gateway with the IP addresses of its pods.
    pub(super) fn now(&self) -> Gateway {
        let addresses = self.addresses.borrow().clone().unwrap_or_default();
        Gateway { addresses, ..self.setup.gateway.clone() }
    }

    /// Returns the time for which no server counts as idle yet: what is left of [`SETTLING`] since
    /// [`Self::ready_since`].
    pub(super) fn settling(&self) -> Duration {
        let since = *self.ready_since.lock();
        since.map_or(SETTLING, |since| SETTLING.saturating_sub(since.elapsed()))
    }

    /// Returns the port for a SparkConnect: that of its status, unless another SparkConnect has it, or else one that no
    /// other has. `None` if none is left for its namespace, which may have at most as many ports as it leaves to
    /// others. A port that was given up is given again as late as possible: the Service of a deleted SparkConnect, and
    /// the rules for it on the nodes, may send its clients there for a while.
    pub(super) fn port(&self, connect: &SparkConnect, all: &Store<Watched>) -> Option<i32> {
        let uid = connect.own_uid();
        let mut given = self.given.lock();
        let Given { ports, latest, shared } = &mut *given;
        if let Some(port) = ports.get(uid).filter(|port| !shared.contains(port)) {
            return Some(*port);
        }
        let all = all.state();
        // Two operators may give one port at the same time. Both gateways send its clients to the older SparkConnect.
        let age = (connect.creation_timestamp().map(|time| time.0), connect.uid());
        let is_own = |port: &i32| {
            let mut named = all.iter().filter(|other| other.kept.gateway_port == Some(*port));
            named.all(|other| (other.kept.created, other.uid()) >= age)
        };
        if let Some(port) = ports.get(uid).copied().filter(is_own) {
            return Some(port);
        }
        let uids: HashSet<_> = all.iter().filter_map(|there| there.uid()).collect();
        ports.retain(|uid, _| uids.contains(uid));
        let recorded = connect.status.as_ref().and_then(|status| Some(status.gateway.as_ref()?.port));
        let mut taken: HashSet<i32> = ports.values().copied().collect();
        let is_free = |port: &i32| self.setup.ports.contains(port) && !taken.contains(port);
        let own = recorded.filter(is_free).filter(is_own);
        let port = own.or_else(|| {
            taken.extend(all.iter().filter_map(|other| other.kept.gateway_port));
            let has_port = |other: &Watched| {
                let recorded = other.kept.gateway_port.is_some();
                other.uid().is_some_and(|other| other != uid && (recorded || ports.contains_key(&other)))
            };
            let namespace = &connect.metadata.namespace;
            let of_namespace = all.iter().filter(|other| other.meta().namespace == *namespace);
            let of_namespace = of_namespace.filter(|other| has_port(other)).count();
            let (first, last) = self.setup.ports.clone().into_inner();
            let highest = taken.iter().copied().filter(|port| (first..=last).contains(port)).max();
            let next = latest.or(highest).map_or(first, |before| before + 1);
            let mut free = (next..=last).chain(first..next).filter(|port| !taken.contains(port));
            let found = free.next().filter(|_| may_have(of_namespace, 1 + free.count()))?;
            *latest = Some(found);
            Some(found)
        })?;
        ports.insert(uid.to_owned(), port);
        Some(port)
    }

    /// Follows the gateway's pods, and queues all SparkConnects when the IP addresses of the pods have changed; never
    /// ends.
    pub(super) async fn follow(&self, connects: &Source<SparkConnect, KeptConnect>) {
        let Gateway { namespace, labels, .. } = &self.setup.gateway;
        let selector: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let (pods, writer) = reflector::store::<Kept<Pod, Address>>();
        let watching = &connects.cluster.watching;
        let events = watching.of_namespace(namespace, &(), Some(&selector.join(",")));
        let events = events.reflect(writer).for_each(async |event| {
            match event {
                Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => {}
                // The cache has them once the list is complete.
                Ok(Event::Init | Event::InitApply(_)) => return,
                Err(error) => return warn!(%error, "the watch of the gateway's pods is retried"),
            }
            let mut found: Vec<_> = pods.state().iter().filter_map(|pod| pod.kept.0.clone()).collect();
            found.sort();
            let since = self.ready_since.lock().or(Some(Instant::now())).filter(|_| !found.is_empty());
            *self.ready_since.lock() = since;
            let replaces =
                |known: &mut Option<Vec<String>>| known.replace(found.clone()).as_ref() != Some(&found);
            if self.addresses.send_if_modified(replaces) {
                connects.queue_all(None);
            }
        });
        events.await;
    }

    /// Keeps the NetworkPolicy once all SparkConnects are known, and queues SparkConnects that have the same port, of
    /// which all but the oldest have to give it up; never ends.
    pub(super) async fn keep_policy(
        &self,
        connects: &Source<SparkConnect, KeptConnect>,
        default: ConnectAccess,
    ) {
        let (client, all) = (&connects.cluster.client, &connects.cache);
        all.wait_until_ready().await.expect("the writer lives as long as the watch");
        let mut applied = None;
        loop {
            let shared = self.shared(all);
            for connect in all.state() {
                if connect.kept.gateway_port.is_some_and(|port| shared.contains(&port)) {
                    connects.queue.add(&*connect);
                }
            }
            let policy = Some(self.policy(all, default)).filter(|policy| applied.as_ref() != Some(policy));
            if let Some(policy) = policy {
                match calls::apply(client, &self.setup.gateway.namespace, &policy).await {
                    Ok(_) => applied = Some(policy),
                    Err(error) => warn!(%error, "the NetworkPolicy of the gateway's ports is not written"),
                }
            }
            if timeout(REAPPLY_AFTER, self.news.notified()).await.is_err() {
                applied = None;
            }
            sleep(PAUSE).await;
        }
    }

    /// Records the ports that are in the statuses of two SparkConnects. Returns those that were not recorded before.
    fn shared(&self, all: &Store<Watched>) -> HashSet<i32> {
        let mut seen = HashSet::new();
        let ports = all.state().into_iter().filter_map(|connect| connect.kept.gateway_port);
        let found: HashSet<_> = ports.filter(|port| !seen.insert(*port)).collect();
        let known = mem::replace(&mut self.given.lock().shared, found.clone());
        &found - &known
    }

    fn policy(&self, all: &Store<Watched>, default: ConnectAccess) -> Value {
        let all = all.state();
        let ports = all.iter().filter_map(|connect| {
            let namespace = connect.meta().namespace.clone()?;
            Some((namespace, connect.kept.access.unwrap_or(default), connect.kept.gateway_port?))
        });
        gateway_policy(&self.setup.policy, &self.setup.gateway, ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::runtime::reflector::store::Writer;
    use serde_json::{from_value, json};
    use std::slice;

    fn connect(uid: &str, port: Option<i32>) -> Value {
        json!({
            "metadata": {"name": uid, "namespace": format!("of-{uid}"), "uid": uid},
            "spec": {"sparkVersion": "4.0.1", "server": {}, "executor": {}},
            "status": {"gateway": port.map(|port| json!({"port": port}))},
        })
    }

    fn cache(connects: &[Value]) -> Store<Watched> {
        let (store, mut writer): (_, Writer<Watched>) = reflector::store();
        for connect in connects {
            writer.apply_watcher_event(&Event::Apply(from_value(connect.clone()).unwrap()));
        }
        store
    }

    fn gateway(ports: RangeInclusive<i32>) -> KnownGateway {
        let gateway = Gateway { namespace: "ours".to_owned(), ..Gateway::default() };
        KnownGateway::new(GatewaySetup { gateway, ports, policy: "ports".to_owned() })
    }

    #[test]
    fn no_two_servers_get_the_same_port_and_each_keeps_its_own() {
        let gateway = gateway(1..=3);
        let all =
            [connect("old", Some(2)), connect("restored", Some(2)), connect("a", None), connect("b", None)];
        let cache = cache(&all);
        let port = |object: &Value| gateway.port(&from_value(object.clone()).unwrap(), &cache);
        let [old, restored, a, b] = &all;
        assert_eq!([a, old, restored].map(port), [Some(3), Some(2), Some(1)]);
        assert_eq!([a, old, b].map(port), [Some(3), Some(2), None]);
        // All others have been deleted.
        let cache = self::cache(&all[..1]);
        assert_eq!(gateway.port(&from_value(b.clone()).unwrap(), &cache), Some(3));
    }

    /// In an earlier version, each operator kept the port, and the clients of the younger server reached the older one,
    /// even if it was another user's.
    #[test]
    fn a_port_that_another_operator_has_given_to_an_older_server_is_given_up() {
        let gateway = gateway(1..=3);
        let created = |uid: &str, port, time: &str| {
            let mut connect = connect(uid, port);
            connect["metadata"]["creationTimestamp"] = json!(time);
            connect
        };
        let (older, own, younger) = ("2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z", "2026-11-21T12:00:02Z");
        let port = |recorded, others: &[Value]| {
            let own = created("own", recorded, own);
            let cache = cache(&[slice::from_ref(&own), others].concat());
            gateway.shared(&cache);
            gateway.port(&from_value(own).unwrap(), &cache)
        };
        assert_eq!(port(None, &[]), Some(1));
        assert_eq!(port(Some(1), &[created("a", Some(1), younger)]), Some(1));
        assert_eq!(port(Some(1), &[created("a", Some(1), older)]), Some(2));
        assert_eq!(port(Some(2), &[created("a", Some(1), older)]), Some(2));
    }

    /// Otherwise a Service that is about to be deleted would send the clients of one namespace to the server of another
    /// one.
    #[test]
    fn a_port_that_was_given_up_is_reused_after_all_others() {
        let gateway = gateway(1..=4);
        let ports = ["a", "b", "c", "d", "e"].map(|uid| {
            let connect = connect(uid, None);
            // The SparkConnect before it has been deleted.
            let cache = cache(slice::from_ref(&connect));
            gateway.port(&from_value(connect).unwrap(), &cache)
        });
        assert_eq!(ports, [1, 2, 3, 4, 1].map(Some));
        // An operator that has just started begins above the ports that are recorded in statuses.
        let all = [connect("old", Some(2)), connect("new", None)];
        let gateway = self::gateway(1..=4);
        assert_eq!(gateway.port(&from_value(all[1].clone()).unwrap(), &cache(&all)), Some(3));
    }

    #[test]
    fn a_namespace_has_at_most_as_many_ports_as_it_leaves() {
        let gateway = gateway(1..=8);
        let all: Vec<_> = (0..12)
            .map(|number| {
                let mut connect = connect(&number.to_string(), (number == 0).then_some(8));
                connect["metadata"]["namespace"] = json!(if number < 6 { "crowd" } else { "other" });
                connect
            })
            .collect();
        let cache = cache(&all);
        let has_port = |object: &Value| gateway.port(&from_value(object.clone()).unwrap(), &cache).is_some();
        let count = |of: &[Value]| of.iter().filter(|object| has_port(object)).count();
        assert_eq!([count(&all[..6]), count(&all[6..])], [4, 2]);
    }

    #[test]
    fn the_network_policy_has_the_ports_that_are_recorded() {
        let mut open = connect("open", Some(7));
        open["spec"]["server"] = json!({"access": "Cluster"});
        let cache = cache(&[connect("a", Some(5)), connect("b", None), open]);
        let policy = gateway(1..=9).policy(&cache, ConnectAccess::Namespace);
        let ingress = policy["spec"]["ingress"].as_array().unwrap();
        let ports: Vec<_> =
            ingress.iter().map(|rule| (&rule["ports"][0]["port"], rule.get("from").is_some())).collect();
        assert_eq!(ports, [(&json!(7), false), (&json!(5), true)]);
    }
}
