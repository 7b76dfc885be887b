//! Counts the requests that the applications of ten tenants cost the API server, and proves that a tenant whose
//! admission webhook is down delays only itself.

use crate::apiserver::prelude::*;
use api::{Lenient, State};
use futures::TryStreamExt;
use hyper::Uri;
use kube::runtime::{WatchStreamExt, watcher};

const TENANTS: usize = 10;
/// The tenant whose pods are never admitted, and the one whose applications fail once.
const BROKEN: &str = "load-0";
const RETRIED: &str = "load-1";
/// The maximum number of requests per run: for created objects, status writes, events, lookups and the clean-up.
const MOST: f64 = 30.0;
/// The time limit for all applications together. No machine needs so long.
const PATIENCE: Duration = Duration::from_secs(600);

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn ten_tenants_stay_within_the_request_limit_and_a_broken_one_delays_itself() {
    of_applications(6).await.unwrap_or_else(|why| panic!("{why}"));
}

/// Runs `each` applications of every tenant. Returns the number of requests per run, or what is wrong.
pub(crate) async fn of_applications(each: usize) -> Result<f64, String> {
    let namespace = Namespace::new("load").await;
    let tenants = Tenants::begin().await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let begun = proxy.requests().len();
    let _kubelet = tenants.kubelet();

    // The applications of the broken tenant come first.
    let all = (0..TENANTS).flat_map(|tenant| (0..each).map(move |i| (tenant, i)));
    stream::iter(all).for_each_concurrent(8, |(tenant, i)| tenants.submit(tenant, i)).await;
    let completed = tenants.completed((TENANTS - 1) * each);
    timeout(PATIENCE, completed)
        .await
        .expect("all applications but those of the broken tenant are COMPLETED");

    let mut calls = BTreeMap::<_, usize>::new();
    for (method, uri) in &proxy.requests()[begun..] {
        *calls.entry(call(method, uri)).or_default() += 1;
    }
    let ended = tenants.states(BROKEN).await.into_iter().filter(|state| *state != State::New).count();
    operator.stop().await;

    let sum = |is_wanted: &dyn Fn(&str, &str) -> bool| {
        let wanted = calls.iter().filter(|((call, tenant), _)| is_wanted(call, tenant));
        wanted.map(|(_, count)| *count).sum::<usize>()
    };
    let others = sum(&|_, tenant| tenant != BROKEN) as f64 / (TENANTS * each) as f64;
    let broken = sum(&|_, tenant| tenant == BROKEN) as f64 / each as f64;
    // A single list is the start of a watch: those of SparkConnects may start after the operator is ready.
    let lists = calls.iter().filter(|((call, _), count)| call.starts_with("LIST") && **count > 1).count();
    // Most applications of the broken tenant are still NEW, because only two submissions that are held up run at once.
    let is_as_wanted = others <= MOST && broken <= MOST && lists == 0 && ended <= each / 2;
    let seen = format!(
        "{others} requests a run, {broken} of the broken tenant's, of which {ended} are not NEW, {lists} kinds of repeated lists: {calls:#?}"
    );
    if is_as_wanted { Ok(others) } else { Err(seen) }
}

/// Returns verb and kind (`LIST pods`), and the namespace, of a request.
pub(crate) fn call(method: &Method, uri: &Uri) -> (String, String) {
    let parts = uri.path().split('/').skip(1).collect::<Vec<_>>();
    let resource = match &parts[..] {
        ["api", _, resource @ ..] | ["apis", _, _, resource @ ..] => resource,
        other => other,
    };
    let (namespace, kind, is_named) = match resource {
        ["namespaces", namespace, kind, name @ ..] => (*namespace, *kind, !name.is_empty()),
        [kind, name @ ..] => ("", *kind, !name.is_empty()),
        [] => ("", "", false),
    };
    let is_of_objects = matches!(parts[..], ["api" | "apis", ..]);
    let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
    let verb = match *method {
        Method::GET if is_watch => "WATCH",
        // A request that is not about objects, such as `/version`, has no kind.
        Method::GET if !is_named && is_of_objects => "LIST",
        _ => method.as_str(),
    };
    (format!("{verb} {kind}"), namespace.to_owned())
}

