//! Numbers the requests to the API server about each application, and injects faults into chosen requests.

use crate::apiserver::{
    prelude::*,
    proxy::{Fault, Guard, Held},
};
use hyper::{Method, Request, StatusCode, body::Bytes};
use std::{collections::HashMap, sync::MutexGuard};
use tokio::sync::{mpsc, oneshot};

/// The prefix of the names of all applications; a number follows.
const PREFIX: &str = "case-";
const DIGITS: usize = 4;
const SUBMISSION_ID: &str = "sparkoperator.k8s.io/submission-id";

/// A fault that can happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CutBefore,
    CutAfter,
    Conflict,
    TooManyRequests,
    InternalError,
    Late,
    /// The operator gets SIGKILL, and another one is started. A request of a `spark-submit` continues.
    KilledBefore,
    KilledAfter,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::CutBefore,
        Self::CutAfter,
        Self::Conflict,
        Self::TooManyRequests,
        Self::InternalError,
        Self::Late,
        Self::KilledBefore,
        Self::KilledAfter,
    ];
}

/// The program that sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    Operator,
    SparkSubmit,
}

/// A request at which the operator is to be killed.
pub(super) struct Kill {
    pub caller: Caller,
    pub call: oneshot::Receiver<Held>,
}

/// Returns the name of the application with this number.
pub(crate) fn name(number: usize) -> String {
    format!("{PREFIX}{number:0DIGITS$}")
}

/// The guard of proxies, which sees the requests about all applications. All clones share their data.
#[derive(Clone)]
pub(crate) struct Director {
    cases: Arc<Mutex<Cases>>,
    kills: mpsc::UnboundedSender<Kill>,
}

#[derive(Default)]
struct Cases {
    by_name: HashMap<String, Case>,
    /// The names of applications, by the names of their objects and by the submission ids of their runs, for requests
    /// that do not contain the name of the application.
    known: HashMap<String, String>,
}

#[derive(Default)]
struct Case {
    calls: Vec<String>,
    /// The faults that are to happen, each with the number of its request. The first request has number 1.
    armed: Vec<(usize, Kind)>,
    injected: usize,
    /// The channel on which a test gets the intercepted request that creates the first driver.
    before_driver: Option<oneshot::Sender<Held>>,
}

