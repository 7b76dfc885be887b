//! Answers AdmissionReviews. No other code depends on the format of an AdmissionReview (`admission.k8s.io`).
//!
//! Objects stay JSON: fields of a pod that the Rust types do not know must reach the computation of the patch, or the
//! patch would remove them.

use super::{
    applications,
    decision::{Change, Decision},
    large_reviews::{NotReviewed, ORDINARY},
    lookups::Caller,
    objects::Objects,
    pods,
    review_metrics::{OTHER, Outcome, ReviewMetrics, reason},
    reviews::Reviews,
    spark_connects,
    verdict::{Answer, Verdict},
};
use api::excerpt;
use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Json, Response},
};
use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::BTreeSet, future::ready, sync::Arc, time::Instant};
use tracing::{Level, Span, debug, enabled, error, field, info, info_span};
use work::caught;

/// An AdmissionReview.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'t> {
    api_version: String,
    kind: String,
    #[serde(borrow)]
    request: Request<'t>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'t> {
    uid: String,
    kind: Kind,
    operation: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(borrow)]
    user_info: Option<&'t RawValue>,
    #[serde(borrow)]
    object: Option<&'t RawValue>,
    /// The stored object, if an object is changed or deleted.
    #[serde(borrow)]
    old_object: Option<&'t RawValue>,
    /// Both objects, after they have been read.
    #[serde(skip)]
    objects: Objects,
}

#[derive(Deserialize)]
struct Kind {
    group: String,
    kind: String,
}

/// A kind of object: its API group, its name, and the function that decides on its objects.
type Decider = (&'static str, &'static str, for<'c> fn(&'c Change<'c>) -> BoxFuture<'c, Decision>);

const GROUP: &str = "sparkoperator.k8s.io";
const APPLICATION: &str = "SparkApplication";
const SCHEDULE: &str = "ScheduledSparkApplication";
const CONNECT: &str = "SparkConnect";

/// Customizes driver and executor pods, and fills in the defaults of applications.
pub(super) const MUTATE: Asked = Asked {
    path: "/mutate",
    kinds: &[
        ("", "Pod", |change| ready(pods::customized(change)).boxed()),
        (GROUP, APPLICATION, |change| ready(applications::completed(change)).boxed()),
        // The applications of a schedule get their defaults when they are created.
        (GROUP, SCHEDULE, |_| ready(Decision::ALLOWED).boxed()),
        // Only the webhook configuration of Kubeflow's operator has these reviewed.
        (GROUP, CONNECT, |_| ready(Decision::ALLOWED).boxed()),
    ],
    configuration: "MutatingWebhookConfiguration",
};

/// Refuses objects that can never work, and those that do not pass the checks that flags enable.
pub(super) const VALIDATE: Asked = Asked {
    path: "/validate",
    kinds: &[
        (GROUP, APPLICATION, |change| applications::APPLICATION.decided(change).boxed()),
        (GROUP, SCHEDULE, |change| applications::SCHEDULE.decided(change).boxed()),
        (GROUP, CONNECT, |change| spark_connects::decided(change).boxed()),
    ],
    configuration: "ValidatingWebhookConfiguration",
};

/// One path of the webhook, and the kinds of objects that it reviews.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub path: &'static str,
    kinds: &'static [Decider],
    /// The kind of the webhook configuration whose rules send reviews to this path.
    configuration: &'static str,
}

impl Asked {
    /// Returns the answer to a `POST`. A body that is not a review is answered with status 400 and a message that names what
    /// was expected; every other body is answered with a review. A large object is reviewed by [`LargeReviews`], so that
    /// other reviews do not wait for it.
    pub(super) async fn reviewed(
        self,
        caller: Caller,
        headers: HeaderMap,
        body: Bytes,
        reviews: Arc<Reviews>,
    ) -> Response {
        let _in_flight = reviews.metrics.begins(self.path);
        if body.len() <= ORDINARY {
            return self.answer(caller, &headers, &body, &reviews).await;
        }
        let (begun, whole, shared) = (Instant::now(), body.clone(), Arc::clone(&reviews));
        let answer = async move { self.answer(caller, &headers, &body, &shared).await };
        // Boxed: otherwise the future of each small review would be as large as this one.
        match Box::pin(reviews.large.reviewed(caller, &namespace(&whole), answer)).await {
            Ok(response) => response,
            Err(why) => {
                info!(bytes = whole.len(), %why, "denied: not reviewed");
                reviews.metrics.answered(self.path, OTHER, "", Outcome::Unanswered, begun.elapsed());
                unanswered(&whole, why)
            }
        }
    }

