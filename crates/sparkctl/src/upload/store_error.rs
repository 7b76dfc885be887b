//! Converts the errors of an object store to messages for the user who uploads.

use super::destination::{Destination, Kind};
use std::{error::Error, iter::successors};

/// Returns a message for the user that explains `error` and says what to do.
pub(super) fn explanation(error: &object_store::Error, destination: &Destination) -> String {
    let whole = chain(error);
    let told = Response::of(&whole);
    let code = told.code.as_str();
    let bucket = &destination.bucket;
    let said = told.said();
    match (told.status, code) {
        (_, "NoSuchBucket") => no_bucket(bucket),
        (
            _,
            "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken" | "NotSignedUp",
        )
        | (Some(401), _) => {
            format!("the store does not accept the credentials{said}: log in again, or set other ones")
        }
        (_, "AccessControlListNotSupported") => format!(
            "the bucket `{bucket}` lets no single object be public: leave --public out, or let everybody read by a policy of the bucket"
        ),
        (
            _,
            "QuotaExceeded"
            | "XMinioStorageFull"
            | "XMinioAdminBucketQuotaExceeded"
            | "ServiceQuotaExceededException",
        )
        | (Some(507), _) => format!("the bucket `{bucket}` is full{said}"),
        (_, "EntityTooLarge") => format!("it is larger than the store takes{said}"),
        (_, "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException")
        | (Some(301), _) => {
            format!("the bucket `{bucket}` is in another region{said}: give it by --upload-to-region")
        }
        (Some(403), _) => {
            format!(
                "the credentials do not allow it in the bucket `{bucket}`{said}: have it allowed, or set other ones"
            )
        }
        (Some(404), _) => {
            format!("there is no bucket `{bucket}`, or the endpoint is not an object store{said}")
        }
        (Some(status), _) => format!("the store refuses it with status {status}{said}"),
        (None, _) if whole.contains("without LOCATION") => {
            format!("the bucket `{bucket}` is in another region: give it by --upload-to-region")
        }
        (None, _) if whole.ends_with(&format!("Bucket '{bucket}' not found")) => no_bucket(bucket),
        (None, _) if is_about_credentials(&whole) => {
            let how = match destination.kind {
                Kind::S3 => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
                Kind::Gcs => {
                    "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`"
                }
            };
            format!("there are no credentials for {destination}: {how}")
        }
        (None, _) => format!("{destination} cannot be reached: {}", reason(&whole)),
    }
}

fn no_bucket(bucket: &str) -> String {
    format!("there is no bucket `{bucket}`: create it, or give another to --upload-to")
}

/// Whether the failed request went to the metadata server of a cloud: that is the last place to look for credentials,
/// and outside the cloud no such server answers.
fn is_about_credentials(whole: &str) -> bool {
    ["169.254.169.254", "metadata.google.internal", "169.254.170.2"].iter().any(|host| whole.contains(host))
}

/// Returns an error and its causes as one text, each once.
fn chain(error: &object_store::Error) -> String {
    let causes = successors(error.source(), |&cause| cause.source()).map(ToString::to_string);
    let whole = error.to_string();
    causes.fold(whole, |whole, told| if whole.contains(&told) { whole } else { format!("{whole}: {told}") })
}

/// Returns the end of a chain of errors. The request at its beginning is left out, because it does not help the user.
fn reason(whole: &str) -> &str {
    let said = whole.rsplit_once(" - ").map_or(whole, |(_, said)| said);
    said.trim_start_matches("HTTP error: ").trim()
}

/// The response of a store, as far as the text of an error contains it.
struct Response {
    status: Option<u16>,
    /// The code by which S3-compatible stores distinguish errors.
    code: String,
    message: String,
}

impl Response {
    fn of(whole: &str) -> Self {
        let status = whole.split_once("status code: ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
        let tag = |name: &str| {
            let (_, rest) = whole.split_once(&format!("<{name}>"))?;
            Some(rest.split_once("</")?.0.trim().to_owned())
        };
        Self { status, code: tag("Code").unwrap_or_default(), message: tag("Message").unwrap_or_default() }
    }

    /// Returns the code and message in parentheses, to be put behind a sentence of this program.
    fn said(&self) -> String {
        match (self.code.as_str(), self.message.as_str()) {
            ("", "") => String::new(),
            (words, "") | ("", words) => format!(" ({words})"),
            (code, message) => format!(" ({code}: {})", message.trim_end_matches('.')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_response_becomes_one_line() {
        let destination = "s3://jobs".parse().unwrap();
        let cases = include_str!("../../../../tests/data/ctl/upload-refusals.json");
        for (answer, beginning) in serde_json::from_str::<Vec<(String, String)>>(cases).unwrap() {
            let error = object_store::Error::Generic { store: "S3", source: answer.into() };
            let told = explanation(&error, &destination);
            assert!(told.starts_with(&beginning) && !told.contains('\n'), "{told}");
        }
    }
}
