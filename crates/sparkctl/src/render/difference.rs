//! Shows, object by object, how the objects that `spark-submit` creates differ from those that the operator creates
//! itself.

use super::{listing, manifest::Found};
use crate::yaml;
use api::ObjectKey;
use serde_json::Value;
use similar::TextDiff;
use spark_client::Objects;
use std::{collections::BTreeMap, iter};

const EXPLANATION: &str = "\
# Names and ids that spark-submit draws at random are shown as the operator derives them; uids are left out.
# The driver of spark-submit is customized by the webhook when it is created, if there is one.
";

/// Returns a unified diff for the order of creation and for each object. `theirs` are the objects of `spark-submit`,
/// and `before` the objects that the operator creates before the submission, whichever submitter it uses.
pub(super) fn difference(
    found: &Found,
    notes: &[&str],
    before: &[Value],
    theirs: &Objects,
    ours: &Objects,
) -> anyhow::Result<String> {
    let theirs = before.iter().chain(iter::once(&theirs.pod)).chain(&theirs.children);
    let ours = ours.children.iter().chain(iter::once(&ours.pod));
    let [theirs, ours] = [shown(found, theirs)?, shown(found, ours)?];

    let mut text =
        format!("# {}: what spark-submit creates (-), and what the operator does (+).\n", found.heading);
    text += &listing::remarks(found, notes);
    text += EXPLANATION;
    let order =
        |side: &[(String, String)]| side.iter().map(|(name, _)| format!("{name}\n")).collect::<String>();
    text += &unified("order-of-creation", &order(&theirs), &order(&ours));
    let theirs: BTreeMap<_, _> = theirs.into_iter().collect();
    for (name, our) in &ours {
        text += &unified(name, theirs.get(name).map_or("", String::as_str), our);
    }
    Ok(text)
}

/// Returns each object's kind and name, and its text.
fn shown<'a>(
    found: &Found,
    objects: impl Iterator<Item = &'a Value>,
) -> anyhow::Result<Vec<(String, String)>> {
    let shown = objects.filter_map(|object| {
        let ObjectKey { kind, name } = ObjectKey::of(object)?;
        let mut object = listing::placed(found, object);
        let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten().filter_map(Value::as_object_mut) {
            owner.remove("uid");
        }
        Some(yaml::document(&object).map(|text| (format!("{kind}/{name}"), text)))
    });
    shown.collect()
}

/// Returns the lines that differ, with the lines around them; empty if no lines differ.
fn unified(name: &str, theirs: &str, ours: &str) -> String {
    let [theirs_name, ours_name] = ["spark-submit", "native"].map(|submitter| format!("{submitter}/{name}"));
    TextDiff::from_lines(theirs, ours).unified_diff().header(&theirs_name, &ours_name).to_string()
}
