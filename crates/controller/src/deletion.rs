//! Deletes or releases the pods of applications that are being deleted, are gone, or are in a namespace that this
//! operator does not drive any more.

use super::{Context, Error, Key, Watched, calls::Calls, execute, key};
use api::{Identity, Role, SparkApplication};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, ResourceExt};
use plan::{Action, lifecycle};
use pods::{Controller, PodSummary};
use std::time::Duration;
use tracing::{info, warn};

/// The pause before the next attempt after a failure.
const AGAIN: Duration = Duration::from_secs(60);

impl Context {
    /// Deletes or releases the pods of an application that is being deleted, or is gone. After a failure, returns the
    /// pause before the next attempt: Kubernetes deletes the pods by itself, but only the operator can remove its
    /// finalizer from a driver, and perhaps no further change of a pod causes a reconcile.
    ///
    /// In a namespace that this operator does not drive, another operator may drive applications. In such a namespace,
    /// only the drivers of applications that are gone are released: no operator can record the outcome of such a driver
    /// any more, and while the finalizer stays, neither the driver nor the namespace can be deleted.
    pub(super) async fn delete_or_release_pods(&self, key: &Key) -> Option<Duration> {
        let (namespace, name) = key;
        let namesake = self.source.cluster.application(namespace, name);
        let namesake = namesake.filter(|namesake| namesake.meta().deletion_timestamp.is_none());
        self.source.cluster.pods.forget(key, namesake.and_then(|namesake| namesake.uid()).as_deref());
        let mut pods: Vec<_> = self.source.cluster.pods.of(key).0.into_values().collect();
        let is_ours = self.source.cluster.namespaces.include(namespace);
        let actions = |pods: &[PodSummary], there: Option<&ObjectMeta>| {
            let mut actions = lifecycle::after_deletion(pods, there, &self.setup.policy);
            actions
                .retain(|action| is_ours || matches!(action, Action::ProtectDriver { protect: false, .. }));
            actions
        };
        // Pods that are being deleted already, or never belonged to an application, change often; no request is sent
        // for them.
        if actions(&pods, None).is_empty() {
            return None;
        }
        let left = |error: Error| {
            warn!(namespace, name, %error, "the pods of a deleted application are left to Kubernetes");
            Some(AGAIN)
        };
        let mut again = None;
        // Another application may have the name by now.
        let applications = Calls::of::<SparkApplication>(&self.source.cluster.client, namespace);
        let there = applications.metadata(name).await;
        let there = match there.map_err(Error::api("GET of the application")) {
            Ok(there) => there,
            Err(error) => return left(error),
        };
        // `kubectl delete --cascade=orphan` takes the owner reference from the pods first and then deletes the application. The
        // watch of pods may report that later than the one of applications.
        let calls = Calls::of::<Pod>(&self.source.cluster.client, namespace);
        let is_asked_for = |pod: &&mut PodSummary| {
            pod.role == Some(Role::Driver) && !pod.terminating && pod.is_of_application(name)
        };
        for driver in pods.iter_mut().filter(|_| is_ours && there.is_none()).filter(is_asked_for) {
            match calls.metadata(&driver.name).await.map_err(Error::api("GET of a driver")) {
                Ok(Some(found)) if found.uid().as_deref() == Some(&*driver.uid) => {
                    driver.controller = Controller::of(found.meta());
                }
                Ok(_) => {}
                // Without an owner, the driver is left alone: it is not known whether the user wants to keep it.
                Err(error) if error.is_unanswered() => return left(error),
                Err(error) => {
                    driver.controller = None;
                    again = left(error);
                }
            }
        }
        for action in actions(&pods, there.as_ref().map(Resource::meta)) {
            if let Err(error) = execute::about_pods(&self.source.cluster.client, namespace, action).await {
                // A hundred requests without an answer would take an hour.
                let is_over = error.is_unanswered();
                again = left(error);
                if is_over {
                    break;
                }
            }
        }
        again
    }

