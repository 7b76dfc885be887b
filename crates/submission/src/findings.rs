//! Defines the findings of a validation (mistakes, for which an object is refused, and warnings), and the type of an
//! application without mistakes. The checks are in `validation`.

use api::{SparkApplication, SparkApplicationSpec, excerpt};
use std::{borrow::Cow, fmt::Display, ops::Deref};

/// A mistake in one field: what is wrong, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Invalid {
    /// The path of the field in the object, such as `spec.driver.memory`.
    pub field: String,
    pub why: String,
}

/// The reason why an application is not run: all of its mistakes, at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Invalid::to_string).collect::<Vec<_>>().join("; "))]
pub struct Refusal(pub Vec<Invalid>);

impl Refusal {
    /// Returns as many mistakes as a status and an event can hold, and the number of the others.
    pub fn brief(&self) -> String {
        let mut all = self.0.iter().map(Invalid::to_string);
        let mut brief = all.next().unwrap_or_default();
        while let Some(next) = all.next() {
            if brief.len() + next.len() > excerpt::LONGEST_EXPLANATION {
                // If there are more than `MOST_FINDINGS` entries, the last one represents all mistakes that are not
                // listed, so the number is too low.
                let at_least = if self.0.len() > MOST_FINDINGS { "at least " } else { "" };
                return format!("{brief}; and {at_least}{} more", all.len() + 1);
            }
            brief.extend(["; ", &next]);
        }
        brief
    }
}

/// The findings about an object: at most [`MOST_FINDINGS`] mistakes and as many warnings. If there are more mistakes or
/// more warnings, one more entry of the same list contains their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The mistakes: settings that can never work.
    pub invalid: Vec<Invalid>,
    /// The warnings: settings that are deprecated, have no effect, or are probably not intended.
    pub warnings: Vec<String>,
    /// How many mistakes are left out of `invalid`. A mistake that concerns both roles may count twice.
    unlisted_invalid: usize,
    /// How many warnings are left out of `warnings`.
    unlisted_warnings: usize,
}

impl Findings {
    /// Adds a mistake, unless it is listed already.
    pub fn refuse(&mut self, field: impl Display, why: impl Display) {
        // The message may quote a value of any length, so it is cut.
        let cut = |text: String| excerpt::beginning(text, LONGEST_SENTENCE);
        let invalid = Invalid { field: cut(field.to_string()), why: cut(why.to_string()) };
        // A field that concerns both roles is checked once for each role, which gives the same finding twice.
        let is_new = !self.invalid.contains(&invalid);
        if is_new && self.invalid.len() < MOST_FINDINGS {
            self.invalid.push(invalid);
        } else {
            self.unlisted_invalid += usize::from(is_new);
        }
    }

    /// Whether the list of warnings is full.
    pub const fn is_full(&self) -> bool {
        self.warnings.len() >= MOST_FINDINGS
    }

    /// Adds a warning.
    pub fn warn(&mut self, field: impl Display, what: impl Display) {
        if !self.is_full() {
            self.warnings.push(excerpt::beginning(format!("{field}: {what}"), LONGEST_SENTENCE));
        } else {
            self.unlisted_warnings += 1;
        }
    }

    /// Adds a sentence with the number of mistakes that are not listed, and one with the number of such warnings, if
    /// there are any.
    pub fn told(mut self, root: &str) -> Self {
        if self.unlisted_invalid > 0 {
            let why = format!("{} more mistakes are not listed: correct these first", self.unlisted_invalid);
            self.invalid.push(Invalid { field: root.to_owned(), why });
        }
        if self.unlisted_warnings > 0 {
            // This warning is inserted first, because the API server drops the last warnings if all warnings together
            // exceed 4 KiB.
            self.warnings
                .insert(0, format!("{root}: {} more warnings are not listed", self.unlisted_warnings));
        }
        self
    }
}

/// The maximum number of mistakes that are listed, and of warnings: as many as a person corrects before the next try.
/// With [`LONGEST_SENTENCE`] bytes for each field and each explanation, the listed mistakes are at most 25 KiB, which
/// the API server passes on and a terminal can show. An object of 3 MiB can have a quarter of a million mistakes.
pub const MOST_FINDINGS: usize = 50;

/// The maximum length of a message in bytes: as much as a person reads at once, and as much as the API server passes on
/// of one warning.
const LONGEST_SENTENCE: usize = 256;

/// An application in which `validation::validate` has found no mistake, and its spec with defaults filled in. Code that
/// takes this type does neither again; only the hash of a spec is computed from a copy of its own. The field `spec`, which
/// this type has as an application, is as the user wrote it.
#[derive(Clone, Debug)]
pub struct Validated<'a> {
    application: &'a SparkApplication,
    spec_with_defaults: Cow<'a, SparkApplicationSpec>,
}

impl<'a> Validated<'a> {
    /// Marks `application` as an application without mistakes. Only the validation may call this.
    pub const fn vouched(
        application: &'a SparkApplication,
        spec_with_defaults: Cow<'a, SparkApplicationSpec>,
    ) -> Self {
        Self { application, spec_with_defaults }
    }

    /// Returns what [`api::with_defaults`] makes of the application's spec.
    pub fn spec_with_defaults(&self) -> &SparkApplicationSpec {
        &self.spec_with_defaults
    }
}

impl Deref for Validated<'_> {
    type Target = SparkApplication;

    fn deref(&self) -> &SparkApplication {
        self.application
    }
}
