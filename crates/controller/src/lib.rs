//! Reconciles applications, schedules and Spark Connect servers: watches them, observes the facts, lets the decision
//! crates (`plan`, `schedules`, `connect`) decide what to do, acts, and records the result.
//!
//! A reconcile depends only on the present state of one object, not on the event that has caused it. Every failure
//! is retried, and every action can be repeated, so nothing has to be remembered across a crash.

mod application_index;
mod application_metrics;
mod auxiliary_index;
mod auxiliary_objects;
mod calls;
mod connects;
mod deletion;
mod error;
mod events;
mod execute;
mod kept;
mod namespaced_watches;
mod namespaces;
mod objects;
mod observe;
mod pods;
mod queue;
mod queue_state;
mod reconcile;
mod reconcile_memory;
mod schedule_owner;
mod schedules;
mod source;
mod start_failures;
mod submission_environment;
mod submission_metrics;
mod submission_room;
mod submission_slots;
mod submitter;
mod unreadable;
mod watch;
mod webhook_probe;
mod workload;

pub use self::application_metrics::ApplicationMetrics;
pub use self::connects::{ConnectSetup, GatewaySetup};
use self::pods::PodIndex;
pub use self::schedules::ScheduleMetrics;
use api::{Identity, SparkApplication};
use auxiliary_index::AuxiliaryIndex;
use error::Error;
use futures::{StreamExt, future::OptionFuture, stream};
use jiff::Timestamp;
use kept::{Kept, KeptApplication};
use kube::{
    Client, ResourceExt,
    runtime::reflector::{self, ObjectRef},
};
use namespaces::OurNamespaces;
use parking_lot::Mutex;
use plan::{Policy, extension::ExtensionMemory};
use source::Source;
use start_failures::StartFailures;
use std::{collections::HashSet, sync::Arc, time::Duration};
pub use submission_environment::{SubmissionEnvironment, Unreadable};
pub use submission_metrics::SubmissionMetrics;
use submitter::Submitter;
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
pub use watch::Watching;
use work::Turns;
pub use workload::{Workload, Workloads};

/// An application as the watch delivers it. One that cannot be decoded does not stop the watch of the others.
type Watched = Kept<SparkApplication, KeptApplication>;
/// The cache of applications, and what their reconcile loop shares with the loops of other kinds.
type Applications = Source<SparkApplication, KeptApplication>;
/// Namespace and name of an object.
type Key = (String, String);

/// Returns namespace and name of an object.
fn key(object: &impl ResourceExt) -> Key {
    (object.own_namespace().to_owned(), object.name_any())
}

/// Returns the time by the API server's clock; `None` until the API server has reported its time.
pub type ServerTime = Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>;

/// The pause before the next reconcile if the cached facts were stale. The watch usually delivers fresh facts sooner.
const FRESH_FACTS: Duration = Duration::from_secs(1);

/// The settings, the client and the metrics that the controller uses.
#[derive(Clone)]
pub struct Setup {
    pub client: Client,
    pub policy: Policy,
    pub schedule_policy: ::schedules::Policy,
    /// The settings for SparkConnects; `None` if the operator does not reconcile them.
    pub connect: Option<ConnectSetup>,
    /// The maximum number of submissions that run at once, without those of namespaces that are held up.
    pub max_submissions: usize,
    /// The environment variables and configuration files that submissions use.
    pub submission_environment: SubmissionEnvironment,
    pub application_metrics: ApplicationMetrics,
    pub submission_metrics: SubmissionMetrics,
    pub schedule_metrics: ScheduleMetrics,
    pub watching: Watching,
    /// Records which objects wait for a reconcile and which are being reconciled, and limits how many are reconciled at
    /// once.
    pub workloads: Workloads,
    /// The name of the operator's pod, for events.
    pub instance: String,
    pub server_time: ServerTime,
}

