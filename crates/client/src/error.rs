//! Defines the errors of the client library.

use super::patience::can_pass;
use kube::core::Status;

/// The reason why a method of this library has failed: as a message for a person, and as a variant for a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An application of this name exists already, and was left as it is.
    #[error(
        "there is a SparkApplication {name} in {namespace} already: choose another name, or delete that one first"
    )]
    NameTaken {
        /// The namespace.
        namespace: String,
        /// The name that is taken.
        name: String,
    },
    /// No application of this name existed at the first request. A later deletion is not an error.
    #[error("there is no SparkApplication {name} in {namespace}")]
    NotFound {
        /// The namespace.
        namespace: String,
        /// The name that no application has.
        name: String,
    },
    /// The object of this name in the cluster cannot be parsed as the SparkApplication that this library knows.
    #[error("SparkApplication {name} cannot be read: {reason}")]
    Unreadable {
        /// The name of the object.
        name: String,
        /// The field's path and what is wrong with it.
        reason: String,
    },
    /// The API server, or a webhook that it calls, refuses the request. Sending the same request again does not help:
    /// the message names the invalid field or the missing permission. `code` is the HTTP status code: 400 and 422, the
    /// object is invalid; 401 and 403, the request is not allowed or is denied by a webhook; 404, the namespace does
    /// not exist, or the kind does not exist because the operator's CRDs are not installed.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The API server could not be reached, or could not answer. Sending the request again later may help.
    #[error("the API server does not answer: {0}")]
    Call(#[source] kube::Error),
}

impl Error {
    /// Returns the error for a failed request: `Refused` if sending the request again does not help, else `Call`.
    pub(super) fn of_call(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if !can_pass(&kube::Error::Api(status.clone())) => Self::Refused(status),
            error => Self::Call(error),
        }
    }
}
