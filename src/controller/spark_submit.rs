//! How is `spark-submit` run? As a child process in the background; what becomes of it is an observation, by
//! submission id, that the next reconcile makes.

use super::{
    ApplicationRef,
    submission_metrics::{Outcome, SubmissionMetrics},
    way::Way,
};
use crate::{
    api::SparkApplication,
    plan::{
        Submission, SubmissionProgress, SubmitRequest,
        submission::{self, SparkSubmit, failure, redaction::redacted},
    },
};
use kube::{Client, ResourceExt};
use std::{
    collections::HashMap,
    io,
    os::unix::{fs::DirBuilderExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    fs,
    io::AsyncReadExt,
    process::{Child, Command},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, field, info, info_span, warn};

/// How much of either end of stderr is kept: the first exception is at its beginning or its end.
const KEPT: usize = 32 * 1024;

/// How `spark-submit` is run.
#[derive(Clone, Debug)]
pub struct SparkSubmitSettings {
    /// `$SPARK_HOME`.
    pub home: PathBuf,
    /// `$SPARK_CONF_DIR`, if it is not `conf` in `home`.
    pub conf_dir: Option<PathBuf>,
    /// `$KUBECONFIG`, if it is not the operator's own.
    pub kubeconfig: Option<PathBuf>,
    /// How many may run at once: a JVM costs hundreds of megabytes.
    pub at_once: usize,
    /// How long one may take.
    pub deadline: Duration,
}

/// Runs `spark-submit`, at most so many at once, and remembers how each ended.
pub(super) struct SparkSubmitRunner {
    settings: Arc<SparkSubmitSettings>,
    way: Arc<Way>,
    jvms: Arc<Semaphore>,
    metrics: SubmissionMetrics,
    /// The last submission of each application, by uid.
    submissions: Arc<Mutex<HashMap<String, Started>>>,
    /// Whose submission has ended.
    ended: mpsc::UnboundedSender<ApplicationRef>,
    tasks: TaskTracker,
}

struct Started {
    submission: Submission,
    cancel: CancellationToken,
}

/// Why a `spark-submit` has not made a driver.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("a pod of the driver's name exists already")]
    DriverExists,
    #[error("failed to run spark-submit: {0}")]
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

impl SparkSubmitRunner {
    /// `ended` is told of every application whose submission has ended.
    pub(super) fn new(
        client: Client,
        settings: SparkSubmitSettings,
        metrics: SubmissionMetrics,
        ended: mpsc::UnboundedSender<ApplicationRef>,
    ) -> Self {
        Self {
            way: Arc::new(Way::new(client)),
            jvms: Arc::new(Semaphore::new(settings.at_once)),
            settings: Arc::new(settings),
            metrics,
            submissions: Arc::default(),
            ended,
            tasks: TaskTracker::new(),
        }
    }

    /// Removes the files of submissions that an operator before this one was killed in: they may hold
    /// secrets. Whoever still needs them is submitted again.
    pub(super) fn sweep() {
        match std::fs::remove_dir_all(submission::DIRECTORY) {
            Ok(()) => info!("files of earlier submissions removed"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                warn!(directory = submission::DIRECTORY, %error, "files of earlier submissions are left behind")
            }
        }
    }

    /// The last submission of the application with this uid.
    pub(super) fn submission(&self, uid: &str) -> Option<Submission> {
        locked(&self.submissions).get(uid).map(|started| started.submission.clone())
    }

    /// Starts a submission, unless it is running. An older one of the same application is ended.
    pub(super) fn start(&self, application: &SparkApplication, request: SubmitRequest) {
        let uid = application.uid().unwrap_or_default();
        let id = request.run.id;
        let cancel = CancellationToken::new();
        let mut submissions = locked(&self.submissions);
        let submission = Submission { id: id.clone(), progress: SubmissionProgress::Running };
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
            namespace = application.namespace, name = field::Empty, submission_id = %id, attempt = request.run.ordinal);
        span.record("name", &application.name);
        let (way, jvms, settings, metrics) =
            (Arc::clone(&self.way), Arc::clone(&self.jvms), Arc::clone(&self.settings), self.metrics.clone());
        let (submissions, ended) = (Arc::clone(&self.submissions), self.ended.clone());
        let task = async move {
            let mut measured = metrics.waiting();
            let run = async {
                way.opens(application.namespace.as_deref().unwrap_or_default()).await;
                let _permit = jvms.acquire_owned().await.expect("this semaphore is never closed");
                measured.begun();
                info!(arguments = ?redacted(&request.command.arguments), "spark-submit started");
                run(&settings, request.command).await
            };
            let Some(result) = cancel.run_until_cancelled(run).await else {
                info!("spark-submit ended: the application is gone or has changed");
                return;
            };
            let (progress, outcome) = match result {
                Ok(()) => {
                    info!("spark-submit succeeded");
                    (SubmissionProgress::Succeeded, Outcome::Succeeded)
                }
                Err(error) => {
                    info!(%error, "spark-submit failed");
                    let outcome = error.outcome();
                    match error {
                        Error::DriverExists => (SubmissionProgress::DriverExists, outcome),
                        error => (SubmissionProgress::Failed(error.to_string()), outcome),
                    }
                }
            };
            measured.ended(outcome);
            if let Some(started) =
                locked(&submissions).get_mut(&uid).filter(|started| started.submission.id == id)
            {
                started.submission.progress = progress;
            }
            // Nobody listens any more when the process is about to end.
            ended.send(application).ok();
        };
        self.tasks.spawn(task.instrument(span));
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

impl Drop for SparkSubmitRunner {
    /// A leader that is deposed has no time to wait.
    fn drop(&mut self) {
        self.end_all();
    }
}

fn locked(submissions: &Mutex<HashMap<String, Started>>) -> MutexGuard<'_, HashMap<String, Started>> {
    submissions.lock().expect("no code panics while it holds this lock")
}

impl SparkSubmitSettings {
    /// The text of `spark-defaults.conf`, read anew each time: it may be a mounted ConfigMap.
    async fn spark_defaults(&self) -> Result<String, Error> {
        let directory = self.conf_dir.clone().unwrap_or_else(|| self.home.join("conf"));
        let path = directory.join("spark-defaults.conf");
        match fs::read_to_string(&path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|source| Error::Io { what: "cannot read", path, source }),
        }
    }
}

