//! Reads and writes the texts of annotations: JSON of a Kubernetes type or of one of the operator's own types, or a
//! name without quotes.

use super::Problem;
use api::Bounds;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The root of paths in an annotation.
const ROOT: &str = "annotation";

/// Reads a name or a quantity, which is written without quotes.
pub(super) fn name(text: &str) -> Result<&str, Problem> {
    match text.trim() {
        "" => Err(Problem::new("", "is empty: remove it or give it a value")),
        text => Ok(text),
    }
}

/// Reads JSON as a `T`, without the fields that `T` does not know.
pub(super) fn typed<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    checked(&parsed(text)?)
}

/// Reads JSON that must be a `T`. The JSON is returned as it was written, so that fields which `T` does not know
/// survive.
pub(super) fn json<T: DeserializeOwned>(text: &str) -> Result<Value, Problem> {
    let json = parsed(text)?;
    checked::<T>(&json)?;
    Ok(json)
}

/// Reads a list of `T`, as [`json`] does.
pub(super) fn list<T: DeserializeOwned>(text: &str) -> Result<Vec<Value>, Problem> {
    let value = json::<Vec<T>>(text)?;
    Ok(if let Value::Array(entries) = value { entries } else { Vec::new() })
}

/// Returns the text of an annotation with this value.
pub(super) fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("these values have string keys and finite numbers, so they are JSON")
}

/// Returns the text of an annotation with this list; `None` if the list is empty.
pub(super) fn written_list(list: &[impl Serialize]) -> Option<String> {
    (!list.is_empty()).then(|| written(&list))
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
