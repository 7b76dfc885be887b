//! Creates the objects of submissions in the background: the objects of a driver, or the objects of a submission pod.
//! The next reconcile observes the result, by submission id.

use super::{
    Applications, Background, Setup, key,
    objects::{Encoded, Error, InFlight, Maker},
    reconcile_memory::{Note, Started},
    source::Source,
    submission_room::SubmissionRoom,
    submission_slots::Slots,
    webhook_probe::WebhookProbe,
};
use api::{Identity, SparkApplication, names::label};
use kube::ResourceExt;
use plan::{
    By, Submission, SubmissionProgress, SubmitRequest, copies::Copies, submission_plan::Submitter as Kind,
};
use spark_client::Reason;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field, info, info_span};
use work::caught;

/// Submits applications, a limited number at once, and remembers the result of each submission.
pub(super) struct Submitter {
    setup: Setup,
    applications: Applications,
    room: Arc<SubmissionRoom>,
    /// The check that the API server reaches the webhook; `None` if there is no webhook.
    webhook_probe: Option<WebhookProbe>,
    /// Limits how many submissions run at once.
    slots: Slots,
}

/// A submission as it waits for its turn.
struct Planned {
    submitter: Kind,
    fallback: Option<Reason>,
    /// In the order in which they are created; the pod comes after the copies.
    children: Vec<Encoded>,
    copies: Copies,
    pod: Encoded,
    /// The progress of the submission once all objects are created.
    done: SubmissionProgress,
}

impl Planned {
    fn of(by: By, copies: Copies) -> Self {
        let (submitter, done, objects, fallback) = match by {
            By::Native(objects) => {
                let id = objects.pod["metadata"]["labels"][label::SPARK_APP_SELECTOR].as_str();
                let done = SubmissionProgress::Succeeded { spark_application_id: id.map(str::to_owned) };
                (Kind::Native, done, objects, None)
            }
            By::Pod { objects, fallback } => {
                (Kind::SparkSubmit, SubmissionProgress::PodMade, objects, fallback)
            }
        };
        let pod = Encoded::of(&objects.pod);
        let children = objects.children.into_iter().map(|child| Encoded::of(&child)).collect();
        Self { submitter, fallback, children, copies, pod, done }
    }

    fn len(&self) -> usize {
        let copy = self.copies.iter().next().map_or(0, |copy| PARSED * Encoded::of(&copy).len());
        self.pod.len() + copy + self.children.iter().map(Encoded::len).sum::<usize>()
    }
}

/// The memory of a parsed object as a multiple of that of its text.
const PARSED: usize = 8;

impl Submitter {
    /// Creates a submitter that runs `setup.max_submissions` submissions at once. If the operator has a webhook,
    /// submissions wait until the API server reaches it. Every application whose submission has ended is queued.
    pub(super) fn new(applications: Applications, setup: Setup) -> Arc<Self> {
        let has_webhook = setup.policy.submission.has_webhook;
        Arc::new(Self {
            room: Arc::default(),
            applications,
            webhook_probe: has_webhook.then(|| WebhookProbe::new(setup.client.clone())),
            slots: Slots::new(setup.max_submissions),
            setup,
        })
    }

    /// Returns the last submission of the application with this uid.
    pub(super) fn submission(&self, uid: &str) -> Option<Submission> {
        let notes = self.applications.memory.lock();
        notes.get(uid)?.submission.as_ref().map(|started| started.submission.clone())
    }

    /// Whether the next submission of this application may be planned. If not, the application has to be reconciled
    /// again later.
    pub(super) fn has_room(&self, application: &impl ResourceExt) -> bool {
        self.room.is_there(application.own_namespace())
    }

    /// Starts a submission in the `background`, unless it is running already. Cancels an older submission of the same
    /// application.
    pub(super) fn start(
        self: &Arc<Self>,
        background: &Background,
        application: &SparkApplication,
        request: SubmitRequest,
    ) {
        let SubmitRequest { run, by, copies } = request;
        let uid = application.own_uid().to_owned();
        let cancel = CancellationToken::new();
        let submission = Submission { id: run.id.clone(), progress: SubmissionProgress::Running };
        if self.submission(&uid).as_ref() == Some(&submission) {
            return;
        }
        let started = Started { submission, cancel: cancel.clone().drop_guard() };
        self.applications.memory.with(&uid, |note| note.submission = Some(started));

        let (namespace, name) = key(application);
        let planned = Planned::of(by, copies);
        let place = self.room.take(&namespace, planned.len());
        let span = info_span!(parent: None, "submit",
            namespace, name = field::Empty, submission_id = %run.id, attempt = run.ordinal,
            submitter = planned.submitter.as_str());
        span.record("name", &name);
        let submitter = Arc::clone(self);
        let task = async move {
            let in_flight = InFlight::default();
            let submit = async {
                let submitted = caught(submitter.submit(&namespace, &uid, planned, &in_flight)).await;
                submitted.unwrap_or_else(|bug| SubmissionProgress::Failed(bug.to_string()))
            };
            let given_up = async {
                cancel.cancelled().await;
                in_flight.lock().await
            };
            let progress = tokio::select! {
                progress = submit => Some(progress),
                _cancelled = given_up => None,
            };
            drop(place);
            if progress.is_none() {
                info!("submission ended: the application is gone or has changed");
            }
            let Source { memory, queue, .. } = &submitter.applications;
            if let Some(note) = memory.lock().get_mut(&uid)
                && let Some(started) = &mut note.submission
                && started.submission.id == run.id
            {
                match progress {
                    Some(progress) => started.submission.progress = progress,
                    None => note.submission = None,
                }
            }
            queue.push(&namespace, &name);
        };
        background.start(task.instrument(span));
    }

