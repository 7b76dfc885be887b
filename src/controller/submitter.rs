//! Creates the objects of submissions in the background: a driver's, or those of a submission pod. What becomes of it is
//! an observation, by submission id, that the next reconcile makes.

use super::{
    ApplicationRef, native,
    slots::Slots,
    submission_metrics::{Outcome, SubmissionMetrics},
    way::Way,
};
use crate::{
    api::{SparkApplication, names::label},
    panics::caught,
    plan::{By, Submission, SubmissionProgress, SubmitRequest, submission::Submitter as Name},
};
use kube::{Client, ResourceExt};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, field, info, info_span};

/// How applications are submitted.
#[derive(Clone, Debug)]
pub struct SubmitterSettings {
    /// For how many the operator creates objects at once.
    pub at_once: usize,
    /// Whether there is a webhook that drivers need.
    pub has_webhook: bool,
}

/// Submits applications, at most so many at once, and remembers what became of each.
pub(super) struct Submitter {
    means: Arc<Means>,
    /// The last submission of each application, by uid.
    submissions: Arc<Mutex<HashMap<String, Started>>>,
    /// Whose submission has ended.
    ended: mpsc::UnboundedSender<ApplicationRef>,
    tasks: TaskTracker,
}

/// What a submission needs.
struct Means {
    client: Client,
    /// None where there is no webhook.
    way: Option<Way>,
    /// How many more may be submitted at once.
    slots: Slots,
    metrics: SubmissionMetrics,
}

struct Started {
    submission: Submission,
    cancel: CancellationToken,
}

/// Why a submission has not made a driver.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("a pod of the driver's name exists already")]
    DriverExists,
    #[error("{0}")]
    Failed(String),
}

impl Error {
    fn outcome(&self) -> Outcome {
        match self {
            Self::DriverExists => Outcome::DriverExists,
            Self::Failed(_) => Outcome::Failed,
        }
    }
}

impl Submitter {
    /// `ended` is told of every application whose submission has ended.
    pub(super) fn new(
        client: Client,
        settings: SubmitterSettings,
        metrics: SubmissionMetrics,
        ended: mpsc::UnboundedSender<ApplicationRef>,
    ) -> Self {
        let SubmitterSettings { at_once, has_webhook } = settings;
        let means = Means {
            way: has_webhook.then(|| Way::new(client.clone())),
            client,
            slots: Slots::new(at_once),
            metrics,
        };
        Self { means: Arc::new(means), submissions: Arc::default(), ended, tasks: TaskTracker::new() }
    }

    /// The last submission of the application with this uid.
    pub(super) fn submission(&self, uid: &str) -> Option<Submission> {
        locked(&self.submissions).get(uid).map(|started| started.submission.clone())
    }

    /// Starts a submission, unless it is running. An older one of the same application is ended.
    pub(super) fn start(&self, application: &SparkApplication, request: SubmitRequest) {
        let SubmitRequest { run, by } = request;
        let uid = application.uid().unwrap_or_default();
        let cancel = CancellationToken::new();
        let mut submissions = locked(&self.submissions);
        let submission = Submission { id: run.id.clone(), progress: SubmissionProgress::Running };
        if submissions.get(&uid).is_some_and(|started| started.submission == submission) {
            return;
        }
        let older = submissions.insert(uid.clone(), Started { submission, cancel: cancel.clone() });
        drop(submissions);
        if let Some(older) = older {
            older.cancel.cancel();
        }

        let application =
            ApplicationRef::new(&application.name_any()).within(&application.namespace().unwrap_or_default());
        let span = info_span!(parent: None, "submit",
            namespace = application.namespace, name = field::Empty, submission_id = %run.id, attempt = run.ordinal,
            submitter = by.submitter().as_str());
        span.record("name", &application.name);
        let (means, submissions, ended) =
            (Arc::clone(&self.means), Arc::clone(&self.submissions), self.ended.clone());
        let task = async move {
            let namespace = application.namespace.as_deref().unwrap_or_default();
            let submit = async {
                let submitted = caught(means.submit(namespace, &uid, by)).await;
                submitted.unwrap_or_else(|bug| SubmissionProgress::Failed(bug.to_string()))
            };
            let progress = cancel.run_until_cancelled(submit).await;
            if progress.is_none() {
                info!("submission ended: the application is gone or has changed");
            }
            let mut known = locked(&submissions);
            if let Some(started) = known.get_mut(&uid).filter(|started| started.submission.id == run.id) {
                match progress {
                    Some(progress) => started.submission.progress = progress,
                    None => drop(known.remove(&uid)),
                }
            }
            drop(known);
            // Nobody listens any more when the process is about to end.
            ended.send(application).ok();
        };
        self.tasks.spawn(task.instrument(span));
    }

