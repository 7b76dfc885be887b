//! Compares output with files that contain the expected output. `UPDATE_GOLDEN=1 cargo test` overwrites these files
//! with the actual output.

use serde::Serialize;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the path of `inside` in the folder of test data.
pub fn data(inside: &str) -> PathBuf {
    Path::new("tests/data").join(inside)
}

/// Returns the paths of everything in a folder, in order.
pub fn entries(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

/// Returns all files below a folder, at any depth.
pub fn files_below(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = entries(folder).into_iter().partition(|path| path.is_dir());
    files.into_iter().chain(folders.into_iter().flat_map(files_below)).collect()
}

/// Returns the folders inside a folder of test data, in order. Each folder is a case.
pub fn cases(folder: &str) -> Vec<PathBuf> {
    let mut cases = entries(data(folder));
    cases.retain(|path| path.is_dir());
    assert!(!cases.is_empty(), "{folder} has no cases");
    cases
}

/// Returns the YAML document in `file`.
pub fn yaml<T: serde::de::DeserializeOwned>(file: &Path) -> T {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns all YAML documents in `file`.
pub fn documents(file: impl AsRef<Path>) -> Vec<Value> {
    let file = file.as_ref();
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the first line of a file of test data that `text` lacks.
pub(crate) fn lacks(text: &str, file: &str) -> Option<String> {
    let lines = fs::read_to_string(data(file)).unwrap();
    lines.lines().find(|line| !text.lines().any(|found| found == *line)).map(str::to_owned)
}

/// The comparisons of one test. All of them are made before the test fails.
#[derive(Default)]
pub struct Golden(Vec<String>);

impl Golden {
    /// Compares `actual` with the content of `file`. A missing file counts as empty, so an empty `actual` needs no
    /// file.
    pub fn compare(&mut self, file: &Path, actual: &str) {
        let expected = fs::read_to_string(file).unwrap_or_default();
        if expected == actual {
            return;
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(file, actual).unwrap();
            return;
        }
        let (mut expected, mut actual) = (expected.lines(), actual.lines());
        let mut line = 1;
        let (expected, actual) = loop {
            match (expected.next(), actual.next()) {
                (expected, actual) if expected != actual => break (expected, actual),
                _ => line += 1,
            }
        };
        let shown = |text: Option<&str>| text.unwrap_or("(the end)").to_owned();
        let (expected, actual) = (shown(expected), shown(actual));
        self.0.push(format!("{}:{line}\n  expected: {expected}\n  actual:   {actual}", file.display()));
    }

    /// Compares `actual`, written as YAML, with the content of `file`.
    pub fn compare_yaml(&mut self, file: &Path, actual: &impl Serialize) {
        self.compare(file, &serde_saphyr::to_string(actual).unwrap());
    }

    /// Fails if any comparison found a difference.
    pub fn finish(self) {
        assert!(self.0.is_empty(), "UPDATE_GOLDEN=1 accepts this:\n{}", self.0.join("\n"));
    }
}