    /// Stops driving an application in a namespace that is not chosen, or that another operator drives. The pods
    /// continue to run, this process forgets the application, the operator's finalizer is removed from its drivers, and
    /// extensions let its pods go: see [`plan::extension::Extension::leave`]. Executors that are created later wait until an
    /// operator drives the namespace, if an extension makes them wait.
    ///
    /// The finalizer is removed once, and only from drivers of applications that this process has driven: another
    /// operator may drive the namespace by now, and its finalizer has the same name. If the other operator has already
    /// put its finalizer on such a driver, it sees at once that the finalizer is gone and restores it. If this operator
    /// removed the finalizer whenever it sees a driver, the two operators would remove and restore it endlessly.
    /// Therefore, if a namespace was deselected while no operator ran, its drivers keep the finalizer until their
    /// application is deleted.
    ///
    /// # Errors
    ///
    /// If a driver could not be released; the caller has to retry.
    pub(super) async fn leave(&self, watched: &Watched) -> Result<(), Error> {
        let (key, uid) = (key(watched), watched.own_uid());
        // `memory` has a note on every application that this process drives, from the first reconcile of the
        // application on.
        let was_ours = self.source.memory.lock().contains_key(uid);
        self.source.cluster.pods.forget(&key, None);
        if was_ours {
            let pods: Vec<_> = self.source.cluster.pods.of(&key).0.into_values().collect();
            for action in lifecycle::leave(&pods, uid, &self.setup.policy) {
                execute::about_pods(&self.source.cluster.client, &key.0, action).await?;
            }
            info!("no longer driven: the namespace is not ours any more");
        }
        self.forget(uid);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};
    use crate::{
        pods::KeptPod,
        source::{Reconciler, reconcile_key},
        tests::api_server,
    };
    use api::ObjectKind;
    use kube::runtime::watcher;
    use serde_json::{Value, from_value, json};
    use std::{
        future::ready,
        sync::atomic::{AtomicUsize, Ordering},
    };

    /// Method and path of each request.
    type Requests = Arc<Mutex<Vec<String>>>;

    /// Returns the context of an operator that drives only `namespace`, and the requests that the operator sends. The API
    /// server answers each method and path with `answer`.
    fn answered(
        namespace: &str,
        applications: reflector::Store<Watched>,
        answer: impl Fn(&str, &str) -> (u16, Value) + Send + 'static,
    ) -> (Context, Requests) {
        let requests = Requests::default();
        let recorded = Arc::clone(&requests);
        let client = api_server(move |request| {
            let (method, path) = (request.method().as_str(), request.uri().path());
            recorded.lock().push(format!("{method} {path}"));
            ready(answer(method, path))
        });
        let setup = Setup::of_tests(client, namespace);
        (Context::new(Cluster::new(&setup, applications), setup), requests)
    }

