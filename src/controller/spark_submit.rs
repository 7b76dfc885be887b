//! How is `spark-submit` run? As a child process, with files that go when it has ended.

use super::submitter::Error;
use crate::plan::submission::{self, SparkSubmit, failure, redaction::redacted};
use std::{
    io,
    os::unix::{fs::DirBuilderExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    fs,
    io::AsyncReadExt,
    process::{Child, Command},
    time::timeout,
};
use tracing::{info, warn};

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

/// Removes the files of submissions that an operator before this one was killed in: they may hold secrets.
/// Whoever still needs them is submitted again.
pub(super) fn sweep() {
    match std::fs::remove_dir_all(submission::DIRECTORY) {
        Ok(()) => info!("files of earlier submissions removed"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // A volume is mounted there: the folder stays, and nothing in it.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && is_empty(submission::DIRECTORY) => {}
        Err(error) => {
            warn!(directory = submission::DIRECTORY, %error, "files of earlier submissions are left behind")
        }
    }
}

fn is_empty(directory: &str) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// One `spark-submit`, from writing its files to removing them.
pub(super) async fn run(settings: &SparkSubmitSettings, command: SparkSubmit) -> Result<(), Error> {
    info!(arguments = ?redacted(&command.arguments), "spark-submit started");
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
    Err(Error::Failed(format!("failed to run spark-submit: {}", failure::cause(&stderr).unwrap_or(how))))
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