/// The client, the caches and the limits that all reconcile loops share. Cheap to clone: all clones share them.
#[derive(Clone)]
struct Cluster {
    client: Client,
    /// The name of the operator's pod, for events.
    instance: String,
    watching: Watching,
    /// Limits how many lists are read at once; namespaces take turns.
    lists: Turns,
    /// Limits how many large objects are reconciled at once; namespaces take turns.
    large: Turns,
    /// Limits how many Services, Ingresses and objects of extensions are changed at once; namespaces take turns.
    changes: Turns,
    namespaces: Arc<OurNamespaces>,
    pods: Arc<PodIndex>,
    auxiliary: Arc<AuxiliaryIndex>,
    start_failures: Arc<StartFailures>,
    /// The cache of applications, fed by the watch.
    applications: reflector::Store<Watched>,
}

impl Cluster {
    fn new(setup: &Setup, applications: reflector::Store<Watched>) -> Self {
        Self {
            client: setup.client.clone(),
            instance: setup.instance.clone(),
            watching: setup.watching.clone(),
            lists: Turns::new(calls::PAGES),
            large: Turns::new(kept::AT_ONCE),
            changes: Turns::new(auxiliary_objects::AT_ONCE),
            namespaces: Arc::new(OurNamespaces::new(setup.watching.namespaces.clone())),
            pods: Arc::default(),
            auxiliary: Arc::new(AuxiliaryIndex::new(&setup.policy.extensions)),
            start_failures: Arc::default(),
            applications,
        }
    }

    /// Returns an application as the cache has it.
    fn application(&self, namespace: &str, name: &str) -> Option<Arc<Watched>> {
        self.applications.get(&ObjectRef::new(name).within(namespace))
    }

    /// Waits until the caches are complete. Until then, a pod or an application that is not in the cache may still exist,
    /// and its application would be treated as one that has lost the pod.
    async fn synced(&self) {
        self.namespaces.synced().await;
        self.pods.synced().await;
        self.auxiliary.synced().await;
        self.applications.wait_until_ready().await.expect("the writer lives as long as `run`");
    }
}

/// Everything that the reconcile loop of applications uses and remembers.
struct Context {
    source: Applications,
    setup: Setup,
    background: Background,
    submitter: Arc<Submitter>,
    extension_memories: Mutex<Vec<Box<dyn ExtensionMemory>>>,
    /// The applications that have been deleted, and whose pods have not been handled since.
    departed: Mutex<HashSet<Key>>,
    /// Limits the events about unreadable objects to one at a time; namespaces take turns.
    reports: Turns,
}

impl Context {
    fn new(cluster: Cluster, setup: Setup) -> Self {
        let applications = cluster.applications.clone();
        let source = Source::new(cluster, &setup.workloads.applications, applications);
        Self {
            extension_memories: Mutex::new(
                setup.policy.extensions.iter().filter_map(|extension| extension.memory()).collect(),
            ),
            background: Background::default(),
            submitter: Submitter::new(source.clone(), setup.clone()),
            source,
            setup,
            departed: Mutex::default(),
            reports: Turns::with_room(1, unreadable::WAITING),
        }
    }
}

/// Tasks for which no reconcile waits. When this value is dropped, the tasks that still run are cancelled, even if they
/// wait for a response: a leader that has lost the lease has no time to wait.
#[derive(Default)]
struct Background {
    tasks: TaskTracker,
    over: CancellationToken,
}