impl Director {
    /// Returns a director, and a receiver of the requests at which the operator is to be killed.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Kill>) {
        let (kills, killed) = mpsc::unbounded_channel();
        (Self { cases: Arc::default(), kills }, killed)
    }

    /// Returns the guard for the proxy of this caller.
    pub(super) fn guard(&self, caller: Caller) -> Guard {
        let this = self.clone();
        Box::new(move |request| this.faults(caller, request))
    }

    /// Sets the faults of an application that does not exist yet.
    pub(crate) fn arm(&self, application: &str, faults: &[(usize, Kind)]) {
        self.locked().by_name.entry(application.to_owned()).or_default().armed = faults.to_vec();
    }

    /// Holds the creation of the application's first driver.
    pub(crate) fn hold_driver(&self, application: &str) -> oneshot::Receiver<Held> {
        let (catch, caught) = oneshot::channel();
        self.locked().by_name.entry(application.to_owned()).or_default().before_driver = Some(catch);
        caught
    }

    /// Returns the requests about the application so far: method, kind of object and faults.
    pub(crate) fn calls(&self, application: &str) -> Vec<String> {
        self.locked().by_name.get(application).map(|case| case.calls.clone()).unwrap_or_default()
    }

    /// Returns the number of faults that have happened to the application, and the number of those that have not.
    pub(crate) fn injected(&self, application: &str) -> (usize, usize) {
        let cases = self.locked();
        cases
            .by_name
            .get(application)
            .map_or((0, 0), |case| (case.injected, case.armed.len() - case.injected))
    }

    fn faults(&self, caller: Caller, request: &Request<Bytes>) -> Vec<Fault> {
        let query = decoded(request.uri().query().unwrap_or_default());
        // Watches end all the time; other tests cover that.
        if query.contains("watch=") {
            return Vec::new();
        }
        let (path, method) = (request.uri().path(), request.method());
        let mut cases = self.locked();
        let Some(application) = cases.whose(path, &query, request.body()) else { return Vec::new() };
        cases.learn(&application, path, request);
        let case = cases.by_name.entry(application).or_default();
        let by = if caller == Caller::Operator { "" } else { " (spark-submit)" };
        case.calls.push(format!("{method} {}{by}", kind_of(path)));
        let n = case.calls.len();
        let mut faults = Vec::new();
        if *method == Method::POST
            && path.ends_with("/pods")
            && is_driver(request.body())
            && let Some(catch) = case.before_driver.take()
        {
            faults.push(Fault::Held(Moment::Before, catch));
        }
        for (_, kind) in case.armed.iter().filter(|(at, _)| *at == n) {
            case.injected += 1;
            case.calls.last_mut().expect("one was pushed").push_str(&format!(" <- {kind:?}"));
            faults.push(self.fault(*kind, caller));
        }
        faults
    }

    fn fault(&self, kind: Kind, caller: Caller) -> Fault {
        let kill = |moment| {
            let (catch, call) = oneshot::channel();
            // The receiver is gone once the test is over.
            self.kills.send(Kill { caller, call }).ok();
            Fault::Held(moment, catch)
        };
        match kind {
            Kind::CutBefore => Fault::Cut(Moment::Before),
            Kind::CutAfter => Fault::Cut(Moment::After),
            Kind::Conflict => Fault::Refused(StatusCode::CONFLICT),
            Kind::TooManyRequests => Fault::Refused(StatusCode::TOO_MANY_REQUESTS),
            Kind::InternalError => Fault::Refused(StatusCode::INTERNAL_SERVER_ERROR),
            Kind::Late => Fault::Late(Duration::from_secs(2)),
            Kind::KilledBefore => kill(Moment::Before),
            Kind::KilledAfter => kill(Moment::After),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Cases> {
        self.cases.lock().unwrap()
    }
}

impl Cases {
    /// Returns the name of the application that a request is about.
    fn whose(&self, path: &str, query: &str, body: &[u8]) -> Option<String> {
        let words = || path.split('/').chain(query.split(['=', ',', '&']));
        named(path)
            .or_else(|| named(query))
            .or_else(|| words().find_map(|word| self.known.get(word).cloned()))
            .or_else(|| named(&String::from_utf8_lossy(body)))
    }

    /// Remembers that the object of this request belongs to the application, so that later requests with the object's
    /// name or submission id are recognized.
    fn learn(&mut self, application: &str, path: &str, request: &Request<Bytes>) {
        let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        let metadata = &body["metadata"];
        let in_path = path.rsplit('/').next().filter(|_| request.method() == Method::PATCH);
        let words = [metadata["name"].as_str(), metadata["labels"][SUBMISSION_ID].as_str(), in_path];
        let others = words.into_iter().flatten().filter(|word| *word != "status");
        self.known.extend(others.map(|word| (word.to_owned(), application.to_owned())));
    }
}

fn is_driver(pod: &[u8]) -> bool {
    let pod = serde_json::from_slice(pod).unwrap_or(Value::Null);
    pod["metadata"]["labels"]["spark-role"] == "driver"
}

/// Returns the first application that is named in `text`.
fn named(text: &str) -> Option<String> {
    let (_, after) = text.split_once(PREFIX)?;
    let number = after.get(..DIGITS).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(format!("{PREFIX}{number}"))
}

/// Decodes a query, as far as label selectors need it.
fn decoded(query: &str) -> String {
    [("%3D", "="), ("%2C", ","), ("%2F", "/")]
        .iter()
        .fold(query.to_owned(), |query, (code, character)| query.replace(code, character))
}

/// Returns the kind of object in the path of a request, with the subresource.
fn kind_of(path: &str) -> String {
    let words: Vec<_> = path.split('/').skip_while(|word| *word != "namespaces").skip(2).collect();
    match words[..] {
        [kind, _, below] => format!("{kind}/{below}"),
        [kind, ..] => kind.to_owned(),
        [] => path.to_owned(),
    }
}
