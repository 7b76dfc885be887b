//! Reconciles a SparkConnect: observes, decides, acts, and records the result.

use super::{
    super::{
        Error, FRESH_FACTS, calls,
        kept::KeptConnect,
        source::{Reconciler, Source},
    },
    Context, KnownGateway,
    execute::Applied,
};
use api::SparkConnect;
use connect::{Action, Plan, Policy};
use jiff::Timestamp;
use kube::ResourceExt;
use plan::between;
use std::time::Duration;
use tracing::{Span, debug, info};

/// How long a new SparkConnect waits until Kubernetes has deleted the objects of a deleted SparkConnect of its name,
/// which takes a moment unless a finalizer keeps them. After this time they count as objects of another owner.
const LEFT: Duration = Duration::from_secs(600);
/// The pause before an object that was refused is applied again: a quota or an admission policy may accept it later.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

impl Reconciler for Context {
    type Kind = SparkConnect;
    type Part = KeptConnect;

    fn source(&self) -> &Source<SparkConnect, KeptConnect> {
        &self.source
    }

    async fn reconcile(&self, connect: &SparkConnect, now: Timestamp) -> Result<Option<Duration>, Error> {
        // The earlier of the local time and the API server's: if the local clock jumped ahead, all servers would seem
        // to be idle.
        let now = (self.server_time)().map_or(now, |server| server.min(now));
        let state = connect.state();
        Span::current().record("state", state.as_str());
        let policy = Policy { gateway: self.gateway.as_ref().map(KnownGateway::now), ..self.policy.clone() };
        let mut seen = self.observe(connect, now).await?;
        let mut plan = connect::next(connect, &seen.facts, now, &policy);
        if self.look_for(connect, &plan.wanted, &mut seen).await? {
            plan = connect::next(connect, &seen.facts, now, &policy);
        }
        let age = connect.creation_timestamp().map_or(Duration::ZERO, |created| between(created.0, now));
        if seen.is_left && age < LEFT {
            debug!("objects of a deleted SparkConnect of this name are about to be deleted");
            return Ok(Some(FRESH_FACTS));
        }
        let Plan { actions, wanted, status, events, mut wake } = plan;
        let is_about_server =
            |action: &Action| matches!(action, Action::CreateServer(_) | Action::DeleteServer { .. });
        // A decision on a stale copy may end sessions, or start a server that nobody wants any more.
        if actions.iter().any(is_about_server)
            && !calls::is_current(&self.source.cluster.client, connect, "GET of the SparkConnect").await?
        {
            return Ok(Some(FRESH_FACTS));
        }
        // Servers are created last: a server needs its ConfigMap when it starts.
        let is_creation = |action: &Action| matches!(action, Action::CreateServer(_));
        let (creations, others): (Vec<_>, Vec<_>) = actions.into_iter().partition(is_creation);
        let is_deleted = others.contains(&Action::DeleteConnect);
        for action in others {
            self.execute(connect, action).await?;
        }
        let applied = self.apply(connect, wanted, &seen.versions, now).await?;
        if applied != Applied::All {
            wake = Some(wake.map_or(REFUSED_PAUSE, |wake| wake.min(REFUSED_PAUSE)));
        }
        if applied != Applied::Refused {
            for action in creations {
                self.execute(connect, action).await?;
            }
        }
        if !is_deleted && connect.status.clone().unwrap_or_default() != status {
            self.source.write(connect, &connect.status, &status).await?;
            if status.state != state {
                info!(from = state.as_str(), to = status.state.as_str(), "state changed");
            }
            // The next decision is made when the watches have reported the new status and the created objects.
            wake = Some(wake.map_or(FRESH_FACTS, |wake| wake.min(FRESH_FACTS)));
        }
        // The version of the object distinguishes its events: each version is decided on once, and each event reports a
        // change of the status.
        let occasion = connect.resource_version().unwrap_or_default();
        for event in &events {
            self.source.cluster.send_event(connect, &occasion, event, now).await;
        }
        Ok(wake)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            super::{Cluster, Setup},
            ConnectSetup, GatewaySetup,
        },
        *,
    };
    use api::{ConnectState, names::annotation};
    use http::{Method, Request};
    use kube::{client::Body, runtime::reflector};
    use parking_lot::Mutex;
    use serde_json::{Value, from_slice, from_value, json};
    use std::{collections::BTreeMap, sync::Arc};
    use submission::exposure::UrlFormat;
    use tokio::time::Instant;

    /// A fake API server that has these objects, by path, and refuses to create or change objects of the kind
    /// `refuses`, if it is set.
    #[derive(Clone, Default)]
    struct Server {
        objects: Arc<Mutex<BTreeMap<String, Value>>>,
        refuses: Arc<Mutex<Option<&'static str>>>,
        asked: Arc<Mutex<Vec<String>>>,
        /// The number of calls that succeed before one fails, and how that one fails.
        fault: Arc<Mutex<Option<(usize, Fault)>>>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fault {
        /// The call has no effect.
        Refused,
        /// The call has its effect, and its response is lost.
        Lost,
    }

    const CONNECT: &str = "/apis/sparkoperator.k8s.io/v1alpha1/namespaces/ours/sparkconnects/pi";
    const POD: &str = "/api/v1/namespaces/ours/pods/pi-server";

    impl Server {
        async fn answer(self, request: Request<Body>) -> (u16, Value) {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            self.asked.lock().push(format!("{method} {}", path.rsplit('/').next().unwrap_or_default()));
            let fault = self.fails();
            let body = request.into_body().collect_bytes().await.unwrap();
            let sent: Value = from_slice(&body).unwrap_or_default();
            let mut objects = self.objects.lock();
            let of_status = path.strip_suffix("/status").map(str::to_owned);
            let refusal = |code: u16, reason: &str, message: &str| {
                let status = json!({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code});
                (code, status)
            };
            let is_refused = self.refuses.lock().is_some_and(|kind| path.split('/').any(|part| part == kind));
            let expected = &sent["preconditions"]["resourceVersion"];
            let there = objects.get(&path).map(|there| &there["metadata"]["resourceVersion"]);
            let is_outdated = !expected.is_null() && there.is_some_and(|there| there != expected);
            let failed = || refusal(500, "InternalError", "no answer");
            let is_there = |name: &str| objects.contains_key(&format!("{path}/{name}"));
            let is_taken = sent["metadata"]["name"].as_str().is_some_and(is_there);
            let (code, answer) = match (method, of_status) {
                _ if fault == Some(Fault::Refused) => failed(),
                (Method::POST, _) if is_taken => refusal(409, "AlreadyExists", "there is one"),
                (Method::PATCH, Some(of)) => {
                    let connect = objects.get_mut(&of).unwrap();
                    write_status(connect, &sent["status"]);
                    (200, connect.clone())
                }
                (Method::PATCH | Method::POST, None) if is_refused => {
                    refusal(403, "Forbidden", "exceeded quota")
                }
                (Method::PATCH, None) => {
                    let mut applied = sent;
                    applied["metadata"]["resourceVersion"] = json!("7");
                    applied["metadata"]["uid"] = json!(path);
                    objects.insert(path, applied.clone());
                    (200, applied)
                }
                (Method::POST, _) => {
                    let name = sent["metadata"]["name"].as_str().unwrap_or_default();
                    objects.insert(format!("{path}/{name}"), sent.clone());
                    (201, sent)
                }
                (Method::DELETE, _) if is_outdated => refusal(409, "Conflict", "it has changed"),
                (Method::DELETE, _) => (200, objects.remove(&path).unwrap_or_default()),
                _ => match objects.get(&path) {
                    Some(there) => (200, there.clone()),
                    None => refusal(404, "NotFound", "none"),
                },
            };
            if fault.is_some() { failed() } else { (code, answer) }
        }

        /// Returns how this call fails, if it does.
        fn fails(&self) -> Option<Fault> {
            let mut fault = self.fault.lock();
            let (left, how) = (*fault)?;
            *fault = left.checked_sub(1).map(|left| (left, how));
            (left == 0).then_some(how)
        }

        /// Reports the server's pod as ready, as the kubelet does, if the pod exists.
        fn runs(&self) {
            if let Some(pod) = self.objects.lock().get_mut(POD) {
                pod["status"] = json!({
                    "phase": "Running", "podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": "True"}],
                });
            }
        }

        fn context(&self) -> Context {
            let server = self.clone();
            let client = crate::tests::api_server(move |request| server.clone().answer(request));
            let setup = Setup::of_tests(client, "ours");
            let cluster = Cluster::new(&setup, reflector::store().0);
            let connect = ConnectSetup { policy: Policy::new("k8s://api"), gateway: None };
            let metadata = json!({"name": "pi", "namespace": "ours", "uid": "u", "resourceVersion": "1"});
            let spec = json!({"sparkVersion": "4.0.1", "image": "spark", "server": {}, "executor": {}});
            let kind = ("sparkoperator.k8s.io/v1alpha1", "SparkConnect");
            let object = json!({"apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "spec": spec});
            self.objects.lock().entry(CONNECT.to_owned()).or_insert(object);
            let context = Context::new(cluster, &setup, connect, reflector::store().0);
            context.source.memory.begin("u");
            context
        }

        /// Returns a context with a gateway whose pods have been ready for this number of seconds.
        fn context_with_gateway(&self, server_time: Option<Timestamp>, ready_for: u64) -> Context {
            let gateway = connect::Gateway { namespace: "ours".to_owned(), ..connect::Gateway::default() };
            let setup = GatewaySetup { gateway, ports: 1..=2, policy: "ports".to_owned() };
            let gateway = KnownGateway::new(setup);
            *gateway.ready_since.lock() = Instant::now().checked_sub(Duration::from_secs(ready_for));
            Context { gateway: Some(gateway), server_time: Arc::new(move || server_time), ..self.context() }
        }

        /// Creates a server and reports its pod as ready.
        async fn is_ready(&self, context: &Context) {
            self.look(context).await;
            self.runs();
            self.look(context).await;
        }

        /// Reconciles the SparkConnect as it is now. Returns the operator's requests.
        async fn look(&self, context: &Context) -> Vec<String> {
            let connect = self.objects.lock()[CONNECT].clone();
            context.reconcile(&from_value(connect).unwrap(), super::super::super::now()).await.unwrap();
            std::mem::take(&mut *self.asked.lock())
        }
    }

    /// Writes a status as the API server does.
    fn write_status(connect: &mut Value, status: &Value) {
        let version: u64 = connect["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        connect["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        for (field, value) in status.as_object().unwrap() {
            connect["status"][field] = value.clone();
        }
    }

    #[tokio::test]
    async fn a_server_is_created_after_its_objects_which_are_applied_once() {
        let server = Server::default();
        let context = server.context();
        let first = server.look(&context).await;
        let expected = [
            "GET pi-server", "GET pi-conf", "GET pi-server", "GET pi-server", "GET pi", "PATCH pi-conf",
            "PATCH pi-server", "PATCH pi-server", "POST pods", "PATCH status", "POST events",
        ];
        assert_eq!(first, expected);
        assert_eq!(server.objects.lock()[POD]["metadata"]["ownerReferences"][0]["uid"], "u");
        // The pod exists, and no watch has reported anything.
        let second = server.look(&context).await;
        assert!(
            !second.iter().any(|asked| asked.starts_with("PATCH pi") || asked.starts_with("POST pods")),
            "{second:?}"
        );

        // Somebody has edited the Service.
        server.objects.lock().get_mut("/api/v1/namespaces/ours/services/pi-server").unwrap()["metadata"]["resourceVersion"] =
            json!("8");
        let third = server.look(&context).await;
        let patched: Vec<_> = third.iter().filter(|asked| asked.starts_with("PATCH pi")).collect();
        assert_eq!(patched, ["PATCH pi-server"]);
    }

    /// In an earlier version, an operator that had been down for longer than the idle time deleted servers that were in
    /// use: the gateway could not report their connections without the operator's webhook.
    #[tokio::test]
    async fn a_spark_connect_is_idle_by_the_api_servers_clock_and_only_once_the_gateway_could_report() {
        const BEGIN: &str = "1970-01-01T00:00:00Z";
        let time = |seconds| Timestamp::from_second(seconds).ok();
        for (server_time, ready_for, is_deleted) in
            [(time(10), 60, false), (time(61), 60, true), (None, 60, true), (None, 50, false)]
        {
            let server = Server::default();
            let context = server.context_with_gateway(server_time, ready_for);
            {
                let mut objects = server.objects.lock();
                let connect = objects.get_mut(CONNECT).unwrap();
                connect["spec"]["ttlSecondsAfterIdle"] = json!(60);
                let condition = json!({
                    "type": "GatewayMissing", "status": "False", "reason": "", "message": "", "lastTransitionTime": BEGIN,
                });
                connect["status"] = json!({"startTime": BEGIN, "conditions": [condition]});
            }
            server.look(&context).await;
            assert_eq!(
                server.objects.lock().contains_key(CONNECT),
                !is_deleted,
                "{server_time:?} {ready_for}"
            );
        }
    }

    /// After the fault, the same operator continues, or a new one that remembers nothing.
    #[tokio::test]
    async fn a_server_reaches_the_state_of_its_spec_after_any_failed_call() {
        for edit in [json!({}), json!({"image": "spark:2"}), json!({"suspend": true})] {
            for (fault, crashes) in [(Fault::Refused, false), (Fault::Lost, false), (Fault::Lost, true)] {
                for number in 0..20 {
                    reaches_the_state_of_its_spec(&edit, (number, fault), crashes).await;
                }
            }
        }
    }

    async fn reaches_the_state_of_its_spec(edit: &Value, fault: (usize, Fault), crashes: bool) {
        let server = Server::default();
        let mut context = server.context();
        let is_new = *edit == json!({});
        if !is_new {
            server.is_ready(&context).await;
            let mut objects = server.objects.lock();
            let spec = objects.get_mut(CONNECT).unwrap()["spec"].as_object_mut().unwrap();
            spec.extend(edit.as_object().unwrap().clone());
        }
        *server.fault.lock() = Some(fault);
        for _ in 0..7 {
            let connect = from_value(server.objects.lock()[CONNECT].clone()).unwrap();
            let done = context.reconcile(&connect, super::super::super::now()).await;
            if crashes && done.is_err() {
                context = server.context();
            }
            server.runs();
        }
        let what = format!("{edit} {fault:?} {crashes}");
        assert_eq!(*server.fault.lock(), None, "{what}: the fault has not occurred");
        let objects = server.objects.lock();
        let pod = objects.get(POD);
        let connect: SparkConnect = from_value(objects[CONNECT].clone()).unwrap();
        assert_eq!(connect.status.clone().unwrap().last_failure, None, "{what}");
        if connect.spec.suspend {
            assert_eq!((connect.state(), pod), (ConnectState::NotReady, None), "{what}");
        } else {
            let hash = &pod.expect(&what)["metadata"]["annotations"][annotation::SERVER_HASH];
            assert_eq!(*hash, connect::server_hash(&connect.spec), "{what}");
            assert_eq!(connect.state(), ConnectState::Ready, "{what}");
        }
        let is_deleted = server.asked.lock().contains(&"DELETE pi-server".to_owned());
        assert_eq!(is_deleted, !is_new, "{what}");
    }

    /// The gateway records a client after the operator has read the SparkConnect.
    #[tokio::test]
    async fn a_client_that_connects_at_the_last_moment_prevents_deletion() {
        const LONG_AGO: &str = "2020-01-01T00:00:00Z";
        for (field, path) in [("ttlSecondsAfterIdle", CONNECT), ("sleepAfterIdleSeconds", POD)] {
            for is_noted in [true, false] {
                let server = Server::default();
                let context = server.context_with_gateway(None, 60);
                server.is_ready(&context).await;
                server.objects.lock().get_mut(CONNECT).unwrap()["spec"][field] = json!(60);
                server.look(&context).await;
                let read = {
                    let mut objects = server.objects.lock();
                    let connect = objects.get_mut(CONNECT).unwrap();
                    let status = &mut connect["status"];
                    (status["startTime"], status["lastRestartTime"]) = (json!(LONG_AGO), json!(LONG_AGO));
                    for condition in status["conditions"].as_array_mut().unwrap() {
                        condition["lastTransitionTime"] = json!(LONG_AGO);
                    }
                    let read = connect.clone();
                    if is_noted {
                        connect["metadata"]["resourceVersion"] = json!("1000");
                    }
                    read
                };
                let done = context.reconcile(&from_value(read).unwrap(), super::super::super::now()).await;
                assert_eq!(server.objects.lock().contains_key(path), is_noted, "{field}: {done:?}");
            }
        }
    }

    /// In an earlier version, only an event reported that the Service was refused, and a program that waited for a
    /// state waited for ever.
    #[tokio::test]
    async fn a_refused_pod_or_service_is_reported_until_it_is_accepted() {
        for (refused, reason, why) in [
            ("pods", "PodRefused", "exceeded quota"),
            ("services", "ObjectRefused", "Service pi-server is refused: exceeded quota"),
        ] {
            let server = Server::default();
            let context = server.context();
            *server.refuses.lock() = Some(refused);
            let status = || server.objects.lock()[CONNECT]["status"].clone();
            server.look(&context).await;
            server.look(&context).await;
            let told = status();
            let condition = &told["conditions"][0];
            assert_eq!((&told["state"], &condition["reason"]), (&json!("Provisioning"), &json!(reason)));
            assert!(condition["message"].as_str().unwrap().ends_with(why), "{condition}");
            assert!(!server.objects.lock().contains_key(POD));
            *server.refuses.lock() = None;
            server.look(&context).await;
            assert!(server.objects.lock().contains_key(POD));
            server.look(&context).await;
            assert_ne!(status()["conditions"][0]["reason"], reason);
        }
    }

    #[tokio::test]
    async fn refused_executors_are_reported() {
        let server = Server::default();
        let context = server.context();
        server.is_ready(&context).await;
        let condition = |place: usize| server.objects.lock()[CONNECT]["status"]["conditions"][place].clone();
        assert_eq!(condition(0)["status"], "True");
        // It has been ready for years.
        server.objects.lock().get_mut(CONNECT).unwrap()["status"]["conditions"][0]["lastTransitionTime"] =
            json!("2020-01-01T00:00:00Z");
        *server.refuses.lock() = Some("pods");
        let asked = server.look(&context).await;
        assert_eq!(asked.iter().filter(|asked| *asked == "POST pods").count(), 1, "{asked:?}");
        let refused = condition(1);
        assert_eq!(
            (&refused["type"], &refused["message"]),
            (&json!("ExecutorsRefused"), &json!("executors are refused: exceeded quota"))
        );
        let asked = server.look(&context).await;
        assert!(!asked.contains(&"POST pods".to_owned()), "{asked:?}");
    }

    /// In an earlier version, a SparkConnect got no server if ingress-nginx refused the Ingress of its web UI, because
    /// an application of the same name had the same host and path.
    #[tokio::test]
    async fn a_server_is_created_although_the_ingress_of_its_web_ui_is_refused() {
        let server = Server::default();
        let mut context = server.context();
        context.policy.exposure.url_format =
            UrlFormat::parse("ui.example.com/{{$appNamespace}}/{{$appName}}").ok();
        *server.refuses.lock() = Some("ingresses");
        let asked = server.look(&context).await;
        assert!(asked.iter().any(|asked| asked == "PATCH pi-server-ui"), "{asked:?}");
        let objects = server.objects.lock();
        assert!(objects.contains_key(POD));
        assert_eq!(objects[CONNECT]["status"]["state"], "Provisioning");
    }

    #[tokio::test]
    async fn objects_of_a_deleted_server_are_awaited_and_those_of_others_reported() {
        let owned = |kind: &str, uid: &str| {
            let owner =
                json!({"apiVersion": "a/v1", "kind": kind, "name": "pi", "uid": uid, "controller": true});
            json!({"metadata": {"name": "pi-server", "namespace": "ours", "uid": "x", "ownerReferences": [owner]}})
        };
        let server = Server::default();
        let context = server.context();
        server.objects.lock().insert(POD.to_owned(), owned("SparkConnect", "before"));
        let asked = server.look(&context).await;
        assert!(asked.iter().all(|asked| asked.starts_with("GET")), "{asked:?}");

        server.objects.lock().get_mut(CONNECT).unwrap()["metadata"]["creationTimestamp"] =
            json!("2020-01-01T00:00:00Z");
        server.look(&context).await;
        let reason = server.objects.lock()[CONNECT]["status"]["conditions"][0]["reason"].clone();
        assert_eq!(reason, "NameTaken", "a finalizer keeps it");

        server.objects.lock().insert(POD.to_owned(), owned("ReplicaSet", "r"));
        let asked = server.look(&context).await;
        assert!(
            !asked.iter().any(|asked| ["DELETE pi-server", "POST pods"].contains(&&**asked)),
            "{asked:?}"
        );
        let connect: SparkConnect = from_value(server.objects.lock()[CONNECT].clone()).unwrap();
        assert_eq!(connect.state(), ConnectState::Failed);
        let why = server.objects.lock()[CONNECT]["status"]["conditions"][0]["message"].clone();
        assert!(why.as_str().unwrap().contains("Pod pi-server exists and does not belong to "), "{why}");
    }
}
