//! The answer to a review, as the API server reads it.

use api::excerpt;
use axum::http::StatusCode;
use k8s_openapi::ByteString;
use kube::core::Status;
use serde::Serialize;

/// The maximum length, in bytes, of the message of a refusal, which has at most fifty mistakes.
const LONGEST_MESSAGE: usize = 32 << 10;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'t> {
    pub api_version: String,
    pub kind: String,
    pub response: Verdict<'t>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verdict<'t> {
    pub uid: &'t str,
    pub allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    /// A JSON Patch in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<ByteString>,
    /// Warnings that `kubectl` shows to the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl<'t> Verdict<'t> {
    pub(super) const fn allowed(uid: &'t str) -> Self {
        Self { uid, allowed: true, status: None, patch_type: None, patch: None, warnings: Vec::new() }
    }

    pub(super) fn refused(uid: &'t str, code: StatusCode, reason: &str, message: String) -> Self {
        let (reason, message) = (reason.to_owned(), excerpt::beginning(message, LONGEST_MESSAGE));
        let status = Status { code: code.as_u16(), reason, message, ..Status::default() };
        Self { allowed: false, status: Some(status), ..Self::allowed(uid) }
    }
}
