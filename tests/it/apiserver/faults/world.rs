//! Watches applications and pods, and records states that must never occur. Also plays the kubelet of drivers and
//! executors, and the garbage collector.

use super::Trouble;
use crate::apiserver::prelude::*;
use kube::{
    api::Preconditions,
    runtime::watcher::{self, Event, watcher},
};
use std::cell::Cell;

/// The maximum time for an application's next step, for each fault that happens to it. The operator reconciles again
/// after 5 s if it still has to send an event, and two dozen applications share two cores.
const STUCK: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(25);
/// The interval at which the test plays the garbage collector.
const COLLECT: Duration = Duration::from_millis(500);

/// A namespace that is watched.
pub(crate) struct World<'a> {
    namespace: &'a Namespace,
    seen: Arc<Mutex<Seen>>,
    patience: Cell<Duration>,
    /// The tasks end when this value is dropped.
    _following: [AbortOnDropHandle<()>; 3],
}

#[derive(Default)]
struct Seen {
    /// Whether `spark-submit` creates pods, which it does before the other objects that the pods need.
    pods_first: bool,
    /// All pods that ever existed, by uid.
    pods: BTreeMap<String, PodLife>,
    /// Applications by name.
    applications: BTreeMap<String, Value>,
    /// The states that an application has been in, by name.
    states: BTreeMap<String, Vec<String>>,
    /// The submission ids that applications have recorded. The two watches are independent: the end of a run's driver
    /// may be seen after the next run was recorded.
    recorded: BTreeSet<String>,
    /// States that must never occur, with the name of the application.
    doubled: Vec<(String, String)>,
}

#[derive(Clone)]
pub(crate) struct PodLife {
    pub uid: String,
    pub name: String,
    pub pod: Value,
    application: String,
    is_driver: bool,
    /// Whether the pod is a submission pod.
    submits: bool,
    /// The submission id.
    run: String,
    started: bool,
    ended: bool,
    /// Whether the pod is marked for deletion.
    terminating: bool,
    is_owned: bool,
    gone: bool,
    /// Whether the pod was deleted, before its run was recorded, by the `spark-submit` that created it: a
    /// `spark-submit` that fails deletes its driver, although a kubelet may have started it. The next `spark-submit`
    /// submits the same run.
    taken_back: bool,
}

impl PodLife {
    fn is_alive(&self) -> bool {
        !self.ended && !self.gone
    }
}

impl<'a> World<'a> {
    pub(crate) fn follow(namespace: &'a Namespace, pods_first: bool) -> Self {
        let seen = Arc::new(Mutex::new(Seen { pods_first, ..Seen::default() }));
        let following = [
            followed(namespace.api::<Pod>(), &seen, |seen, gone, pod| seen.pod(gone, pod)),
            followed(namespace.api::<SparkApplication>(), &seen, |seen, gone, app| {
                seen.application(gone, app)
            }),
            AbortOnDropHandle::new(tokio::spawn(collect(namespace.api::<Pod>(), Arc::clone(&seen)))),
        ];
        Self { namespace, seen, patience: Cell::new(STUCK), _following: following }
    }

    /// Sets the maximum number of faults of one application, which multiplies the time for each step.
    pub(crate) fn expect(&self, faults: usize) {
        self.patience.set(STUCK * u32::try_from(faults.max(1)).unwrap());
    }

    /// Returns how long an application's next step may take.
    pub(crate) fn patience(&self) -> Duration {
        self.patience.get()
    }

