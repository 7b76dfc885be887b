//! Checks the names of objects on the command line. Text that is no valid name must not reach the API server:
//! everything behind a `?` in a path is a query, so a request with the name `?x` would be for all objects of a kind.

use api::{ScheduledSparkApplication, SparkApplication, SparkConnect};
use kube::Resource;
use validation::is_object_name;

/// The file name that means standard input.
pub(super) const STDIN: &str = "-";

/// Reads an application's name, also in the form that `sparkctl list -o name` prints.
pub(super) fn application(text: &str) -> Result<String, String> {
    named::<SparkApplication>(text, "sparkapp", "an application")
}

/// Reads a schedule's name, in the same forms.
pub(super) fn schedule(text: &str) -> Result<String, String> {
    named::<ScheduledSparkApplication>(text, "scheduledsparkapp", "a schedule")
}

/// Reads the name of a SparkConnect, in the same forms.
pub(super) fn connect(text: &str) -> Result<String, String> {
    named::<SparkConnect>(text, "sparkconn", "a SparkConnect")
}

/// A name for commands that accept applications and schedules: the kind is given by the flag --schedule or by the name
/// itself.
#[derive(Clone, Debug)]
pub(super) struct Either {
    pub name: String,
    pub is_schedule: Option<bool>,
}

/// Reads a name of either kind.
pub(super) fn either(text: &str) -> Result<Either, String> {
    if let Ok(name) = schedule(text).as_ref()
        && text.contains('/')
    {
        return Ok(Either { name: name.clone(), is_schedule: Some(true) });
    }
    let is_schedule = text.contains('/').then_some(false);
    application(text).map(|name| Either { name, is_schedule })
}

/// Parses the name of the schedule to create an application from. File names are refused with a hint, because kubectl's
/// -f names a file.
pub(super) fn template(text: &str) -> Result<String, String> {
    if text == STDIN || [".yaml", ".yml", ".json"].iter().any(|end| text.ends_with(end)) {
        return Err("is a file, but -f is --from SCHEDULE: write `sparkctl create FILE`".to_owned());
    }
    schedule(text)
}

/// Reads a namespace. Empty text counts as no namespace.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    if text.is_empty() || (is_object_name(text) && !text.contains('.')) {
        return Ok(text.to_owned());
    }
    Err(no_name("a namespace"))
}

fn named<K: Resource<DynamicType = ()>>(text: &str, short: &str, what: &str) -> Result<String, String> {
    let (kind, group) = (K::kind(&()).to_lowercase(), K::group(&()));
    let plural = K::plural(&());
    let name = match text.split_once('/') {
        Some((found, name)) => {
            let found = found.to_lowercase();
            let found = found.strip_suffix(&format!(".{group}")).unwrap_or(&found);
            if ![short, &kind, &plural].contains(&found) {
                return Err(format!("is not {what}"));
            }
            name
        }
        None => text,
    };
    if is_object_name(name) { Ok(name.to_owned()) } else { Err(no_name(what)) }
}

fn no_name(what: &str) -> String {
    format!("cannot be the name of {what}: names have lower-case letters, digits and `-`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_refused_and_the_forms_of_kubectl_accepted() {
        for name in ["pi", "pi.v2", "sparkapp/pi", "SparkApplication/pi", "sparkapplications/pi"] {
            assert!(application(name).unwrap().starts_with("pi"), "{name}");
        }
        assert_eq!(application("sparkapplication.sparkoperator.k8s.io/pi").unwrap(), "pi");
        assert_eq!(schedule("scheduledsparkapplications.sparkoperator.k8s.io/nightly").unwrap(), "nightly");
        for odd in ["", "?", "?x", "pi?x", "#", "/", "pi/", "a/b/c", "..", "Pi", "pi x", "pi%2f", "pod/pi"] {
            assert!(application(odd).is_err(), "{odd}");
        }
        assert_eq!(connect("sparkconnect.sparkoperator.k8s.io/notebook").unwrap(), "notebook");
        assert!(application("scheduledsparkapp/nightly").is_err());
        let kind = |text| either(text).map(|either| either.is_schedule);
        assert_eq!((kind("pi"), kind("sparkapp/pi")), (Ok(None), Ok(Some(false))));
        assert_eq!(kind("scheduledsparkapp/nightly"), Ok(Some(true)));
        assert!(kind("pod/pi").is_err() && kind("?").is_err());
        assert!(template("app.yaml").unwrap_err().contains("sparkctl create FILE"));
        assert!(namespace("").is_ok() && namespace("team-1").is_ok());
        for odd in ["../x", "a/b", "a?", "Team", "a.b"] {
            assert!(namespace(odd).is_err(), "{odd}");
        }
    }
}