/// The namespaces of the tenants, and the objects in them.
struct Tenants {
    client: Client,
}

impl Tenants {
    async fn begin() -> Self {
        let client = Client::try_default().await.unwrap();
        for tenant in 0..TENANTS {
            calls::make_namespace(&name(tenant));
        }
        // No server listens at this URL.
        let webhook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": BROKEN},
            "webhooks": [{
                "name": "broken.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": BROKEN}},
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
            }],
        });
        calls::applied(&client, &webhook, None).await;
        Self { client }
    }

    /// Creates an application. Applications of the tenant `RETRIED` may run twice.
    async fn submit(&self, tenant: usize, i: usize) {
        let mut application = application(&format!("app-{i}"));
        let policy = if name(tenant) == RETRIED {
            json!({"type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 1})
        } else {
            json!({"type": "Never"})
        };
        application["spec"]["restartPolicy"] = policy;
        let application = serde_json::from_value(application).unwrap();
        let applications = Api::<SparkApplication>::namespaced(self.client.clone(), &name(tenant));
        applications.create(&PostParams::default(), &application).await.unwrap();
    }

    /// Runs each driver to its end, until the returned value is dropped. The first driver of each application of the
    /// tenant `RETRIED` fails.
    fn kubelet(&self) -> AbortOnDropHandle<()> {
        let client = self.client.clone();
        let work = async move {
            let config = watcher::Config::default().labels("spark-role=driver");
            let drivers = watcher(Api::<Lenient<Pod>>::all(client.clone()), config).default_backoff();
            let mut seen = HashMap::<(String, String), Vec<String>>::new();
            let new = drivers.applied_objects().try_filter_map(|driver| {
                let (namespace, uid) = (driver.namespace().unwrap(), driver.uid().unwrap());
                let uids = seen.entry((namespace, driver.name_any())).or_default();
                let is_new = !uids.contains(&uid);
                if is_new {
                    uids.push(uid);
                }
                let attempt = uids.len();
                futures::future::ok(is_new.then_some((driver, attempt)))
            });
            let mut new = pin!(new);
            while let Some(Ok((driver, attempt))) = new.next().await {
                let namespace = driver.namespace().unwrap();
                let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
                let spec = json!(driver.0.as_ref().unwrap().spec);
                let fails = namespace == RETRIED && attempt == 1;
                for status in [kubelet::running(&spec), kubelet::ended(&spec, i32::from(fails))] {
                    let patch = Patch::Merge(json!({"status": status}));
                    pods.patch_status(&driver.name_any(), &PatchParams::default(), &patch).await.unwrap();
                }
            }
        };
        AbortOnDropHandle::new(tokio::spawn(work))
    }

    /// Waits until `wanted` applications are COMPLETED.
    async fn completed(&self, wanted: usize) {
        let applications = Api::<Lenient<SparkApplication>>::all(self.client.clone());
        let changes = watcher(applications, watcher::Config::default()).default_backoff().applied_objects();
        let mut changes = pin!(changes);
        let mut completed = BTreeSet::new();
        while completed.len() < wanted {
            let application = changes.next().await.unwrap().unwrap();
            if state(&application) == State::Completed {
                completed.insert((application.namespace(), application.name_any()));
            }
        }
    }

    async fn states(&self, tenant: &str) -> Vec<State> {
        let applications = Api::<Lenient<SparkApplication>>::namespaced(self.client.clone(), tenant);
        applications.list(&ListParams::default()).await.unwrap().iter().map(state).collect()
    }
}

impl Drop for Tenants {
    fn drop(&mut self) {
        kubectl(&["delete", "validatingwebhookconfiguration", BROKEN, "--ignore-not-found"]);
    }
}

fn name(tenant: usize) -> String {
    format!("load-{tenant}")
}

fn state(application: &Lenient<SparkApplication>) -> State {
    application.0.as_ref().unwrap().state()
}
