//! Proves that the table of the effects of edits has every field of an application's spec, agrees with the operator,
//! and equals that of the documentation.

use crate::prelude::*;
use api::SparkApplicationSpec;
use sparkctl::crds;
use std::path::Path;
use submission::spec_hash::{EDITS, partial_hash, spec_hash};
use validation::Effect;

const PAGE: &str = "docs/user/edits.md";
/// The heading above the part of the page that a test writes.
const FIELDS: &str = "## Fields\n";

#[test]
fn every_field_of_a_spec_has_the_effect_that_the_table_says() {
    let [definition, ..] = crds::custom_resource_definitions();
    let schema = definition.spec.versions[0].schema.as_ref().unwrap();
    let schema = serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap();
    let samples = samples(&schema["properties"]["spec"]);
    assert!(samples.len() > 1000, "only {} fields were checked", samples.len());
    let unedited = SparkApplicationSpec::default();
    let differs = samples.into_iter().filter_map(|(path, sample)| {
        let spec: SparkApplicationSpec = serde_json::from_value(sample).unwrap();
        let found = if spec_hash(&spec) == spec_hash(&unedited) {
            Effect::Now
        } else if partial_hash(&spec) == partial_hash(&unedited) {
            Effect::NextExecutor
        } else {
            Effect::EndsRun
        };
        let told = effect_of(path.trim_start_matches('.'));
        (told != Some(found)).then(|| format!("{path}: {told:?}, but {found:?}"))
    });
    assert_eq!(differs.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn the_page_of_edits_has_the_table() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (written, _) = page.split_once(FIELDS).expect("the page has a heading for the fields");
    let rows: String = effects().map(|(field, effect)| format!("| `{field}` | {effect} |\n")).collect();
    let mut golden = Golden::default();
    let table = format!("{FIELDS}\n| field of `spec` | an edit |\n|---|---|\n{rows}");
    golden.compare(Path::new(PAGE), &format!("{written}{table}"));
    golden.finish();
}

/// Returns the fields of a spec, each with the effect of an edit of it, or of a field below it, during a run.
fn effects() -> impl Iterator<Item = (&'static str, Effect)> {
    EDITS.lines().filter_map(|line| {
        let (field, effect) = line.split_once(' ')?;
        Some((field, Effect::ALL.into_iter().find(|known| known.as_str() == effect)?))
    })
}

/// Returns the effect of an edit of `field`, such as `driver.cores`; `None` if a spec has no such field. Of the
/// [`effects`] of `field` and of the fields above it, that with the longest path counts.
fn effect_of(field: &str) -> Option<Effect> {
    let is_in = |row: &str| {
        field.strip_prefix(row).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let rows = effects().filter(|(row, _)| is_in(row));
    rows.max_by_key(|(row, _)| row.len()).map(|(_, effect)| effect)
}

/// Returns the path of every field that has no fields below it, each with an object that has this field alone, with a
/// value that is not its default.
fn samples(schema: &Value) -> Vec<(String, Value)> {
    let below = |schema: &Value, part: &str, object: &dyn Fn(Value) -> Value| {
        let inner = samples(schema).into_iter();
        inner.map(|(path, value)| (format!("{part}{path}"), object(value))).collect::<Vec<_>>()
    };
    if let Some(fields) = schema["properties"].as_object() {
        let of_field = |(name, field): (&String, &Value)| {
            below(field, &format!(".{name}"), &|value| json!({name: value}))
        };
        return fields.iter().flat_map(of_field).collect();
    }
    if schema["items"].is_object() {
        return below(&schema["items"], "[]", &|value| json!([value]));
    }
    if schema["additionalProperties"].is_object() {
        return below(&schema["additionalProperties"], "[a]", &|value| json!({"a": value}));
    }
    let words = schema["enum"].as_array().and_then(|words| words.last());
    let value = words.cloned().unwrap_or_else(|| match schema["type"].as_str() {
        Some("integer") => json!(7),
        Some("boolean") => json!(true),
        Some("object") => json!({"a": 1}),
        _ => json!("7"),
    });
    vec![(String::new(), value)]
}