/// One `spark-submit`, from writing its files to removing them.
async fn run(settings: &SparkSubmitSettings, command: SparkSubmit) -> Result<(), Error> {
    let command = command.with_spark_defaults(&settings.spark_defaults().await?);
    let directory = PathBuf::from(&command.directory);
    let files = Files::write(&directory, &command).await?;
    let (spark_submit, deadline) = (settings.home.join("bin/spark-submit"), settings.deadline);
    let failed = |what, source| Error::Io { what, path: spark_submit.clone(), source };
    let environment = [("SPARK_CONF_DIR", &settings.conf_dir), ("KUBECONFIG", &settings.kubeconfig)];
    let mut child = Command::new(&spark_submit)
        .args(&command.arguments)
        .env("SPARK_HOME", &settings.home)
        .envs(environment.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))))
        // A JVM takes letters in arguments for what the locale says; without one it makes question marks of them.
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| failed("cannot start", source))?;
    let group = ProcessGroup::of(&child);
    let ended = timeout(deadline, outcome(&mut child)).await;
    drop((group, files));
    let (status, stderr) = ended
        .map_err(|_| Error::TookTooLong(deadline))?
        .map_err(|source| failed("cannot wait for", source))?;
    if status.success() {
        return Ok(());
    }
    if failure::is_driver_there(&stderr) {
        return Err(Error::DriverExists);
    }
    let how =
        status.signal().map_or_else(|| status.to_string(), |signal| format!("killed by signal {signal}"));
    Err(Error::Failed(failure::cause(&stderr).unwrap_or(how)))
}

async fn outcome(child: &mut Child) -> io::Result<(ExitStatus, String)> {
    let mut pipe = child.stderr.take().expect("stderr was asked for and is taken once");
    let (mut head, mut tail, mut buffer) = (Vec::new(), Vec::new(), [0; 8 * 1024]);
    loop {
        let read = pipe.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        let to_head = read.min(KEPT - head.len());
        head.extend_from_slice(&buffer[..to_head]);
        tail.extend_from_slice(&buffer[to_head..read]);
        if tail.len() > 2 * KEPT {
            tail.drain(..tail.len() - KEPT);
        }
    }
    head.extend_from_slice(&tail[tail.len().saturating_sub(KEPT)..]);
    Ok((child.wait().await?, String::from_utf8_lossy(&head).into_owned()))
}

/// The files of one submission; they are removed with it, however it ends, since they may hold secrets.
struct Files<'a>(&'a Path);

impl<'a> Files<'a> {
    async fn write(directory: &'a Path, command: &SparkSubmit) -> Result<Self, Error> {
        let failed = |what, path: &Path, source| Error::Io { what, path: path.to_owned(), source };
        let mut builder = std::fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|e| failed("cannot create", directory, e))?;
        let files = Self(directory);
        for (name, content) in &command.files {
            let path = directory.join(name);
            fs::write(&path, content).await.map_err(|error| failed("cannot write", &path, error))?;
        }
        Ok(files)
    }
}

impl Drop for Files<'_> {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(self.0) {
            warn!(directory = %self.0.display(), %error, "files of a submission are left behind");
        }
    }
}

/// The script and the JVMs that it starts; they end together.
struct ProcessGroup(Option<rustix::process::Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error means that none of them lives any more.
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        }
    }
}
