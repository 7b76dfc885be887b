//! Proves that native submission creates the same objects as a real `spark-submit`, by comparison with recordings of
//! `spark-submit` for every Spark line: the recordings in `tests/data/recordings`, or those in the folder `$RECORDINGS`
//! (`make recordings DIR=…`). A folder contains either one folder per version with one file per case, as the recorder
//! writes them, or one file per version, as `tests/tools/record/keep` writes it.

pub mod case;
pub mod command_line;
mod compare;
mod rules;
mod sums;

use crate::prelude::*;
use case::Case;
use command_line::Unreadable;
use spark_client::{NotNative, Objects, Reason, Submission, objects};

enum Verdict {
    Passed,
    NotApplicable(String),
    Failed(String),
}

#[test]
#[expect(clippy::print_stdout, reason = "one line a case is what `make recordings` is for")]
fn objects_are_those_of_spark_submit() {
    let folder = std::env::var_os("RECORDINGS").map_or_else(|| data("recordings"), PathBuf::from);
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut failures = Vec::new();
    for case in Case::all_in(&folder) {
        let verdict = verdict(&case);
        let (column, said) = match &verdict {
            Verdict::Passed => (0, "passed".to_owned()),
            Verdict::Failed(why) => (1, format!("FAILED: {why}")),
            Verdict::NotApplicable(why) => (2, format!("not applicable: {why}")),
        };
        let line = format!("{} {}: {said}", case.spark_version, case.name);
        println!("{line}");
        counts.entry(case.spark_version.clone()).or_default()[column] += 1;
        failures.extend(matches!(verdict, Verdict::Failed(_)).then_some(line));
    }
    let summary = |[passed, failed, other]: [usize; 3]| {
        format!("{passed} passed, {failed} failed, {other} not applicable")
    };
    let mut total = [0; 3];
    for (version, counts) in &counts {
        println!("{version}: {}", summary(*counts));
        (0..3).for_each(|i| total[i] += counts[i]);
    }
    println!("recordings: {}", summary(total));
    assert!(total.iter().sum::<usize>() > 0, "no recordings in {}", folder.display());
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

fn verdict(case: &Case) -> Verdict {
    if rules::has_lost_letters(case) {
        return Verdict::NotApplicable("the submitter's environment: its JVM lost letters (D3)".to_owned());
    }
    let submission = match command_line::submission(case, case.ids()) {
        Ok(submission) => submission,
        Err(Unreadable::Shell) => {
            return Verdict::NotApplicable(
                "the submitter's environment: spark-env.sh is a program".to_owned(),
            );
        }
        Err(Unreadable::Syntax(error)) if case.exit_code != 0 => {
            return Verdict::NotApplicable(format!("the launcher's own syntax: {error}"));
        }
        Err(Unreadable::Syntax(error)) => {
            return Verdict::Failed(format!("the command line is not understood: {error}"));
        }
        Err(Unreadable::Refused(refusal)) => return refused(case, None, &refusal.to_string()),
    };
    match objects(&submission) {
        Ok(objects) => made(case, &submission, &objects),
        Err(refusal @ NotNative::Refused { .. }) => refused(case, Some(&submission), &refusal.to_string()),
        Err(fallback @ NotNative::Fallback { reason, .. }) => {
            if !rules::may_be_handed(case, &submission, reason) {
                return Verdict::Failed(format!("left to spark-submit, which no rule allows: {fallback}"));
            }
            if reason == Reason::Identity {
                // These properties change nothing in the objects, except that the properties file contains them.
                let mut submission = submission;
                submission.properties.retain(|key, _| !rules::says_who_submits(key));
                let difference = |objects| compare::difference(case, &submission, &objects);
                match objects(&submission).map(difference) {
                    Ok(None) => {}
                    Ok(Some(difference)) => return Verdict::Failed(difference),
                    Err(error) => return Verdict::Failed(error.to_string()),
                }
            }
            Verdict::NotApplicable(format!("left to spark-submit: {fallback}"))
        }
    }
}

fn made(case: &Case, submission: &Submission, objects: &Objects) -> Verdict {
    if let Some(divergence) = rules::accepted_on_purpose(case, submission) {
        return Verdict::NotApplicable(divergence.to_owned());
    }
    if case.exit_code != 0 && case.injected_failures.is_empty() {
        return Verdict::Failed(format!("spark-submit fails: {}", last_line(case)));
    }
    match compare::difference(case, submission, objects) {
        Some(difference) => Verdict::Failed(difference),
        None if case.exit_code == 0 => Verdict::Passed,
        None => Verdict::NotApplicable(
            "Spark's clean-up after the pod; the requests before it are equal".to_owned(),
        ),
    }
}

fn refused(case: &Case, submission: Option<&Submission>, message: &str) -> Verdict {
    if case.exit_code == 0 && rules::sends_no_pod(case) {
        Verdict::NotApplicable(format!("Spark sends an object that is not a Pod, native refuses: {message}"))
    } else if case.exit_code == 0 {
        Verdict::Failed(format!("spark-submit accepts it, native refuses: {message}"))
    } else if rules::names_the_same(case, submission, message) {
        Verdict::Passed
    } else {
        Verdict::Failed(format!("names another cause than spark-submit: {message}\n  {}", last_line(case)))
    }
}

/// Returns Spark's last error message, without the stack trace.
fn last_line(case: &Case) -> &str {
    let mut lines =
        case.stderr_tail.lines().filter(|line| line.contains("Exception") || line.contains("Error"));
    lines.next_back().unwrap_or_default()
}
