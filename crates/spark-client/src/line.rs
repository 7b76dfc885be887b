//! Determines the release line of Spark for which an application's objects are built.

use super::memory;
use std::fmt;

/// A release line of Spark: major and minor version, for instance 4.0. All releases of a line create the same objects;
/// other lines create different objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line((u32, u32));

impl Line {
    pub const V3_5: Self = Self((3, 5));
    pub const V4_0: Self = Self((4, 0));
    pub const V4_1: Self = Self((4, 1));
    pub const V4_2: Self = Self((4, 2));
    pub const V4_3: Self = Self((4, 3));
    pub const ALL: [Self; 5] = [Self::V3_5, Self::V4_0, Self::V4_1, Self::V4_2, Self::V4_3];

    /// Returns the release line of `spark_version`. If that line is not known, returns the nearest one (4.0 if the text
    /// is not a version), and a note for the user about it.
    pub fn nearest(spark_version: &str) -> (Self, Option<String>) {
        let Some(version) = major_minor(spark_version) else {
            let line = Self::V4_0;
            return (
                line,
                Some(format!("`{spark_version}` is no version of Spark: submitted as Spark {line}")),
            );
        };
        let line = Self::ALL.into_iter().rfind(|line| line.0 <= version).unwrap_or(Self::V3_5);
        let is_known = line.0 == version;
        let note = || {
            format!("Spark {spark_version} is not known here: submitted as Spark {line}, the nearest line")
        };
        (line, (!is_known).then(note))
    }

    /// Returns an amount of memory in bytes, as [`memory::bytes`] does, with the units that this line knows.
    pub fn bytes(self, text: &str) -> Option<u64> {
        memory::bytes(text, self >= Self::V4_2)
    }

    /// Whether `spark_version` is older than `version`, a major and a minor number.
    pub fn is_older(spark_version: &str, version: (u32, u32)) -> bool {
        major_minor(spark_version).is_some_and(|found| found < version)
    }

    /// Whether `spark_version` supports pod templates, as Spark 3.0 and later do. A text that is not a version counts
    /// as newer than all versions.
    pub fn has_templates(spark_version: &str) -> bool {
        let major = spark_version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_none_or(|major| major >= 3)
    }

    /// Whether `spark_version` begins with a major and a minor version.
    pub fn is_version(spark_version: &str) -> bool {
        major_minor(spark_version).is_some()
    }

    /// Whether `spark_version` is newer than all lines that are known.
    pub(super) fn is_newer_than_all(spark_version: &str) -> bool {
        major_minor(spark_version).is_some_and(|version| version > Self::V4_3.0)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.0;
        write!(f, "{major}.{minor}")
    }
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim().trim_start_matches(['v', 'V']).split('.');
    let major = parts.next()?.parse().ok()?;
    // `4.1-SNAPSHOT` belongs to the line 4.1.
    let minor = parts.next()?;
    let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    Some((major, minor[..digits].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn an_unknown_version_gets_the_nearest_release_line_and_a_note() {
        let cases = include_str!("../../../tests/data/spark-client/versions.json");
        for (version, line, is_known) in serde_json::from_str::<Vec<(&str, &str, bool)>>(cases).unwrap() {
            let (found, note) = Line::nearest(version);
            assert_eq!((&*found.to_string(), note.is_none()), (line, is_known), "{version}");
            assert!(note.is_none_or(|note| note.contains(version)
                && note.ends_with(&match line {
                    "4.0" => "Spark 4.0".to_owned(),
                    line => format!("Spark {line}, the nearest line"),
                })));
        }
    }
}