    /// Ends whatever runs for the application with this uid; it is over when it is not among the submissions any
    /// more.
    pub(super) fn stop_one(&self, uid: &str) {
        if let Some(started) = locked(&self.submissions).get(uid) {
            started.cancel.cancel();
        }
    }

    /// Ends whatever runs for the application with this uid and forgets it.
    pub(super) fn forget(&self, uid: &str) {
        if let Some(started) = locked(&self.submissions).remove(uid) {
            started.cancel.cancel();
        }
    }

    /// Ends whatever runs for applications that are not among those with the uids `listed`, and forgets it.
    pub(super) fn forget_others(&self, listed: &HashSet<String>) {
        locked(&self.submissions).retain(|uid, started| {
            let stays = listed.contains(uid);
            if !stays {
                started.cancel.cancel();
            }
            stays
        });
    }

    /// Ends all that runs and waits until it has.
    pub(super) async fn stop(&self) {
        self.end_all();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn end_all(&self) {
        locked(&self.submissions).values().for_each(|started| started.cancel.cancel());
    }
}

impl Drop for Submitter {
    /// A leader that is deposed has no time to wait.
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Means {
    /// Creates the objects for the application with this uid in `namespace`.
    async fn submit(&self, namespace: &str, uid: &str, by: By) -> SubmissionProgress {
        let mut measured = self.metrics.waiting(by.submitter());
        if let By::Pod { fallback: Some(reason), .. } = &by {
            self.metrics.fell_back(*reason);
        }
        if let Some(way) = &self.way {
            way.opens(namespace).await;
        }
        let make = async {
            match &by {
                By::Native(objects) => native::create(&self.client, namespace, uid, objects).await,
                // A submission pod of this run may be there already, whatever its state: that is the one.
                By::Pod { objects, .. } => {
                    let all = objects.children.iter().chain([&objects.pod]);
                    native::make_all(&self.client, namespace, uid, all).await
                }
            }
        };
        let made = self.slots.within(namespace, || measured.begun(), make).await;
        match made {
            Ok(()) => {
                info!("{}", by.made());
                measured.ended(Outcome::Succeeded);
                by.progress()
            }
            Err(error) => {
                info!(%error, "submission failed");
                measured.ended(error.outcome());
                match error {
                    Error::DriverExists => SubmissionProgress::DriverExists,
                    Error::Failed(why) => SubmissionProgress::Failed(why),
                }
            }
        }
    }
}

impl By {
    const fn submitter(&self) -> Name {
        match self {
            Self::Native(_) => Name::Native,
            Self::Pod { .. } => Name::SparkSubmit,
        }
    }

    /// What is logged once all objects are made.
    const fn made(&self) -> &'static str {
        match self {
            Self::Native(_) => "submitted",
            Self::Pod { .. } => "submission pod made",
        }
    }

    /// How far the submission is once all objects are made.
    fn progress(&self) -> SubmissionProgress {
        match self {
            Self::Native(objects) => {
                let id = objects.pod["metadata"]["labels"][label::SPARK_APP_SELECTOR].as_str();
                SubmissionProgress::Succeeded { spark_application_id: id.map(str::to_owned) }
            }
            Self::Pod { .. } => SubmissionProgress::PodMade,
        }
    }
}

fn locked(submissions: &Mutex<HashMap<String, Started>>) -> MutexGuard<'_, HashMap<String, Started>> {
    submissions.lock().expect("no code panics while it holds this lock")
}