    /// Returns the context of an operator that drives only the namespace `ours`, and the requests that the operator
    /// sends. The API server has the pod `pi-driver`, the pod `no-owner`, which has no owner, and the application `pi`
    /// if `there` contains it.
    fn context(there: Option<Value>) -> (Context, Requests) {
        answered("ours", reflector::store().0, move |_, path| match &there {
            _ if path.ends_with("/no-owner") => (200, json!({"metadata": {"name": "no-owner", "uid": "d1"}})),
            _ if path.contains("/pods/") => (200, driver_json("pi-driver")),
            Some(there) => (200, there.clone()),
            None => (404, json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})),
        })
    }

    fn application() -> Value {
        crate::tests::application(&json!({"name": "pi", "namespace": "theirs", "uid": "u"}))
    }

    /// Returns a driver of the application with the uid `u`; the driver has the operator's finalizer.
    fn driver(name: &str) -> KeptPod {
        from_value(driver_json(name)).unwrap()
    }

    fn driver_json(name: &str) -> Value {
        let owner = json!({
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "name": "pi",
            "uid": "u", "controller": true,
        });
        json!({"metadata": {
            "name": name, "namespace": "theirs", "uid": "d1",
            "labels": {"sparkoperator.k8s.io/app-name": "pi", "spark-role": "driver"},
            "finalizers": ["sparkoperator.k8s.io/driver-outcome"], "ownerReferences": [owner],
        }})
    }

    fn has_pods(context: &Context, pods: impl IntoIterator<Item = KeptPod>) {
        for pod in pods {
            context.source.cluster.pods.apply(watcher::Event::Apply(pod));
        }
    }

    fn pi(namespace: &str) -> Key {
        (namespace.to_owned(), "pi".to_owned())
    }

    fn sent(requests: &Requests) -> Vec<String> {
        std::mem::take(&mut *requests.lock())
    }

    const APPLICATION: &str = "GET /apis/sparkoperator.k8s.io/v1beta2/namespaces/theirs/sparkapplications/pi";
    const RELEASE: &str = "PATCH /api/v1/namespaces/theirs/pods/pi-driver";

    /// In an earlier version, such pods kept the finalizer, so that neither they nor their namespace could be deleted.
    #[tokio::test]
    async fn drivers_in_a_deselected_namespace_lose_the_finalizer_once() {
        let (context, requests) = context(Some(application()));
        let watched: Watched = from_value(application()).unwrap();
        has_pods(&context, [driver("pi-driver")]);
        context.leave(&watched).await.unwrap();
        assert_eq!(sent(&requests), Vec::<String>::new(), "it never was ours");

        context.source.memory.begin("u");
        context.leave(&watched).await.unwrap();
        assert_eq!(sent(&requests), [RELEASE]);
        context.leave(&watched).await.unwrap();
        assert_eq!(sent(&requests), Vec::<String>::new(), "the finalizer is another operator's now");
    }

    #[tokio::test]
    async fn drivers_of_deleted_applications_lose_the_finalizer_everywhere() {
        let (context, requests) = context(None);
        let mut old = driver("old-driver");
        old.kept.protected = false;
        has_pods(&context, [driver("pi-driver"), old]);
        context.delete_or_release_pods(&pi("theirs")).await;
        assert_eq!(sent(&requests), [APPLICATION, RELEASE]);

        let (context, requests) = self::context(Some(application()));
        has_pods(&context, [driver("pi-driver")]);
        context.delete_or_release_pods(&pi("theirs")).await;
        assert_eq!(sent(&requests), [APPLICATION]);
    }

    /// In an earlier version, such a driver kept the finalizer until the operator was restarted, or until another
    /// application that has the name now was changed.
    #[tokio::test]
    async fn a_failed_release_of_a_driver_is_retried() {
        let namesake = crate::tests::application(&json!({"name": "pi", "namespace": "theirs", "uid": "new"}));
        let created = watcher::Event::Apply(from_value::<Watched>(namesake).unwrap());
        for ((code, again), has_namesake) in
            [(503, Some(AGAIN)), (200, None)].into_iter().flat_map(|case| [(case, false), (case, true)])
        {
            let (store, mut writer) = reflector::store();
            if has_namesake {
                writer.apply_watcher_event(&created);
            }
            let (context, _) = answered("ours", store, move |method, _| {
                let code = if method == "PATCH" { code } else { 404 };
                (code, json!({"kind": "Status", "status": "Failure", "code": code}))
            });
            has_pods(&context, [driver("pi-driver")]);
            context.departed.lock().insert(pi("theirs"));
            assert_eq!(reconcile_key(&context, &pi("theirs")).await, again, "{code} {has_namesake}");
        }
    }

    /// In an earlier version, such a driver kept the finalizer until the other application that has the name now was
    /// deleted, even if that application was created after the first failure.
    #[tokio::test]
    async fn a_failed_release_of_a_driver_is_retried_beside_a_namesake() {
        let refusals = AtomicUsize::new(0);
        let namesake = crate::tests::application(&json!({"name": "pi", "namespace": "theirs", "uid": "new"}));
        let created = watcher::Event::Apply(from_value::<Watched>(namesake.clone()).unwrap());
        let (store, mut writer) = reflector::store();
        let (context, requests) =
            answered("theirs", store, move |method, path| match path.contains("/pods/") {
                true if method == "PATCH" && refusals.fetch_add(1, Ordering::Relaxed) < 2 => {
                    (503, json!({"kind": "Status", "status": "Failure", "code": 503}))
                }
                true => (200, driver_json("pi-driver")),
                false => (200, namesake.clone()),
            });
        has_pods(&context, [driver("pi-driver")]);
        for (again, releases) in [(Some(AGAIN), 1), (Some(AGAIN), 1), (None, 1), (None, 0)] {
            assert_eq!(context.prepare(&pi("theirs")).await, again);
            let sent = sent(&requests);
            assert_eq!(sent.iter().filter(|request| *request == RELEASE).count(), releases, "{sent:?}");
            writer.apply_watcher_event(&created);
            let mut own = driver_json("other-driver");
            own["metadata"]["ownerReferences"][0]["uid"] = json!("new");
            context.source.cluster.pods.apply(watcher::Event::Delete(from_value(own).unwrap()));
        }
        let (_, departed) = context.source.cluster.pods.of(&pi("theirs"));
        assert_eq!(
            departed.map(|driver| driver.name),
            Some("other-driver".to_owned()),
            "it is the namesake's"
        );
    }

    /// In an earlier version, each refusal counted as success, so that a driver that still had the finalizer was
    /// forgotten silently.
    #[tokio::test]
    async fn a_finalizer_patch_that_comes_too_late_counts_as_success() {
        for (field, is_done) in
            [("metadata.uid", true), ("metadata.finalizers", true), ("spec.tolerations", false)]
        {
            let refusal = json!({
                "kind": "Status", "status": "Failure", "reason": "Invalid", "code": 422,
                "details": {"causes": [{"reason": "FieldValueForbidden", "field": field}]},
            });
            let client = api_server(move |_| ready((422, refusal.clone())));
            let (name, uid) = ("pi-driver".to_owned(), "d1".to_owned());
            let release = Action::ProtectDriver { name, uid, protect: false };
            let done = execute::about_pods(&client, "ours", release).await;
            assert_eq!(done.is_ok(), is_done, "{field}");
        }
    }

    /// In an earlier version, such a driver was deleted if the watch of pods was behind.
    #[tokio::test]
    async fn a_driver_that_has_lost_its_owner_reference_is_kept() {
        for is_kept in [true, false] {
            let (context, requests) = context(None);
            let mut known = driver(if is_kept { "no-owner" } else { "pi-driver" });
            known.meta_mut().namespace = Some("ours".to_owned());
            known.kept.protected = false;
            has_pods(&context, [known]);
            context.delete_or_release_pods(&pi("ours")).await;
            let deletions = sent(&requests).iter().filter(|request| request.starts_with("DELETE")).count();
            assert_eq!(deletions, usize::from(!is_kept));
        }
    }

    #[tokio::test]
    async fn many_children_are_deleted_in_several_turns() {
        let (context, requests) = context(None);
        let application: SparkApplication = from_value(application()).unwrap();
        context.source.memory.begin("u");
        let child = |i| ObjectKind::CONFIG_MAP.named(format!("child-{i}"));
        let children: Vec<_> = (0..130).map(child).collect();
        let mut seen = Vec::new();
        for (number, is_all) in [(64, false), (64, false), (2, true)] {
            let action = Action::DeleteChildren(children.clone());
            assert_eq!(execute::execute(&context, &application, action).await.unwrap().is_continue(), is_all);
            let turn = sent(&requests);
            assert_eq!(turn.len(), number);
            seen.extend(turn);
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), children.len(), "no child is requested twice");
    }

    /// In an earlier version, an application whose ConfigMap a policy protects was SUCCEEDING for ever.
    #[tokio::test]
    async fn a_child_that_a_policy_protects_does_not_keep_a_run_from_ending() {
        let owned = json!({"metadata": {"name": "conf", "uid": "c", "ownerReferences": [
            {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "name": "pi", "uid": "u"},
        ]}});
        for (code, is_done) in [(400, true), (403, true), (422, true), (500, false)] {
            let there = owned.clone();
            let client = api_server(move |request| {
                let refusal = json!({"kind": "Status", "status": "Failure", "code": code});
                ready(if request.method().as_str() == "GET" { (200, there.clone()) } else { (code, refusal) })
            });
            let children = [ObjectKind::CONFIG_MAP.named("conf".to_owned())];
            let done = crate::objects::delete(&client, "ours", "u", &children).await;
            assert_eq!(done.is_ok(), is_done, "{code}");
        }
    }

    /// In an earlier version, only the log said why such an application stayed SUSPENDING.
    #[tokio::test]
    async fn a_pod_that_a_policy_protects_is_reported() {
        let (context, requests) = answered("theirs", reflector::store().0, |method, _| {
            let code = if method == "DELETE" { 400 } else { 201 };
            (code, json!({"kind": "Status", "status": "Failure", "message": "denied", "code": code}))
        });
        let application: SparkApplication = from_value(application()).unwrap();
        let delete = Action::DeletePod { name: "pi-driver".to_owned(), uid: "d1".to_owned() };
        execute::execute(&context, &application, delete).await.unwrap_err();
        let events = "POST /apis/events.k8s.io/v1/namespaces/theirs/events";
        assert_eq!(sent(&requests), ["DELETE /api/v1/namespaces/theirs/pods/pi-driver", events]);
    }

    /// In an earlier version, memory grew with every driver in the namespaces of other operators.
    #[tokio::test]
    async fn drivers_in_namespaces_of_other_operators_are_forgotten() {
        let (context, _) = context(None);
        let has_departed = || context.source.cluster.pods.of(&pi("theirs")).1.is_some();
        let depart = || {
            context.source.cluster.pods.apply(watcher::Event::Delete(driver("pi-driver")));
            assert!(has_departed());
        };
        depart();
        context.delete_or_release_pods(&pi("theirs")).await;
        assert!(!has_departed());
        depart();
        context.leave(&from_value(application()).unwrap()).await.unwrap();
        assert!(!has_departed());
    }

    /// In an earlier version, every event of a pod that needs no action caused a request.
    #[tokio::test]
    async fn pods_that_need_no_action_cause_no_request() {
        let (context, requests) = context(None);
        let mut pod = driver("pi-driver");
        pod.meta_mut().namespace = Some("ours".to_owned());
        pod.kept.protected = false;
        pod.kept.controller = None;
        has_pods(&context, [pod]);
        context.delete_or_release_pods(&pi("ours")).await;
        assert_eq!(sent(&requests), Vec::<String>::new());
    }
}