impl Background {
    fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        let over = self.over.clone();
        self.tasks.spawn(async move { over.run_until_cancelled(work).await });
    }

    /// Cancels all tasks and waits until they have ended.
    async fn stop(&self) {
        self.over.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

/// Runs the controller until `stop` is cancelled. `synced` is called once, when the caches are complete.
pub async fn run(setup: Setup, synced: impl FnOnce(), stop: CancellationToken) {
    let (applications, writer) = reflector::store();
    let (schedules, schedule_writer) = reflector::store();
    let (connects, connect_writer) = reflector::store();
    let cluster = Cluster::new(&setup, applications);
    let of_schedules = Arc::new(schedules::Context::new(cluster.clone(), &setup, schedules));
    let of_connects = setup.connect.clone();
    let of_connects =
        of_connects.map(|of| Arc::new(connects::Context::new(cluster.clone(), &setup, of, connects)));
    let context = Arc::new(Context::new(cluster.clone(), setup));

    // The watches; each one queues the objects that change.
    let follow_applications = context.source.follow(writer, |event| {
        of_schedules.children.apply(event);
        context.on_event(event);
    });
    let reporting = cluster.watching.reporting_to(&context);
    let pods = Arc::clone(&cluster.pods).follow(&reporting);
    let auxiliary = cluster.auxiliary.follow(&reporting);
    let queue = &context.source.queue;
    let follow_objects =
        stream::select(pods, auxiliary).for_each(async |(namespace, name)| queue.push(&namespace, &name));
    let namespaces = Arc::clone(&cluster.namespaces).follow(&cluster.watching);
    let follow_namespaces = namespaces.for_each(async |namespace| {
        context.source.queue_all(Some(&namespace));
        of_schedules.source.queue_all(Some(&namespace));
        if let Some(of_connects) = &of_connects {
            of_connects.source.queue_all(Some(&namespace));
        }
    });
    let reconcile_all = async {
        if stop.run_until_cancelled(cluster.synced()).await.is_none() {
            return;
        }
        let shown = Arc::new(cluster.clone());
        context.setup.application_metrics.show(&shown);
        synced();
        // Schedules and SparkConnects run in tasks of their own, so that they do not wait while thousands of applications
        // are reconciled.
        let schedules = schedules::run(Arc::clone(&of_schedules), schedule_writer, stop.clone());
        let schedules = AbortOnDropHandle::new(tokio::spawn(schedules));
        let connects = of_connects.clone().map(|of| connects::run(of, connect_writer, stop.clone()));
        let connects = AbortOnDropHandle::new(tokio::spawn(OptionFuture::from(connects)));
        let ((), ended, also) = futures::join!(source::work(&context, &stop), schedules, connects);
        ended.expect("it neither panics nor is aborted");
        also.expect("it neither panics nor is aborted");
    };
    tokio::select! {
        () = reconcile_all => {}
        () = follow_applications => {}
        () = follow_objects => {}
        () = follow_namespaces => {}
    }
    context.background.stop().await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the controller: read when a reconcile begins, in background work and for reports"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::application_metrics::Options;
    use http::{Request, Response};
    use jiff::tz::TimeZone;
    use kube::client::Body;
    use plan::namespaces::Namespaces;
    use prometheus_client::registry::Registry;
    use serde_json::{Value, json};
    use watches::Watches;

    /// Returns a client of an API server that answers each request with the code and the object that `answer` returns.
    pub(crate) fn api_server<F>(answer: impl Fn(Request<Body>) -> F + Send + 'static) -> Client
    where
        F: Future<Output = (u16, Value)> + Send + 'static,
    {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = answer(request);
            async move {
                let (code, object) = answer.await;
                Response::builder().status(code).body(Body::from(object.to_string().into_bytes()))
            }
        });
        Client::new(service, "default")
    }

    /// Returns the smallest application with this metadata.
    pub(crate) fn application(metadata: &Value) -> Value {
        json!({
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "metadata": metadata,
            "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
        })
    }

    impl Setup {
        /// Returns the setup of an operator that drives only `namespace`.
        pub(crate) fn of_tests(client: Client, namespace: &str) -> Self {
            let namespaces = Namespaces::new([namespace.to_owned()], None);
            let mut registry = Registry::default();
            Self {
                policy: Policy { protects_driver_outcome: true, ..Policy::new("k8s://https://10.0.0.1:443") },
                schedule_policy: ::schedules::Policy {
                    precision: ::schedules::Precision::default(),
                    shortest_period: Duration::ZERO,
                    zone: TimeZone::UTC,
                },
                connect: None,
                max_submissions: 1,
                submission_environment: SubmissionEnvironment::of_process(None),
                application_metrics: ApplicationMetrics::new(Options::default()),
                submission_metrics: SubmissionMetrics::new(&mut registry),
                schedule_metrics: ScheduleMetrics::new(&mut registry),
                watching: Watching::new(client.clone(), namespaces, 60, Watches::default(), &mut registry),
                workloads: Workloads::new(&mut registry, 1),
                instance: "operator".to_owned(),
                server_time: Arc::new(|| None),
                client,
            }
        }
    }
}
