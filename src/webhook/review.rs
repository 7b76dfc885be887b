//! How is an AdmissionReview answered? The only code that knows its shape (`admission.k8s.io/v1`).
//!
//! Objects stay JSON: what a pod has that our types do not know must reach the patch's arithmetic, or the
//! patch would remove it.

use crate::plan::customization::{self, Denial};
use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Json, Response},
};
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{debug, field, info, instrument};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    kind: Kind,
    operation: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    object: Value,
}

#[derive(Deserialize)]
struct Kind {
    group: String,
    kind: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    api_version: String,
    kind: String,
    response: Verdict,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    /// base64 of a JSON Patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
}

#[derive(Serialize)]
struct Status {
    code: u16,
    reason: &'static str,
    message: String,
}

/// `POST /mutate`: customizes driver and executor pods.
///
/// A body that is not a review is answered with 400 and says what was expected; everything else with a
/// review.
pub(super) async fn mutate(headers: HeaderMap, body: Bytes) -> Response {
    match decode(&headers, &body) {
        Ok(review) => {
            let Review { api_version, kind, request } = review;
            Json(Answer { api_version, kind, response: verdict(request) }).into_response()
        }
        Err(why) => {
            info!(%why, "not an admission review");
            (StatusCode::BAD_REQUEST, why).into_response()
        }
    }
}

fn decode(headers: &HeaderMap, body: &[u8]) -> Result<Review, String> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.split(';').next().map(str::trim) != Some("application/json") {
        return Err(format!("content type `{content_type}`: must be application/json"));
    }
    let review: Review =
        serde_json::from_slice(body).map_err(|error| format!("not an AdmissionReview: {error}"))?;
    if review.kind != "AdmissionReview" || !review.api_version.starts_with("admission.k8s.io/") {
        let found = format!("{} of {}", review.kind, review.api_version);
        return Err(format!("not an AdmissionReview of admission.k8s.io but {found}"));
    }
    Ok(review)
}

#[instrument(name = "review", skip_all, fields(
    uid = request.uid,
    operation = request.operation,
    kind = request.kind.kind,
    namespace = request.namespace,
    name = field::Empty,
))]
fn verdict(request: Request) -> Verdict {
    // Pods that Spark's driver makes have only a generated name here, or none yet.
    let name = Some(request.name.as_str()).filter(|name| !name.is_empty());
    tracing::Span::current()
        .record("name", name.or_else(|| request.object["metadata"]["generateName"].as_str()));

    if request.operation == "DELETE" || request.object.is_null() {
        return allowed(request.uid);
    }
    if request.kind.group.is_empty() && request.kind.kind == "Pod" {
        return customize(request);
    }
    let message = format!(
        "this webhook does not know {} of group `{}`: take it out of the rules of the MutatingWebhookConfiguration",
        request.kind.kind, request.kind.group
    );
    info!(group = request.kind.group, "denied: not a pod");
    denied(request.uid, message)
}

fn customize(request: Request) -> Verdict {
    match customization::customized(&request.object) {
        Ok(customized) => {
            let patch = json_patch::diff(&request.object, &customized);
            debug!(operations = patch.0.len(), "pod admitted");
            if patch.0.is_empty() {
                return allowed(request.uid);
            }
            let patch = serde_json::to_vec(&patch).expect("a JSON patch is JSON");
            Verdict { patch_type: Some("JSONPatch"), patch: Some(ByteString(patch)), ..allowed(request.uid) }
        }
        Err(denials) => {
            info!(subjects = ?denials.iter().map(Denial::subject).collect::<Vec<_>>(), "denied");
            let message = denials.iter().map(Denial::to_string).collect::<Vec<_>>().join("; ");
            denied(request.uid, message)
        }
    }
}

fn allowed(uid: String) -> Verdict {
    Verdict { uid, allowed: true, status: None, patch_type: None, patch: None }
}

fn denied(uid: String, message: String) -> Verdict {
    let status = Status { code: StatusCode::FORBIDDEN.as_u16(), reason: "Forbidden", message };
    Verdict { allowed: false, status: Some(status), ..allowed(uid) }
}