    /// Cancels the submission of the application with this uid as soon as no request of it is unanswered. It has ended
    /// when [`Self::submission`] does not return it any more.
    pub(super) fn stop_one(&self, uid: &str) {
        if let Some(Note { submission: Some(started), .. }) = self.applications.memory.lock().get(uid) {
            started.cancel.token().cancel();
        }
    }

    /// Creates the objects for the application with this uid in `namespace`.
    async fn submit(
        &self,
        namespace: &str,
        uid: &str,
        planned: Planned,
        in_flight: &InFlight,
    ) -> SubmissionProgress {
        let Planned { submitter, fallback, children, copies, pod, done } = planned;
        let Setup { client, policy, submission_metrics: metrics, .. } = &self.setup;
        let mut measured = metrics.waiting(submitter);
        if let Some(reason) = fallback {
            metrics.fallbacks.get_or_create(&[("reason", reason.as_str())]).inc();
        }
        let (extensions, pod) = (&policy.extensions, &pod);
        let maker = Maker { client, namespace, owner: uid, extensions, pod: Some(pod), in_flight };
        let make = async {
            if let Some(webhook_probe) = &self.webhook_probe {
                webhook_probe.reached(namespace).await;
            }
            for child in &children {
                maker.make(child).await?;
            }
            for copy in copies.iter() {
                maker.make(&Encoded::of(&copy)).await?;
            }
            if submitter == Kind::Native {
                maker.make_driver(pod).await
            } else {
                // A submission pod of this run may exist already, in any state: that pod is used.
                maker.make(pod).await
            }
        };
        let progress = match self.slots.within(namespace, || measured.begun(), make).await {
            Ok(()) => {
                if submitter == Kind::Native {
                    info!("submitted");
                } else {
                    info!("submission pod made");
                }
                done
            }
            Err(error) => {
                info!(%error, "submission failed");
                match error {
                    Error::DriverExists => SubmissionProgress::DriverExists,
                    Error::Failed(why) => SubmissionProgress::Failed(why),
                }
            }
        };
        measured.ended(&progress);
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, tests::api_server};
    use kube::runtime::reflector;
    use serde_json::{from_value, json};
    use spark_client::Objects;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use submission::run::Run;
    use tokio::{sync::Notify, task::yield_now};

    /// In an earlier version, the ConfigMap of a submission pod was created after the application had been suspended
    /// and everything else had been deleted.
    #[tokio::test]
    async fn a_cancelled_submission_ends_with_the_answer_to_its_last_request() {
        let (sent, arrived, answered) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (counted, arriving, answering) = (Arc::clone(&sent), Arc::clone(&arrived), Arc::clone(&answered));
        let client = api_server(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            arriving.notify_one();
            let answering = Arc::clone(&answering);
            async move {
                answering.notified().await;
                (200, json!({}))
            }
        });
        let mut setup = Setup::of_tests(client, "default");
        setup.policy.submission.has_webhook = false;
        let cache = reflector::store().0;
        let applications =
            Source::new(Cluster::new(&setup, cache.clone()), &setup.workloads.applications, cache);
        applications.memory.begin("of-pi");
        let queue = Arc::clone(&applications.queue);
        let (submitter, background) = (Submitter::new(applications, setup), Background::default());
        let metadata = json!({"name": "pi", "namespace": "default", "uid": "of-pi"});
        let application: SparkApplication = from_value(crate::tests::application(&metadata)).unwrap();
        let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "pi"}});
        let objects = Objects { pod: object("Pod"), children: vec![object("ConfigMap")] };
        let request = SubmitRequest {
            run: Run::next(&application),
            by: By::Pod { objects, fallback: None },
            copies: Copies::default(),
        };
        submitter.start(&background, &application, request);

        arrived.notified().await;
        submitter.stop_one("of-pi");
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(submitter.submission("of-pi").is_some(), "its ConfigMap may yet be created");
        answered.notify_one();
        assert_eq!(queue.next().await, ("default".to_owned(), "pi".to_owned()));
        assert_eq!(submitter.submission("of-pi"), None);
        assert_eq!(sent.load(Ordering::Relaxed), 1, "the pod was not sent");
    }
}
