//! Converts errors to what the user of a failed command sees: a message on standard error, and an exit code for
//! scripts.

use super::yaml;
use kube::{client::AuthError, runtime::watcher};
use spark_operator_client::{self as client, patience::can_pass};
use std::{error::Error, io, iter::successors};

/// The end of the text of --help.
pub(super) const EXIT_CODES: &str = "\
Exit codes: 0, done; 1, failed, for the reason in the message; 2, the flags are wrong; 3, there is no such \
object; 4, the time of --timeout is over; 5, an application has ended in another state than the awaited one; \
141, the reader of the output has closed it.

Through a link named `kubectl-spark`, this program is `kubectl spark`.";

/// The failures that scripts can distinguish by the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    TimedOut(String),
    /// The application has ended, but not in the state that the command waits for.
    #[error("{0}")]
    Ended(String),
    /// Standard output is a closed pipe, as in `sparkctl list | head`. The exit code is that of a process that SIGPIPE
    /// has killed.
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

/// Returns the exit code of the process for `error`.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    error.downcast_ref().map_or(1, Failure::exit_code)
}

/// Converts the error of a failed request to the API server to a message for the user.
pub(super) fn of_call(error: kube::Error) -> anyhow::Error {
    match error {
        // A 404 without an object name in its details means that the API server does not know the kind; if only the
        // object is missing, the details contain its name.
        kube::Error::Api(status)
            if status.code == 404
                && status.details.as_ref().is_none_or(|details| details.name.is_empty()) =>
        {
            anyhow::anyhow!(
                "the cluster has no such kind of object: install the operator's CRDs (kubectl apply -k manifests)"
            )
        }
        kube::Error::Api(status) if status.is_not_found() => Failure::NotFound(status.message).into(),
        kube::Error::Api(status) if status.code == 401 => anyhow::anyhow!(
            "the API server does not accept your credentials ({}): log in again, or choose another --context",
            status.message
        ),
        kube::Error::Api(status) => anyhow::anyhow!(status.message),
        kube::Error::Auth(AuthError::AuthExecStart(error)) => anyhow::anyhow!(
            "the program that the kubeconfig names for credentials (users[].user.exec) cannot be run: {error}: install it, or choose \
             another --context"
        ),
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => anyhow::anyhow!(
            "the program that the kubeconfig names for credentials (users[].user.exec) has failed ({}): {}: log in again",
            out.status,
            yaml::line(String::from_utf8_lossy(&out.stderr).trim())
        ),
        kube::Error::Auth(error) => {
            anyhow::anyhow!("the credentials of the context cannot be used: {error}: log in again")
        }
        error => {
            // The outermost error only says that a layer of the client has failed. For these two variants, the message
            // begins with the cause instead.
            let first: &(dyn Error + 'static) = match &error {
                kube::Error::Service(error) => &**error,
                kube::Error::ReadEvents(error) => error,
                error => error,
            };
            let causes = successors(Some(first), |&cause| cause.source()).map(ToString::to_string);
            let words = causes.fold("the API server cannot be reached".to_owned(), |words, told| {
                if words.ends_with(&told) { words } else { format!("{words}: {told}") }
            });
            anyhow::anyhow!(words)
        }
    }
}

/// Returns the error of a failed watch, if a new watch would fail too; `None` if a new watch may succeed.
pub(super) fn lasting(error: watcher::Error) -> Option<kube::Error> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error)
            if !can_pass(&error) =>
        {
            Some(error)
        }
        _ => None,
    }
}

/// Combines all failures in `results` into one error, with one line each. The error is [`Failure::NotFound`] only if
/// all failures are.
///
/// # Errors
///
/// If any result is a failure.
pub(super) fn together(results: Vec<anyhow::Result<()>>) -> anyhow::Result<()> {
    let failures: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    let words: Vec<_> = failures.iter().map(|failure| format!("{failure:#}")).collect();
    let is_missing = |failure: &anyhow::Error| matches!(failure.downcast_ref(), Some(Failure::NotFound(_)));
    let all_are_missing = failures.iter().all(is_missing);
    match <[_; 1]>::try_from(failures) {
        Ok([failure]) => Err(failure),
        Err(none) if none.is_empty() => Ok(()),
        Err(_) if all_are_missing => Err(Failure::NotFound(words.join("\n")).into()),
        Err(_) => Err(anyhow::anyhow!(words.join("\n"))),
    }
}

/// Converts an error of the client library to a message for the user.
pub(super) fn of_client(error: client::Error) -> anyhow::Error {
    match error {
        client::Error::Refused(status) => of_call(kube::Error::Api(status)),
        client::Error::Call(error) => of_call(error),
        client::Error::NotFound { .. } => Failure::NotFound(error.to_string()).into(),
        error => error.into(),
    }
}

/// Converts the result of writing to standard output: a closed pipe is [`Failure::Unread`].
pub(super) fn of_output(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::Unread.into()),
        written => Ok(written?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use serde_json::{from_value, json};

    #[test]
    fn a_missing_kind_is_distinguished_from_a_missing_object() {
        let told = |status| of_call(kube::Error::Api(Box::new(from_value::<Status>(status).unwrap())));
        for message in ["404 page not found\n", "the server could not find the requested resource"] {
            let error = told(
                json!({"status": "Failure", "message": message, "reason": "Failed to parse error data", "code": 404}),
            );
            assert_eq!(exit_code(&error), 1);
            assert!(error.to_string().contains("install the operator's CRDs"), "{error}");
        }
        let details = json!({"name": "pi", "group": "sparkoperator.k8s.io", "kind": "sparkapplications"});
        let message = "sparkapplications.sparkoperator.k8s.io \"pi\" not found";
        let error = told(
            json!({"status": "Failure", "message": message, "reason": "NotFound", "code": 404, "details": details}),
        );
        assert_eq!((exit_code(&error), error.to_string()), (3, message.to_owned()));
    }

    #[test]
    fn several_failures_are_not_found_only_if_each_of_them_is() {
        let missing = |name: &str| anyhow::Error::from(Failure::NotFound(name.to_owned()));
        let code = |failures| together(failures).map_err(|error| (exit_code(&error), error.to_string()));
        assert_eq!(code(vec![Ok(())]), Ok(()));
        assert_eq!(code(vec![Err(missing("a")), Ok(())]), Err((3, "a".to_owned())));
        assert_eq!(code(vec![Err(missing("a")), Err(missing("b"))]), Err((3, "a\nb".to_owned())));
        assert_eq!(code(vec![Err(missing("a")), Err(anyhow::anyhow!("b"))]), Err((1, "a\nb".to_owned())));
    }
}
