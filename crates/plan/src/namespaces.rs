//! Chooses the namespaces in which the operator drives applications and the webhook customizes their pods: all
//! namespaces, those of a list, those with certain labels, or both those of a list and those with certain labels.
//!
//! The controller checks the namespace of each application, and the API server checks the namespace of each object
//! before it calls the webhook. Both use the same choice, so that no application is driven whose pods the webhook does
//! not customize.

use api::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
pub use kube_core::Selector;
use kube_core::{Expression, SelectorExt};
use std::collections::{BTreeMap, BTreeSet};
use validation::{is_label_key, is_label_value};

pub type Labels = BTreeMap<String, String>;

/// A choice of namespaces; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    names: BTreeSet<String>,
    labels: Option<Selector>,
}

impl Namespaces {
    /// Chooses the namespaces in `names` and those that match `labelled`. Chooses all if neither is given, or if
    /// `names` contains an empty name, which means all namespaces in Kubeflow's operator.
    pub fn new(names: impl IntoIterator<Item = String>, labelled: Option<Selector>) -> Self {
        let names: BTreeSet<_> = names.into_iter().collect();
        if names.contains("") { Self::default() } else { Self { names, labels: labelled } }
    }

    /// Returns the chosen namespaces if they are chosen by their names alone. Returns `None` if all namespaces are
    /// chosen or if labels decide, because a namespace may get the labels later.
    pub fn named(&self) -> Option<&BTreeSet<String>> {
        (!self.names.is_empty() && self.labels.is_none()).then_some(&self.names)
    }

    /// Whether the choice depends on the namespaces' labels.
    pub const fn depends_on_labels(&self) -> bool {
        self.labels.is_some()
    }

    /// Whether the namespace `name` is chosen; `labels` returns its labels, if they are known.
    pub fn include(&self, name: &str, labels: impl FnOnce() -> Option<Labels>) -> bool {
        let is_all = self.names.is_empty() && self.labels.is_none();
        let is_labelled = |selector: &Selector| labels().is_some_and(|labels| selector.matches(&labels));
        is_all || self.names.contains(name) || self.labels.as_ref().is_some_and(is_labelled)
    }

    /// Returns the selectors for the chosen namespaces; a namespace is chosen if it matches one of them. Empty if all
    /// namespaces are chosen. Two selectors are needed because Kubernetes has no selector for names *or* labels.
    pub fn selectors(&self) -> Vec<LabelSelector> {
        let named = Expression::In(label::NAMESPACE_NAME.to_owned(), self.names.clone());
        let named = (!self.names.is_empty()).then(|| Selector::from(named));
        named.into_iter().chain(self.labels.clone()).map(LabelSelector::from).collect()
    }
}

/// Parses a choice of namespaces by their labels, in the syntax of `kubectl get namespaces --selector`.
///
/// # Errors
///
/// When a requirement does not have that syntax; the error names it.
pub fn selector(text: &str) -> Result<Selector, String> {
    let read = |text: &str| {
        let why = "is not a label selector (try `team=data` or `team in (data, science)`)";
        expression(text).ok_or_else(|| format!("`{text}` {why}"))
    };
    // The requirements are separated by commas outside parentheses.
    let mut depth = 0_i32;
    let requirements = text.split(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth <= 0
    });
    let mut expressions = requirements.map(str::trim).map(read).collect::<Result<Vec<_>, _>>()?;
    // The order of requirements has no meaning, so two selectors that differ only in order must be equal.
    expressions.sort();
    expressions.dedup();
    Ok(expressions.into_iter().collect())
}

/// Parses one of `key`, `!key`, `key=value`, `key==value`, `key!=value`, `key in (value,…)`, `key notin (value,…)`.
/// `None` if `text` is not one of them.
fn expression(text: &str) -> Option<Expression> {
    let key = |key: &str| Some(key.trim()).filter(|key| is_label_key(key)).map(str::to_owned);
    let is_value = |value: &&str| value.is_empty() || is_label_value(value);
    let value = |value: &str| Some(value.trim()).filter(is_value).map(str::to_owned);
    if let Some((words, list)) = text.split_once('(') {
        let values: BTreeSet<_> = list.strip_suffix(')')?.split(',').map(value).collect::<Option<_>>()?;
        return match words.split_whitespace().collect::<Vec<_>>()[..] {
            [name, "in"] => Some(Expression::In(key(name)?, values)),
            [name, "notin"] => Some(Expression::NotIn(key(name)?, values)),
            _ => None,
        };
    }
    if let Some((name, text)) = text.split_once("!=") {
        return Some(Expression::NotIn(key(name)?, [value(text)?].into()));
    }
    if let Some((name, text)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Expression::In(key(name)?, [value(text)?].into()));
    }
    match text.strip_prefix('!') {
        Some(name) => Some(Expression::DoesNotExist(key(name)?)),
        None => Some(Expression::Exists(key(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Names and a selector, with whether they include the namespaces `a` (label `team=web`), `b` (`team=data`) and
    /// `c`, which does not exist; selectors, with the requirement that Kubernetes gets; and texts that are not
    /// selectors.
    #[derive(serde::Deserialize)]
    struct Cases {
        included: Vec<(Vec<String>, String, [bool; 3])>,
        selectors: BTreeMap<String, Value>,
        refused: Vec<String>,
    }

    fn cases() -> Cases {
        serde_json::from_str(include_str!("../../../tests/data/namespaces.json")).unwrap()
    }

    fn namespaces(names: &[&str], labelled: &str) -> Namespaces {
        let labelled = (!labelled.is_empty()).then(|| selector(labelled).unwrap());
        Namespaces::new(names.iter().map(|&name| name.to_owned()), labelled)
    }

    #[test]
    fn a_namespace_is_chosen_by_its_name_or_by_its_labels() {
        let labels = |team: &str| Some(Labels::from([("team".to_owned(), team.to_owned())]));
        for (names, labelled, expected) in cases().included {
            let chosen = namespaces(&names.iter().map(String::as_str).collect::<Vec<_>>(), &labelled);
            let found = [
                chosen.include("a", || labels("web")),
                chosen.include("b", || labels("data")),
                chosen.include("c", || None),
            ];
            assert_eq!(found, expected, "{names:?} {labelled}");
        }
        let unasked = || -> Option<Labels> { panic!("the labels are not needed") };
        assert!(namespaces(&["a"], "team=data").include("a", unasked));
        assert!(!namespaces(&["a"], "").include("b", unasked));
    }

    #[test]
    fn selectors_have_the_syntax_of_kubectl() {
        let Cases { selectors, refused, .. } = cases();
        for (text, expected) in selectors {
            let found = serde_json::to_value(namespaces(&[], &text).selectors()).unwrap();
            assert_eq!(found, json!([{"matchExpressions": [expected]}]), "{text}");
        }
        assert_eq!(selector("b in (x,y),!c,a=1"), selector("a==1, b in (y, x) ,!c,!c"));
        for text in &refused {
            assert!(selector(text).is_err(), "{text}");
        }
    }
}
