//! Converts the text of an annotation to a value and back. The text is JSON of a Kubernetes type or of one of the
//! operator's own types, or a bare string.

use super::Problem;
use api::{Bounds, Embedded};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A value that an annotation can hold.
pub(super) trait AnnotationValue: Sized {
    /// Reads the annotation's text.
    fn decode(text: &str) -> Result<Self, Problem>;
    /// Returns the annotation's text.
    fn encode(&self) -> String;
}

/// A name or a quantity, written without quotes.
impl AnnotationValue for String {
    fn decode(text: &str) -> Result<Self, Problem> {
        match text.trim() {
            "" => Err(Problem::new("", "is empty: remove it or give it a value")),
            text => Ok(text.to_owned()),
        }
    }

    fn encode(&self) -> String {
        self.clone()
    }
}

/// The root of paths in an annotation.
const ROOT: &str = "annotation";

/// JSON that must be a `T`. The JSON is kept as it was written, so that fields which `T` does not know survive.
impl<T: DeserializeOwned> AnnotationValue for Embedded<T> {
    fn decode(text: &str) -> Result<Self, Problem> {
        let json = parsed(text)?;
        checked::<T>(&json)?;
        Ok(Self::from(json))
    }

    fn encode(&self) -> String {
        self.json().to_string()
    }
}

/// JSON of one of the operator's own types.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Json<T>(pub T);

impl<T: DeserializeOwned + Serialize> AnnotationValue for Json<T> {
    fn decode(text: &str) -> Result<Self, Problem> {
        let json = parsed(text)?;
        checked(&json).map(Self)
    }

    fn encode(&self) -> String {
        serde_json::to_string(&self.0)
            .expect("our own types have string keys and finite numbers, so they are JSON")
    }
}

/// Parses an annotation's text, unless it contains more JSON values than an object may have. The check of the whole
/// object does not cover this: to it, the text of an annotation is a single value.
fn parsed(text: &str) -> Result<Value, Problem> {
    if let Some(excess) = Bounds::OBJECT.excess(text, ROOT) {
        let path = excess.path.strip_prefix(ROOT).unwrap_or_default().trim_start_matches('.');
        return Err(Problem::new(path, excess.why));
    }
    serde_json::from_str(text).map_err(|error| Problem::new("", format!("is not JSON: {error}")))
}

/// Decodes `json` as a `T`. The error contains the path at which `json` does not fit.
fn checked<T: DeserializeOwned>(json: &Value) -> Result<T, Problem> {
    // Tracking the path takes longer than the decoding itself and is rarely needed, so it is done only after a failure.
    T::deserialize(json).or_else(|_| serde_path_to_error::deserialize(json)).map_err(|error| {
        let path = match error.path().to_string() {
            root if root == "." => String::new(),
            path => path,
        };
        Problem::new(path, error.into_inner().to_string())
    })
}