    async fn answer(&self, caller: Caller, headers: &HeaderMap, body: &[u8], reviews: &Reviews) -> Response {
        let begun = Instant::now();
        match decode(headers, body) {
            Ok(Review { api_version, kind, request }) => {
                let Kind { group, kind: name } = &request.kind;
                let decider = self.kinds.iter().find(|of| of.0 == group && of.1 == name);
                let decided = caught(self.decided(caller, &request, decider, reviews)).await;
                let known = decider.map_or(OTHER, |(_, kind, _)| *kind);
                let (response, outcome) =
                    request.verdict(decided.unwrap_or_else(Decision::Bug), known, &reviews.metrics);
                reviews.metrics.answered(self.path, known, &request.operation, outcome, begun.elapsed());
                Json(Answer { api_version, kind, response }).into_response()
            }
            Err(why) => {
                let why = excerpt::beginning(why, LONGEST_REASON);
                // Printed with Debug: anybody who reaches the port may be the caller, and a line break in the reason
                // would begin a new line in the log.
                info!(?why, "not an admission review");
                reviews.metrics.answered(self.path, OTHER, "", Outcome::Unreadable, begun.elapsed());
                (StatusCode::BAD_REQUEST, why).into_response()
            }
        }
    }

    async fn decided(
        &self,
        caller: Caller,
        request: &Request<'_>,
        decider: Option<&Decider>,
        reviews: &Reviews,
    ) -> Decision {
        let Request { kind, user_info, objects, namespace, .. } = request;
        let Objects { new: object, old, excess } = objects;
        // After a DELETE there is no object to change or refuse, and the object of a CONNECT is a request to a pod.
        if ["DELETE", "CONNECT"].contains(&&*request.operation) || object.is_null() && excess.is_none() {
            return Decision::ALLOWED;
        }
        let Some((_, _, decide)) = decider else {
            let (Kind { group, kind }, configuration) = (kind, self.configuration);
            let message = format!(
                "this webhook does not know {kind} of group `{group}`: take it out of the rules of the {configuration}"
            );
            // The log line also has the kind; in the metrics, the reason ends at the blank.
            return Decision::refused(&format!("kind of group {group}"), message);
        };
        match excess {
            // The path of the excess may be any text, and subjects become label values of metrics.
            Some(excess) => Decision::refused("bounds", excess.to_string()),
            None => decide(&Change { object, old, namespace, user_info: *user_info, caller, reviews }).await,
        }
    }
}

impl Request<'_> {
    /// Returns the answer and its outcome. Logs the answer and, if the object is refused, counts its reasons.
    fn verdict(
        &self,
        decision: Decision,
        kind: &'static str,
        metrics: &ReviewMetrics,
    ) -> (Verdict<'_>, Outcome) {
        let refused = |code, reason, message| Verdict::refused(&self.uid, code, reason, message);
        match decision {
            Decision::Admitted { patch, warnings } => {
                let operations = patch.0.len();
                let outcome = if operations == 0 { Outcome::Allowed } else { Outcome::Patched };
                if enabled!(Level::DEBUG) {
                    self.span(outcome, None).in_scope(|| debug!(operations, "admitted"));
                }
                let json = || ByteString(serde_json::to_vec(&patch).expect("a JSON patch is JSON"));
                let (patch_type, patch) = (operations > 0).then(|| ("JSONPatch", json())).unzip();
                (Verdict { patch_type, patch, warnings, ..Verdict::allowed(&self.uid) }, outcome)
            }
            Decision::Refused { subjects, message, warnings } => {
                // Subjects contain keys of maps, which may have any length.
                let cut = |subject| excerpt::beginning(subject, LONGEST_WORD);
                let subjects: Vec<_> = subjects.into_iter().map(cut).collect();
                let reasons: BTreeSet<_> = subjects.iter().map(|subject| reason(subject)).collect();
                let reasons = reasons.into_iter().collect::<Vec<_>>().join(",");
                self.span(Outcome::Denied, Some(&reasons)).in_scope(|| info!(?subjects, "denied"));
                for subject in &subjects {
                    metrics.denied(kind, subject);
                }
                let refused = refused(StatusCode::FORBIDDEN, "Forbidden", message);
                (Verdict { warnings, ..refused }, Outcome::Denied)
            }
            Decision::Unreadable(why) => {
                let why = excerpt::beginning(why, LONGEST_REASON);
                self.span(Outcome::Unreadable, None).in_scope(|| info!("denied: cannot be read"));
                (refused(StatusCode::BAD_REQUEST, "BadRequest", why), Outcome::Unreadable)
            }
            Decision::Bug(bug) => {
                self.span(Outcome::Unanswered, None).in_scope(|| error!(%bug, "denied"));
                let message = format!("{bug}; please report it with this object");
                let refused = refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message);
                (refused, Outcome::Unanswered)
            }
        }
    }

    /// Returns a span that names the object under review, for one line of the log. Called only if a line is logged: the
    /// span costs as much as reading half of a pod, and at the usual level admitted objects are not logged.
    fn span(&self, outcome: Outcome, reason: Option<&str>) -> Span {
        // A pod that Spark's driver creates has no name here yet, or only a `generateName`.
        let name = Some(&*self.name).filter(|name| !name.is_empty());
        let span = info_span!(
            "review",
            uid = &*self.uid,
            operation = &*self.operation,
            kind = &*self.kind.kind,
            namespace = &*self.namespace,
            name = field::Empty,
            outcome = outcome.as_str(),
            reason,
        );
        // Not set in the macro above: the JSON log layer overwrites a field `name` of the macro with the span's own.
        let generated = || self.objects.new["metadata"]["generateName"].as_str();
        let generated = generated().map(|name| excerpt::beginning(name.to_owned(), LONGEST_WORD));
        span.record("name", name.or(generated.as_deref()));
        span
    }
}

