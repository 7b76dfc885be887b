//! The errors between a program and a cluster.

use super::patience::can_pass;
use kube::core::Status;

/// Why something could not be done, as a sentence for a person and as cases for a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is an application of this name, which was left as it is.
    #[error(
        "there is a SparkApplication {name} in {namespace} already: choose another name, or delete that one first"
    )]
    NameTaken {
        /// The namespace.
        namespace: String,
        /// The name that is taken.
        name: String,
    },
    /// There is no such application, and there was none when it was first looked for.
    #[error("there is no SparkApplication {name} in {namespace}")]
    NotFound {
        /// The namespace.
        namespace: String,
        /// The name of the application that was looked for.
        name: String,
    },
    /// The cluster's object of this name is not an application as this library knows them.
    #[error("SparkApplication {name} cannot be read: {reason}")]
    Unreadable {
        /// The name of the object.
        name: String,
        /// The field's path and what is wrong with it.
        reason: String,
    },
    /// The API server, or a webhook that it asks, refuses. To ask again the same way is in vain: the message names the field that cannot be, or
    /// the permission that is missing. `code` is HTTP's: 400 and 422 invalid, 401 and 403 not allowed or denied by a webhook, 404 no
    /// such namespace, or no such kind because the operator's CRDs are not installed.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The API server could not be reached, or could not answer. To ask again later may help.
    #[error("the API server does not answer: {0}")]
    Call(#[source] kube::Error),
}

impl Error {
    /// A call that has failed, for good or not.
    pub(super) fn of_call(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if !can_pass(&kube::Error::Api(status.clone())) => Self::Refused(status),
            error => Self::Call(error),
        }
    }
}
