//! How are applications submitted? In the background, by us or by `spark-submit`; what becomes of it is an
//! observation, by submission id, that the next reconcile makes.

use super::{
    ApplicationRef, native,
    spark_submit::{self, SparkSubmitSettings},
    submission_metrics::{Outcome, SubmissionMetrics},
    way::Way,
};
use crate::{
    api::{SparkApplication, names::label},
    plan::{By, Submission, SubmissionProgress, SubmitRequest, submission::Submitter as Name},
};
use kube::{Client, ResourceExt};
use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, field, info, info_span};

/// How applications are submitted.
#[derive(Clone, Debug)]
pub struct SubmitterSettings {
    /// How many are submitted by the operator itself at once.
    pub at_once: usize,
    /// How `spark-submit` is run, if there is one.
    pub spark_submit: Option<SparkSubmitSettings>,
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
    /// How many more may be submitted by ourselves.
    natives: Semaphore,
    /// How many more JVMs there may be.
    jvms: Semaphore,
    spark_submit: Option<SparkSubmitSettings>,
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
    #[error("failed to run spark-submit: it took longer than {} s and was ended", .0.as_secs())]
    TookTooLong(Duration),
    #[error("failed to run spark-submit: {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

impl Error {
    fn outcome(&self) -> Outcome {
        match self {
            Self::DriverExists => Outcome::DriverExists,
            Self::TookTooLong(_) => Outcome::TookTooLong,
            Self::Failed(_) | Self::Io { .. } => Outcome::Failed,
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
        let SubmitterSettings { at_once, spark_submit, has_webhook } = settings;
        let means = Means {
            way: has_webhook.then(|| Way::new(client.clone())),
            client,
            natives: Semaphore::new(at_once),
            jvms: Semaphore::new(spark_submit.as_ref().map_or(0, |settings| settings.at_once)),
            spark_submit,
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
            let progress = cancel.run_until_cancelled(means.submit(namespace, &uid, by)).await;
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
    /// Makes the driver of the application with this uid in `namespace`.
    async fn submit(&self, namespace: &str, uid: &str, by: By) -> SubmissionProgress {
        let mut measured = self.metrics.waiting(by.submitter());
        if let By::SparkSubmit { fallback: Some(reason), .. } = &by {
            self.metrics.fell_back(*reason);
        }
        if let Some(way) = &self.way {
            way.opens(namespace).await;
        }
        let limit = match &by {
            By::Native(_) => &self.natives,
            By::SparkSubmit { .. } => &self.jvms,
        };
        let _permit = limit.acquire().await.expect("this semaphore is never closed");
        measured.begun();
        let spark_application_id = by.spark_application_id();
        let result = match (by, &self.spark_submit) {
            (By::Native(objects), _) => native::create(&self.client, namespace, uid, &objects).await,
            (By::SparkSubmit { command, before, .. }, Some(settings)) => {
                match native::make_all(&self.client, namespace, uid, &before).await {
                    Ok(()) => spark_submit::run(settings, command).await,
                    failed => failed,
                }
            }
            (By::SparkSubmit { .. }, None) => Err(Error::Failed("there is no spark-submit".to_owned())),
        };
        match result {
            Ok(()) => {
                info!("submitted");
                measured.ended(Outcome::Succeeded);
                SubmissionProgress::Succeeded { spark_application_id }
            }
            Err(error) => {
                info!(%error, "submission failed");
                measured.ended(error.outcome());
                match error {
                    Error::DriverExists => SubmissionProgress::DriverExists,
                    error => SubmissionProgress::Failed(error.to_string()),
                }
            }
        }
    }
}

impl By {
    const fn submitter(&self) -> Name {
        match self {
            Self::Native(_) => Name::Native,
            Self::SparkSubmit { .. } => Name::SparkSubmit,
        }
    }

    /// `spark-submit` draws one, which its driver tells.
    fn spark_application_id(&self) -> Option<String> {
        let Self::Native(objects) = self else { return None };
        objects.pod["metadata"]["labels"][label::SPARK_APP_SELECTOR].as_str().map(str::to_owned)
    }
}

fn locked(submissions: &Mutex<HashMap<String, Started>>) -> MutexGuard<'_, HashMap<String, Started>> {
    submissions.lock().expect("no code panics while it holds this lock")
}
