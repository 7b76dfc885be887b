//! Finds the files of this machine that an application names, and the fields that name them.

use api::names::submit_conf;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use spark_client::{NO_RESOURCE, is_scheme};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// The field of the spec that names one file; [`LISTS`] are the lists of files in `deps`.
const PROGRAM: &str = "mainApplicationFile";
const LISTS: [&str; 4] = ["jars", "files", "pyFiles", "archives"];

/// A file of this machine, with the field that names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The field's path in messages: `spec.deps.jars[0]`.
    pub field: String,
    /// The field as a JSON pointer below the spec.
    pub pointer: String,
    /// The path, relative to the working directory if it is not absolute.
    pub path: PathBuf,
    /// The text after a `#`: the name that an archive or a file has in the containers.
    pub fragment: Option<String>,
}

/// Returns the files of this machine in `spec`, the spec of an application, which is at `place` in its object (`spec`,
/// `spec.template`).
///
/// # Errors
///
/// One error for each `file:` URL that names another machine.
pub(super) fn files(spec: &Value, place: &str) -> Vec<Result<Named, String>> {
    let program = [(format!("{place}.{PROGRAM}"), format!("/{PROGRAM}"))];
    let lists = LISTS.iter().flat_map(|list| {
        let entries = spec["deps"][list].as_array().map_or(0, Vec::len);
        (0..entries).map(move |at| (format!("{place}.deps.{list}[{at}]"), format!("/deps/{list}/{at}")))
    });
    program
        .into_iter()
        .chain(lists)
        .filter_map(|(field, pointer)| {
            let entry = spec.pointer(&pointer)?.as_str()?;
            let file = file(entry)?.map_err(|complaint| format!("{field}: {complaint}"));
            Some(file.map(|(path, fragment)| Named { field, pointer, path, fragment }))
        })
        .collect()
}

/// Whether spark-submit uploads the files (`spark.kubernetes.file.upload.path`). The paths then mean files in the
/// container in which spark-submit runs.
pub(super) fn are_uploaded_by_spark_submit(spec: &Value) -> bool {
    spec["sparkConf"][submit_conf::UPLOAD_PATH].as_str().is_some_and(|path| !path.is_empty())
}

/// Returns the path and the fragment of an entry that means a file of this machine; `None` if the entry means something
/// else. Spark reads the entry as a URI, so the path in a `file:` URL has percent-escapes; a plain path has none.
fn file(entry: &str) -> Option<Result<(PathBuf, Option<String>), String>> {
    if entry.is_empty() || entry == NO_RESOURCE {
        return None;
    }
    let parts = entry.split_once('#');
    let (rest, fragment) = parts.map_or((entry, None), |(rest, fragment)| (rest, Some(fragment.to_owned())));
    let Some((scheme, path)) = rest.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return Some(Ok((PathBuf::from(rest), fragment)));
    };
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = match path.strip_prefix("//").map(|rest| rest.split_at(rest.find('/').unwrap_or(rest.len()))) {
        Some(("" | "localhost", path)) => path,
        Some((host, path)) => {
            return Some(Err(format!(
                "`{entry}` is a file of the machine `{host}`: write `file:///{host}{path}` for one of this machine"
            )));
        }
        None => path,
    };
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    Some(Ok((Path::new(&OsString::from_vec(bytes)).to_owned(), fragment)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_paths_and_file_urls_are_files_of_this_machine() {
        #[derive(serde::Deserialize)]
        struct Cases {
            elsewhere: Vec<String>,
            here: Vec<(String, PathBuf, Option<String>)>,
        }
        let cases = include_str!("../../../../tests/data/ctl/files.json");
        let Cases { elsewhere, here } = serde_json::from_str(cases).unwrap();
        for elsewhere in elsewhere {
            assert_eq!(file(&elsewhere), None, "{elsewhere}");
        }
        for (entry, path, fragment) in here {
            assert_eq!(file(&entry), Some(Ok((path, fragment))), "{entry}");
        }
        let complaint = file("file://opt/a.jar").unwrap().unwrap_err();
        assert!(complaint.contains("a file of the machine `opt`"), "{complaint}");
    }

    #[test]
    fn files_of_all_fields_are_found_with_the_paths_of_the_fields() {
        let spec = json!({
            "mainApplicationFile": "main.py",
            "deps": {
                "jars": ["s3a://b/a.jar", "b.jar"], "files": ["c#d"], "pyFiles": ["e.py"], "archives": ["f.zip#g"],
                "packages": ["group:artifact:1"],
            },
        });
        let found = files(&spec, "spec.template").into_iter().map(Result::unwrap);
        let told: Vec<_> = found.map(|named| (named.field, named.pointer)).collect();
        let expected = [
            ("spec.template.mainApplicationFile", "/mainApplicationFile"),
            ("spec.template.deps.jars[1]", "/deps/jars/1"),
            ("spec.template.deps.files[0]", "/deps/files/0"),
            ("spec.template.deps.pyFiles[0]", "/deps/pyFiles/0"),
            ("spec.template.deps.archives[0]", "/deps/archives/0"),
        ];
        assert_eq!(told, expected.map(|(field, pointer)| (field.to_owned(), pointer.to_owned())));
    }
}
