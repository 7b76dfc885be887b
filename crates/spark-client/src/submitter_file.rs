//! Reads a file of the submitter to which a property refers.

use super::{
    Context, Files,
    not_native::{NotNative, Reason},
};

/// Returns the content of the file at `path`, which is the value of the property `key`.
pub(super) fn read<'a>(context: &Context<'a>, key: &str, path: &str) -> Result<&'a [u8], NotNative> {
    let (scheme, plain) = path.split_once(':').unwrap_or(("file", path));
    // `file:/a`, `file:///a` and `/a` are the same path.
    let plain = if plain.starts_with("//") { plain.trim_start_matches("//") } else { plain };
    let unread = |why: &str| Err(NotNative::fallback(Reason::SubmitterFile, key, format!("`{path}` {why}")));
    match &context.submission.environment.files {
        _ if scheme != "file" => unread("has to be downloaded"),
        Files::Unread => unread("is a local file of spark-submit"),
        Files::All(files) => files
            .get(plain)
            .map(Vec::as_slice)
            .ok_or_else(|| NotNative::refused(key, format_args!("`{path}` does not exist or is not a file"))),
    }
}