/// The maximum length, in bytes, of the reason why a request or an object cannot be read: the reason quotes the unreadable
/// text, which may have any length.
const LONGEST_REASON: usize = 1024;

/// The maximum length, in bytes, of a name and of other words of a request: they are in the answer and in the log.
const LONGEST_WORD: usize = 253;

/// The versions of AdmissionReview that are accepted. Both have the same fields here, and the answer has the version of
/// the request.
const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

fn decode<'t>(headers: &HeaderMap, body: &'t [u8]) -> Result<Review<'t>, String> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.split(';').next().map(str::trim) != Some("application/json") {
        return Err(format!("content type `{content_type}`: must be application/json"));
    }
    // Checking the whole body for UTF-8 once takes less time than checking each text in it separately.
    let text = str::from_utf8(body).map_err(|error| format!("not an AdmissionReview: {error}"))?;
    let unreadable = |error: serde_json::Error| format!("not an AdmissionReview: {error}");
    let mut review: Review = serde_json::from_str(text).map_err(unreadable)?;
    let Request { object, old_object, .. } = review.request;
    review.request.objects = Objects::read(object, old_object).map_err(unreadable)?;
    if review.kind != "AdmissionReview" || !VERSIONS.contains(&&*review.api_version) {
        let found = format!("{} of {}", review.kind, review.api_version);
        return Err(format!("not an AdmissionReview of {} but {found}", VERSIONS.join(" or ")));
    }
    let Request { uid, kind, operation, name, namespace, .. } = &review.request;
    let words = [
        ("uid", uid),
        ("kind.group", &kind.group),
        ("kind.kind", &kind.kind),
        ("operation", operation),
        ("name", name),
        ("namespace", namespace),
    ];
    match words.iter().find(|(_, text)| text.len() > LONGEST_WORD) {
        Some((field, _)) => {
            Err(format!("not an AdmissionReview: request.{field} has more than {LONGEST_WORD} bytes"))
        }
        None => Ok(review),
    }
}

