//! How does a command end that does not end well? With one sentence on standard error, and an exit code that a script can go by.

use crate::client;
use std::io;

/// What --help says below the commands.
pub(super) const EXIT_CODES: &str = "\
Exit codes: 0, done; 1, it cannot be done, for the reason that is told; 2, the flags are wrong; 3, there is no such \
application or schedule; 4, the time of --timeout is over; 5, an application has come to another end than the one that was \
waited for; 141, nobody reads the output any more.

Linked as `kubectl-spark`, it is `kubectl spark`.";

/// Failures that scripts tell from others.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    TimedOut(String),
    /// An application has ended, and not as somebody waits for.
    #[error("{0}")]
    Ended(String),
    /// What a process reports that the end of its reader has ended.
    #[error("nobody reads standard output any more")]
    Unread,
}

impl Failure {
    const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => 3,
            Self::TimedOut(_) => 4,
            Self::Ended(_) => 5,
            Self::Unread => 141,
        }
    }
}

/// What the process exits with for `error`.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> u8 {
    error.downcast_ref().map_or(1, Failure::exit_code)
}

/// A failed call, in words for whoever typed the command.
pub(super) fn of_call(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.is_not_found() => {
            // The server says this of a path that it does not know.
            if status.message == "the server could not find the requested resource"
                || status.message.starts_with("404 page not found")
            {
                return anyhow::anyhow!(
                    "the cluster has no such kind of object: install the operator's CRDs (kubectl apply -k manifests)"
                );
            }
            Failure::NotFound(status.message).into()
        }
        kube::Error::Api(status) if status.code == 401 => anyhow::anyhow!(
            "the API server does not accept who you say you are ({}): log in again, or choose another --context",
            status.message
        ),
        kube::Error::Api(status) => anyhow::anyhow!(status.message),
        kube::Error::Auth(error) => {
            anyhow::anyhow!("the credentials of the context cannot be used: {error}: log in again")
        }
        error => {
            let mut words = format!("the API server cannot be reached: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(deeper) = cause {
                let told = deeper.to_string();
                if !words.ends_with(&told) {
                    words = format!("{words}: {told}");
                }
                cause = deeper.source();
            }
            anyhow::anyhow!(words)
        }
    }
}

/// What the client library says, in words for whoever typed the command.
pub(super) fn of_client(error: client::Error) -> anyhow::Error {
    match error {
        client::Error::Refused(status) => of_call(kube::Error::Api(status)),
        client::Error::Call(error) => of_call(error),
        client::Error::NotFound { .. } => Failure::NotFound(error.to_string()).into(),
        error => error.into(),
    }
}

/// What came of writing to standard output.
pub(super) fn of_output(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::Unread.into()),
        written => Ok(written?),
    }
}
