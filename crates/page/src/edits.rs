//! Shows the effect that an edit of an application would have on its run, and the objects of its next run. Changes
//! nothing.

use super::{Named, Query, Render, Result, Session, counted::Counted, table, trouble};
use api::{Bounds, SparkApplication, excerpt::beginning};
use axum::{body::Bytes, extract::Path, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use spark_operator_client::printable::{line, lines};
use validation::{differences, validate};

/// The maximum size of a value that is shown, in bytes.
const LONGEST_VALUE: usize = 240;
/// The maximum number of YAML nodes in an edited spec: twice the number of values that [`Bounds`] allows, because keys
/// are nodes too. A spec with a few values too many is still parsed, and refused with the path of the first.
const MOST_NODES: usize = 40_000;

/// Shows a form with the edited spec, or at first the present one, and the effect of that spec.
pub(crate) async fn show(session: Session, Path((namespace, name)): Named, body: Bytes) -> Result<Response> {
    let (old, text) = session.caller.reader.object::<SparkApplication>(&namespace, &name).await?;
    let whole: Value = serde_json::from_str(&text).unwrap_or_default();
    let form = Query::of(&body);
    let edited = match form.given("spec") {
        Some(edited) => {
            session.check(&form)?;
            edited.to_owned()
        }
        None => serde_saphyr::to_string(&whole["spec"]).unwrap_or_default(),
    };
    let effect = effect(&old, whole, &edited, session.page.settings.render);
    let content = html! {
        p { a href={ "/applications/" (namespace) "/" (name) } { "← " (name) } }
        form method="post" {
            (session.hidden())
            label for="spec" { "The edited spec" }
            textarea #spec name="spec" rows="24" spellcheck="false" { (edited) }
            button { "What would that do?" } small { "Nothing is changed." }
        }
        (effect.unwrap_or_else(|why| trouble(Some(&why))))
    };
    Ok(session.document(&format!("An edit of {name}"), false, &content))
}

/// Returns the effect of replacing the spec of the application `old` by the YAML `edited`. `whole` is the JSON of
/// `old`.
///
/// # Errors
///
/// If `edited` is not the spec of an application.
fn effect(
    old: &SparkApplication,
    mut whole: Value,
    edited: &str,
    render: Option<Render>,
) -> Result<Markup, String> {
    // YAML as kubectl reads it: see `sparkctl diff`. With aliases, a small text could expand without limit.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true, with_snippet: false,
        budget: serde_saphyr::budget! { max_aliases: 0, max_nodes: MOST_NODES },
    };
    let Counted(spec) = serde_saphyr::from_str_with_options(edited, options)
        .map_err(|error| format!("This is not YAML: {error}"))?;
    whole["spec"] = spec;
    if let Some(excess) = Bounds::SPEC.excess(&whole["spec"].to_string(), "spec") {
        return Err(excess.to_string());
    }
    let new: SparkApplication = serde_json::from_value(whole.clone())
        .map_err(|error| format!("This cannot be the spec of an application: {error}"))?;
    let refusal = validate(&new).err().map(|refusal| format!("It would be refused: {}", refusal.brief()));
    let edits = differences(old, &new);
    let rows = edits.iter().map(|edit| {
        html! {
            th scope="row" { (line(&edit.field)) }
            td { (value(&edit.old)) }
            td { (value(&edit.new)) }
            td { (edit.effect.as_str()) }
        }
    });
    Ok(html! {
        (trouble(refusal.as_deref()))
        @if edits.is_empty() { p { "It means the same as the present spec." } }
        (table("What would change", &["Field", "Now", "Then", "Effect"], rows))
        @if let Some(render) = render {
            h2 { "Objects of the next run" }
            @match render(&whole) {
                Ok(text) => pre tabindex="0" { (lines(&text)) },
                Err(why) => (trouble(Some(&why))),
            }
        }
    })
}

fn value(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    beginning(line(&text), LONGEST_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn an_edit_is_shown_by_field_with_its_effect_and_the_rendered_objects() {
        let whole = json!({
            "metadata": {"name": "pi"},
            "spec": {"type": "Scala", "sparkVersion": "4.0.1", "mainApplicationFile": "local:///app.jar", "driver": {"cores": 1}},
            "status": {"applicationState": {"state": "RUNNING"}, "driverInfo": {}, "submissionID": "1"},
        });
        let old: SparkApplication = from_value(whole.clone()).unwrap();
        let render: Render = |object| Err(format!("<no> {}", object["spec"]["driver"]["cores"]));
        let told = |edited: &str| effect(&old, whole.clone(), edited, Some(render)).map(Markup::into_string);
        let spec = "type: Scala\r\nsparkVersion: 4.0.1\r\nmainApplicationFile: local:///app.jar\r\n";
        let text = told(&format!("{spec}driver: {{cores: 2}}\r\n")).unwrap();
        for part in [
            r#"<th scope="row">spec.driver.cores</th><td>1</td><td>2</td><td>ends the run</td>"#,
            "&lt;no&gt; 2",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(told(&format!("{spec}driver: {{cores: 1}}\n")).unwrap().contains("the same as the present"));
        let refused = told("type: Scala\nsparkVersion: 4.0.1\ndriver: {cores: -1}\n").unwrap();
        assert!(refused.contains("It would be refused: spec."), "{refused}");
        assert!(told("{").unwrap_err().starts_with("This is not YAML"));
        // Without bounds, a form of a megabyte could take a gigabyte: a volume of three bytes becomes a type of a
        // thousand.
        let broad = |volumes| told(&format!("volumes: [{}]", "{},".repeat(volumes))).unwrap_err();
        let beyond = broad(30_000);
        assert!(beyond.starts_with("spec.volumes[4998]: is beyond the 5000 lists and maps"), "{beyond}");
        // An earlier version parsed 250,000 nodes, some 60 MB, before it counted them.
        let unparsed = broad(MOST_NODES);
        assert!(
            unparsed.starts_with("This is not YAML") && unparsed.contains("breached: Nodes"),
            "{unparsed}"
        );
        let reserved = told(r#"{"$serde_json::private::RawValue": "{}"}"#).unwrap_err();
        assert!(reserved.contains("is a key that parsers of the object reserve"), "{reserved}");
        let aliases = told("a: &a x\nb: [*a, *a]").unwrap_err();
        assert!(aliases.starts_with("This is not YAML"), "{aliases}");
        assert!(told("7").unwrap_err().starts_with("This cannot be the spec"));
    }
}