/// Returns the namespace of a large review, on which its turn depends: the first namespace in the text, since API servers
/// write it before the objects. Ordinary reviews would wait for the milliseconds that it takes to parse the whole text.
fn namespace(body: &[u8]) -> String {
    let begin = String::from_utf8_lossy(&body[..body.len().min(ORDINARY)]);
    let after = begin.split_once(r#""namespace":""#).map_or("", |(_, after)| after);
    after.split('"').next().unwrap_or_default().to_owned()
}

/// Refuses a review whose object was not reviewed. Only the fields that the answer needs are read; objects are skipped.
fn unanswered(body: &[u8], why: NotReviewed) -> Response {
    let (code, reason) = match why {
        NotReviewed::Busy => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        NotReviewed::TakesTooLong => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
        NotReviewed::Bug => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    };
    match serde_json::from_slice::<Review>(body) {
        Ok(Review { api_version, kind, request })
            if [&api_version, &kind, &request.uid].iter().all(|text| text.len() <= LONGEST_WORD) =>
        {
            let response = Verdict::refused(&request.uid, code, reason, why.to_string());
            Json(Answer { api_version, kind, response }).into_response()
        }
        _ => (code, why.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use prometheus_client::registry::Registry;
    use serde_json::{Value, json};
    use std::io::Read;

    const BROKEN: [Decider; 1] = [("", "Pod", |_| panic!("as the test wants it"))];
    const ASKED: Asked = Asked { path: "/mutate", kinds: &BROKEN, configuration: "none" };

    #[tokio::test]
    async fn a_panic_in_a_review_is_a_refusal_that_names_the_bug() {
        for padding in [0, ORDINARY] {
            let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "u", "kind": {"group": "", "kind": "Pod"}, "operation": "CREATE",
                "object": {"metadata": {"name": "x".repeat(padding)}},
            }});
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, "application/json".parse().unwrap())]);
            let mut registry = Registry::default();
            let reviews = Arc::new(Reviews::asking_nothing(&mut registry));
            let answer = ASKED.reviewed(Caller::default(), headers, review.to_string().into(), reviews).await;
            assert_eq!(answer.status(), StatusCode::OK);
            let answer: Value =
                serde_json::from_slice(&to_bytes(answer.into_body(), 1000).await.unwrap()).unwrap();
            let message = "a bug of the operator: as the test wants it; please report it with this object";
            let status = json!({"code": 500, "reason": "InternalError", "message": message});
            assert_eq!(answer["response"], json!({"uid": "u", "allowed": false, "status": status}));
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            assert!(text.contains("result=\"unanswered\""), "{text}");
        }
    }

    #[tokio::test]
    async fn no_client_can_forge_a_line_of_the_log() {
        let (mut log, written) = std::io::pipe().unwrap();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::new(written)).finish();
        let logged = tracing::subscriber::set_default(subscriber);
        let review = json!({"apiVersion": "v1", "kind": "A\n2026-01-01T00:00:00Z  INFO forged", "request": {
            "uid": "u", "kind": {"group": "", "kind": "Pod"}, "operation": "CREATE",
        }});
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, "application/json".parse().unwrap())]);
        let reviews = Arc::new(Reviews::asking_nothing(&mut Registry::default()));
        let answer = ASKED.reviewed(Caller::default(), headers, review.to_string().into(), reviews).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        drop(logged);
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| line.contains("forged")).collect();
        assert!(matches!(lines[..], [line] if line.contains("not an admission review")), "{text}");
    }

    /// A key of sparkConf can have some hundred kilobytes, and may be sent again and again.
    #[tokio::test]
    async fn long_keys_of_an_object_are_cut_in_the_log() {
        const LONG: [Decider; 1] =
            [("", "Pod", |_| ready(Decision::refused(&"k".repeat(50_000), String::new())).boxed())];
        let (mut log, written) = std::io::pipe().unwrap();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::new(written)).finish();
        let logged = tracing::subscriber::set_default(subscriber);
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "", "kind": "Pod"}, "operation": "CREATE", "object": {"metadata": {}},
        }});
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, "application/json".parse().unwrap())]);
        let reviews = Arc::new(Reviews::asking_nothing(&mut Registry::default()));
        let asked = Asked { kinds: &LONG, ..ASKED };
        asked.reviewed(Caller::default(), headers, review.to_string().into(), reviews).await;
        drop(logged);
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        assert!(text.contains("denied") && text.len() < 1000, "{} bytes", text.len());
    }

    #[tokio::test]
    async fn an_object_that_was_not_reviewed_is_refused_by_an_admission_review() {
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "", "kind": "Pod"}, "operation": "CREATE", "object": {"a": [1]},
        }});
        let answer = unanswered(body.to_string().as_bytes(), NotReviewed::TakesTooLong);
        let answer: Value =
            serde_json::from_slice(&to_bytes(answer.into_body(), 1000).await.unwrap()).unwrap();
        assert_eq!(answer["response"]["status"]["reason"], "Timeout");
        let long = body.to_string().replace("\"u\"", &format!("\"{}\"", "u".repeat(LONGEST_WORD + 1)));
        assert_eq!(unanswered(long.as_bytes(), NotReviewed::Busy).status(), StatusCode::TOO_MANY_REQUESTS);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, "application/json".parse().unwrap())]);
        let why = decode(&headers, long.as_bytes()).map(|_| ()).unwrap_err();
        assert_eq!(why, "not an AdmissionReview: request.uid has more than 253 bytes");
        assert_eq!(unanswered(b"{}", NotReviewed::Busy).status(), StatusCode::TOO_MANY_REQUESTS);
    }

    #[test]
    fn the_namespace_of_a_large_review_is_that_of_the_request() {
        let text = r#"{"request":{"name":"\"namespace\":\"a","namespace":"b","object":{"metadata":{"namespace":"c"}}}}"#;
        assert_eq!((&*namespace(text.as_bytes()), &*namespace(b"{}")), ("b", ""));
    }
}