    /// Waits until the application fulfils `condition`.
    pub(crate) async fn becomes(
        &self,
        application: &str,
        what: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Result<Value, Trouble> {
        let found =
            self.until(|seen| seen.applications.get(application).filter(|it| condition(it)).cloned()).await;
        found.ok_or_else(|| {
            let seen = self.seen.lock().unwrap();
            let status = seen.applications.get(application).map(|it| &it["status"]);
            Trouble::Stuck(format!("is not {what}, but {}", json!(status)))
        })
    }

    pub(crate) async fn reaches(&self, application: &str, state: &str) -> Result<Value, Trouble> {
        self.becomes(application, state, |it| it["status"]["applicationState"]["state"] == state).await
    }

    /// Starts the driver that has not been started yet, as soon as all objects that it needs exist, and waits until the
    /// application is RUNNING. A `spark-submit` that gets no answer to its last request deletes its objects, even a
    /// driver that was started: then the next driver is started.
    pub(crate) async fn driver_runs(&self, application: &str) -> Result<PodLife, Trouble> {
        let begun = Instant::now();
        while begun.elapsed() < self.patience.get() {
            let startable = |pod: &&PodLife| {
                pod.application == application && pod.is_driver && pod.is_alive() && !pod.started
            };
            let Some(pod) = self.until(|seen| seen.pods.values().find(startable).cloned()).await else {
                break;
            };
            let is_startable = self.has_config_maps(&pod).await;
            if is_startable && self.report(&pod, kubelet::running(&pod.pod["spec"])).await {
                let followed = self.until(|seen| seen.follows(&pod)).await;
                if followed == Some(true) {
                    return Ok(pod);
                }
            }
            sleep(PAUSE).await;
        }
        let seen = self.seen.lock().unwrap();
        let status = seen.applications.get(application).map(|it| &it["status"]);
        Err(Trouble::Stuck(format!("has no running driver: {}", json!(status))))
    }

    /// Ends a pod's containers with this exit code. Does nothing if the pod is gone.
    pub(crate) async fn ends(&self, pod: &PodLife, exit_code: i32) {
        self.report(pod, kubelet::ended(&pod.pod["spec"], exit_code)).await;
    }

    /// Creates a running executor of `driver`.
    pub(crate) async fn executor(&self, application: &str, driver: &PodLife) -> PodLife {
        let executor = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{application}-{}-exec-1", &driver.uid[..8]),
                "labels": {
                    "spark-role": "executor", "spark-exec-id": "1",
                    "spark-app-selector": driver.pod["metadata"]["labels"]["spark-app-selector"],
                    "sparkoperator.k8s.io/app-name": application,
                    "sparkoperator.k8s.io/submission-id": driver.run,
                    "sparkoperator.k8s.io/launched-by-spark-operator": "true",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": driver.name, "uid": driver.uid, "controller": true,
                }],
            },
            "spec": {"containers": [{"name": "spark-kubernetes-executor", "image": "none"}]},
        });
        let made = self.namespace.create::<Pod>(&executor).await;
        let executor = PodLife::of(&made);
        self.report(&executor, kubelet::running(&executor.pod["spec"])).await;
        executor
    }

    /// Returns the states of this application that must never occur.
    pub(crate) fn doubled(&self, application: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.doubled.iter().filter(|(whose, _)| whose == application).map(|(_, what)| what.clone()).collect()
    }

    /// Returns the number of drivers of the application that were ever started.
    pub(crate) fn drivers_started(&self, application: &str) -> usize {
        let is_it = |pod: &&PodLife| {
            pod.application == application && pod.is_driver && pod.started && !pod.taken_back
        };
        self.seen.lock().unwrap().pods.values().filter(is_it).count()
    }

    /// Waits until the application has no pod (unless `is_any`: no submission pod); returns the name of one that stays.
    pub(crate) async fn pod_left(&self, application: &str, is_any: bool) -> Option<String> {
        let left = |seen: &Seen| {
            let is_left =
                |pod: &&PodLife| pod.application == application && (is_any || pod.submits) && !pod.gone;
            seen.pods.values().find(is_left).map(|pod| pod.name.clone())
        };
        match self.until(|seen| left(seen).is_none().then_some(())).await {
            Some(()) => None,
            None => left(&self.seen.lock().unwrap()),
        }
    }

    /// Returns the application as it was last seen.
    pub(crate) fn application(&self, application: &str) -> Value {
        self.seen.lock().unwrap().applications.get(application).cloned().unwrap_or_default()
    }

    /// Returns the states that the application has been in.
    pub(crate) fn states(&self, application: &str) -> Vec<String> {
        self.seen.lock().unwrap().states.get(application).cloned().unwrap_or_default()
    }

    async fn until<T>(&self, look: impl Fn(&Seen) -> Option<T>) -> Option<T> {
        let begun = Instant::now();
        loop {
            if let Some(found) = look(&self.seen.lock().unwrap()) {
                return Some(found);
            }
            if begun.elapsed() > self.patience.get() {
                return None;
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns whether the ConfigMaps that the pod mounts exist: a kubelet does not start the pod before.
    async fn has_config_maps(&self, pod: &PodLife) -> bool {
        for volume in pod.pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let Some(name) = volume["configMap"]["name"].as_str() else { continue };
            if self.namespace.get::<ConfigMap>(name).await.is_none() {
                return false;
            }
        }
        true
    }

    /// Writes the status of exactly this pod; returns false if the pod is gone.
    async fn report(&self, pod: &PodLife, status: Value) -> bool {
        kubelet::reported(&self.namespace.api::<Pod>(), &pod.name, &pod.uid, &status).await
    }
}

/// Deletes the pods that Kubernetes' own controllers would delete: pods of which the application, the direct or
/// indirect owner, is gone, and pods that are marked for deletion and on no node. The API server first marks a pod and
/// then deletes it: a client whose connection is cut in between leaves a marked pod.
async fn collect(pods: Api<DynamicObject>, seen: Arc<Mutex<Seen>>) {
    loop {
        let garbage = seen.lock().unwrap().garbage();
        for pod in garbage {
            let this = Preconditions { uid: Some(pod.uid), resource_version: None };
            let delete = DeleteParams::default().grace_period(0).preconditions(this);
            // A pod that is already gone is no problem, and other failures are retried.
            pods.delete(&pod.name, &delete).await.ok();
        }
        sleep(COLLECT).await;
    }
}

fn followed(
    api: Api<DynamicObject>,
    seen: &Arc<Mutex<Seen>>,
    see: fn(&mut Seen, bool, &DynamicObject),
) -> AbortOnDropHandle<()> {
    let seen = Arc::clone(seen);
    let following = watcher(api, watcher::Config::default()).for_each(move |event| {
        let mut seen = seen.lock().unwrap();
        match event.expect("the test's own requests bypass the proxy, so none fails") {
            Event::Apply(object) | Event::InitApply(object) => see(&mut seen, false, &object),
            Event::Delete(object) => see(&mut seen, true, &object),
            Event::Init | Event::InitDone => {}
        }
        std::future::ready(())
    });
    AbortOnDropHandle::new(tokio::spawn(following))
}

impl PodLife {
    fn of(pod: &Value) -> Self {
        let metadata = &pod["metadata"];
        let labels = &metadata["labels"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let phase = text(&pod["status"]["phase"]);
        Self {
            uid: text(&metadata["uid"]),
            name: text(&metadata["name"]),
            application: text(&labels["sparkoperator.k8s.io/app-name"]),
            is_driver: labels["spark-role"] == "driver",
            submits: labels["spark-role"] == "submission",
            run: text(&labels["sparkoperator.k8s.io/submission-id"]),
            started: phase == "Running",
            ended: phase == "Succeeded" || phase == "Failed",
            terminating: metadata["deletionTimestamp"].is_string(),
            is_owned: metadata["ownerReferences"].is_array(),
            gone: false,
            taken_back: false,
            pod: pod.clone(),
        }
    }
}

impl Seen {
    fn pod(&mut self, gone: bool, pod: &DynamicObject) {
        let mut life = PodLife::of(&json!(pod));
        life.gone = gone;
        life.taken_back = gone && self.pods_first && !self.recorded.contains(&life.run);
        let before = self.pods.get(&life.uid);
        let (is_new, was_started) = (before.is_none(), before.is_some_and(|before| before.started));
        if is_new && (life.is_driver || life.submits) {
            self.made(&life);
        }
        if life.started && !was_started && life.is_driver {
            let is_other = |pod: &&PodLife| {
                let is_of_run = pod.is_driver && pod.run == life.run && pod.uid != life.uid;
                is_of_run && pod.started && !pod.taken_back
            };
            if self.pods.values().any(|pod| is_other(&pod)) {
                self.doubled.push((life.application.clone(), format!("run {} has two drivers", life.run)));
            }
        }
        life.started |= was_started;
        self.pods.insert(life.uid.clone(), life);
    }

    /// Checks, when a driver or a submission pod is created, that no other pod of the application is alive, except the
    /// driver's own submission pod; and that no run has two drivers.
    fn made(&mut self, made: &PodLife) {
        let ours = self.pods.values().filter(|pod| pod.application == made.application);
        for pod in ours {
            let is_other = pod.is_driver || pod.run != made.run || pod.submits && made.submits;
            let what = if pod.is_alive() && is_other {
                "still lives"
            } else if pod.is_driver && made.is_driver && pod.run == made.run && !self.pods_first {
                "was created for the same run"
            } else {
                continue;
            };
            self.doubled.push((
                made.application.clone(),
                format!("{} is created, but {} {what}", made.name, pod.name),
            ));
        }
    }

    /// Returns whether the application is RUNNING with this driver; `None` if that may still happen.
    fn follows(&self, driver: &PodLife) -> Option<bool> {
        if self.pods[&driver.uid].gone {
            return Some(false);
        }
        let status = &self.applications.get(&driver.application)?["status"];
        let runs = status["applicationState"]["state"] == "RUNNING" && status["submissionID"] == driver.run;
        (runs && self.pods[&driver.uid].started).then_some(true)
    }

    fn garbage(&self) -> Vec<PodLife> {
        let was_owned = |pod: &PodLife| {
            let is_gone = !self.applications.contains_key(&pod.application);
            is_gone && self.states.contains_key(&pod.application) && pod.is_owned
        };
        // Terminating submission pods are on a node, which removes them.
        let is_garbage = |pod: &&PodLife| !pod.gone && (pod.terminating && !pod.submits || was_owned(pod));
        self.pods.values().filter(is_garbage).cloned().collect()
    }

    fn application(&mut self, gone: bool, application: &DynamicObject) {
        let name = application.name_any();
        if gone {
            self.applications.remove(&name);
            return;
        }
        let application = json!(application);
        let state =
            application["status"]["applicationState"]["state"].as_str().unwrap_or_default().to_owned();
        self.recorded.extend(application["status"]["submissionID"].as_str().map(str::to_owned));
        let states = self.states.entry(name.clone()).or_default();
        if states.last() != Some(&state) {
            states.push(state);
        }
        self.applications.insert(name, application);
    }
}
