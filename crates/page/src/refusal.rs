//! Says in one sentence why a request of the caller failed.

use axum::http::StatusCode;
use kube::core::Status;
use std::error::Error;

/// The reason why a request of the caller failed. It becomes a page with this sentence.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub words: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }

    pub(crate) fn not_found(words: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, words)
    }

    pub(crate) fn forbidden(words: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, words)
    }

    /// Whether the caller lacks a right, so that a request for a single namespace may still be allowed.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.status == StatusCode::FORBIDDEN
    }
}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => of_status(&status),
            error => {
                // The outer errors only say which layer of the client has failed.
                let mut cause = match &error {
                    kube::Error::Service(error) => &**error as &dyn Error,
                    error => error as &dyn Error,
                };
                while let Some(deeper) = cause.source() {
                    cause = deeper;
                }
                let words =
                    format!("The API server cannot be reached: {cause}. This page retries by itself.");
                Self::new(StatusCode::BAD_GATEWAY, words)
            }
        }
    }
}

fn of_status(status: &Status) -> Refusal {
    let message = &status.message;
    match status.code {
        401 => {
            Refusal::new(StatusCode::UNAUTHORIZED, "The API server does not accept this token: log in again.")
        }
        403 => Refusal::forbidden(format!("You lack a right: {message}")),
        404 if status.details.as_ref().is_none_or(|details| details.name.is_empty()) => {
            Refusal::not_found("The cluster does not know this kind of object: install the operator's CRDs.")
        }
        404 => Refusal::not_found(format!("It does not exist: {message}")),
        400..500 => Refusal::new(StatusCode::BAD_REQUEST, message.as_str()),
        _ => Refusal::new(StatusCode::BAD_GATEWAY, format!("The API server has failed: {message}")),
    }
}
