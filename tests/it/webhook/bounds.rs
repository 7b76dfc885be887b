//! Proves that no object costs much memory, whether it is stored or sent for a review. The objects of these tests have,
//! in each list and each map of the watched kinds, as many of the smallest entries as an object can hold, or just as
//! many as are still read.

#![expect(clippy::print_stdout, reason = "the memory itself is a result, not only that it is below a limit")]

use super::{Client, process::Operator, review};
use crate::apiserver::prelude::*;
use axum::{
    extract::{Path, RawQuery},
    routing::get,
};
use futures::future::pending;
use k8s_openapi::api::{core::v1::Event, discovery::v1::EndpointSlice, networking::v1::NetworkPolicy};
use parking_lot::Mutex;
use pod_customization::STEPS;
use schemars::{JsonSchema, schema_for};
use sparkctl::crds::{self, schema};
use std::iter;

/// Maximum memory of the operator at any time, in KiB. Its Deployment allows 1 GiB.
const MOST: u64 = 200 << 10;
/// The size in bytes of the entries of an object that is beyond the bounds. An entry has at least three bytes.
const LONG: usize = 128 << 10;
/// The largest numbers of entries that are still read: of lists and maps, and of other values.
const READ: [usize; 2] = [4_900, 19_900];

/// Fields of the same types as others that are filled: `driver`, `containers`, `containerStatuses`, `labelSelector`,
/// `podAffinity`, `postStart`, `livenessProbe` and `limits`.
const TWINS: [&str; 12] = [
    "executor", "ephemeralContainers", "initContainers", "sidecars", "ephemeralContainerStatuses",
    "initContainerStatuses", "namespaceSelector", "podAntiAffinity", "preStop", "readinessProbe",
    "startupProbe", "requests",
];

/// A place in an object.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item,
    Key,
}

/// A list or a map that an object may have.
#[derive(Debug)]
struct Place {
    path: Vec<Step>,
    is_map: bool,
    /// The smallest entry.
    entry: &'static str,
}

/// Returns all lists and maps of a schema, at any depth.
fn places(schema: &Value) -> Vec<Place> {
    let mut found = Vec::new();
    look(schema, &schema["$defs"], &mut Vec::new(), &mut found);
    found
}

fn look(schema: &Value, definitions: &Value, path: &mut Vec<Step>, found: &mut Vec<Place>) {
    let schema = resolved(schema, definitions);
    let within = |step, schema: &Value, path: &mut Vec<Step>, found: &mut Vec<Place>| {
        path.push(step);
        look(schema, definitions, path, found);
        path.pop();
    };
    let here = path.clone();
    let place = |is_map, entry| Place { path: here.clone(), is_map, entry };
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        let anything = ["{}", "[]", "0", "{\"a\":0}"];
        found.extend(anything.into_iter().flat_map(|entry| [place(true, entry)]));
    }
    if let Some(items) = schema.get("items") {
        found.push(place(false, smallest(items, definitions)));
        within(Step::Item, items, path, found);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        found.push(place(true, smallest(values, definitions)));
        within(Step::Key, values, path, found);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        // The operator does not read managedFields.
        if name != "managedFields" && !TWINS.contains(&&**name) {
            within(Step::Field(name.clone()), field, path, found);
        }
    }
}

fn resolved<'s>(schema: &'s Value, definitions: &'s Value) -> &'s Value {
    let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| resolved(&definitions[name], definitions))
}

fn smallest(schema: &Value, definitions: &Value) -> &'static str {
    let schema = resolved(schema, definitions);
    let kind = &schema["type"];
    match kind.as_str().or_else(|| kind[0].as_str()) {
        Some("array") => "[]",
        Some("string") => "\"\"",
        Some("boolean") => "true",
        Some("integer" | "number") => "0",
        _ if schema["x-kubernetes-int-or-string"] == true => "0",
        _ => "{}",
    }
}

impl Place {
    fn is_in_template(&self) -> bool {
        let is = |step: Option<&Step>, field: &str| matches!(step, Some(Step::Field(name)) if name == field);
        is(self.path.first(), "spec") && is(self.path.get(1), "template")
    }

    /// Returns the fields of an object as JSON, without its braces, with this number of entries at this place.
    fn filled(&self, entries: usize) -> String {
        let mut json = if self.is_map {
            let entries = (0..entries).map(|i| format!("\"{i:x}\":{}", self.entry)).collect::<Vec<_>>();
            format!("{{{}}}", entries.join(","))
        } else {
            format!("[{}]", vec![self.entry; entries].join(","))
        };
        for step in self.path.iter().rev() {
            json = match step {
                Step::Field(name) => format!("{{\"{name}\":{json}}}"),
                Step::Item => format!("[{json}]"),
                Step::Key => format!("{{\"a\":{json}}}"),
            };
        }
        json[1..json.len() - 1].to_owned()
    }

    /// Returns the fields with as many entries as are read.
    fn read(&self) -> String {
        self.filled(READ[usize::from(!self.entry.starts_with(['{', '[']))])
    }

    /// Returns the fields with as many entries as a long object holds.
    fn long(&self) -> String {
        self.filled(LONG / (self.entry.len() + if self.is_map { 8 } else { 1 }))
    }
}

/// The lists of the API server: for each kind, the objects of each page.
type Lists = HashMap<&'static str, Vec<String>>;

fn objects(path: &str, kind: &str, schema: &Value) -> Vec<String> {
    let (api_version, _) =
        path.trim_start_matches("/apis/").trim_start_matches("/api/").rsplit_once('/').unwrap();
    let labels = json!({
        "sparkoperator.k8s.io/launched-by-spark-operator": "true",
        "sparkoperator.k8s.io/created-by-spark-operator": "true", "sparkoperator.k8s.io/app-name": "pi",
        "sparkoperator.k8s.io/submission-id": "a", "spark-role": "driver",
    });
    let (mut places, mut of_template) = (places(schema), 0);
    // The template of a schedule is read as the spec of an application is: some of its places are enough.
    places.retain(|place| {
        of_template += usize::from(place.is_in_template());
        !place.is_in_template() || of_template % 10 == 1
    });
    // Objects beyond the bounds are all treated alike, so that a tenth of them is enough.
    let fields = places.iter().map(Place::read).chain(places.iter().step_by(10).map(Place::long));
    let object = |(i, fields): (usize, String)| {
        let names = format!(
            r#""name":"{kind}-{i}","namespace":"team-a","uid":"{kind}-{i}","resourceVersion":"1","labels":{labels}"#
        )
        .to_lowercase();
        let head = format!(r#""apiVersion":"{api_version}","kind":"{kind}""#);
        match fields.strip_prefix("\"metadata\":{") {
            // Of a repeated key, the last value counts.
            Some(metadata) => format!("{{{head},\"metadata\":{{{names},{metadata}}}"),
            None => format!("{{{head},\"metadata\":{{{names}}},{fields}}}"),
        }
    };
    fields.enumerate().map(object).collect()
}

fn schema_of<K: JsonSchema>() -> Value {
    schema_for!(K).to_value()
}

/// Returns the kinds, each with the path of its list and the schema of its objects.
fn kinds() -> [(&'static str, &'static str, Value); 10] {
    let scheduled = "/apis/sparkoperator.k8s.io/v1beta2/scheduledsparkapplications";
    [
        ("/api/v1/configmaps", "ConfigMap", schema_of::<ConfigMap>()),
        ("/apis/discovery.k8s.io/v1/endpointslices", "EndpointSlice", schema_of::<EndpointSlice>()),
        ("/apis/networking.k8s.io/v1/networkpolicies", "NetworkPolicy", schema_of::<NetworkPolicy>()),
        ("/apis/sparkoperator.k8s.io/v1alpha1/sparkconnects", "SparkConnect", schema::<SparkConnect>()),
        ("/api/v1/pods", "Pod", schema_of::<Pod>()),
        ("/api/v1/services", "Service", schema_of::<Service>()),
        ("/api/v1/events", "Event", schema_of::<Event>()),
        ("/apis/networking.k8s.io/v1/ingresses", "Ingress", schema_of::<Ingress>()),
        (
            "/apis/sparkoperator.k8s.io/v1beta2/sparkapplications",
            "SparkApplication",
            schema::<SparkApplication>(),
        ),
        (scheduled, "ScheduledSparkApplication", schema::<ScheduledSparkApplication>()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_stored_object_takes_much_memory() {
    let lists: Lists =
        kinds().into_iter().map(|(path, kind, schema)| (path, objects(path, kind, &schema))).collect();
    let stored: usize = lists.values().map(Vec::len).sum();
    let paths: BTreeSet<_> = lists.keys().copied().filter(|path| !path.ends_with("events")).collect();
    let (lists, watched) = (Arc::new(lists), Arc::new(Mutex::new(BTreeSet::new())));
    let mut routes = Router::new();
    for path in lists.keys().copied() {
        let (lists, watched) = (Arc::clone(&lists), Arc::clone(&watched));
        let list = async move |RawQuery(query): RawQuery| {
            let query = query.unwrap_or_default();
            if query.contains("watch=") {
                watched.lock().insert(path);
                pending::<()>().await;
            }
            page(&lists[path], &query)
        };
        routes = routes.route(path, get(list));
    }
    let definitions: HashMap<_, _> = crds::custom_resource_definitions()
        .into_iter()
        .map(|definition| (definition.metadata.name.clone().unwrap(), json!(definition)))
        .collect();
    let definition = async move |Path(name): Path<String>| Json(definitions[&name].clone());
    let group = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let routes = routes.route(&format!("{group}/{{name}}"), get(definition));
    let arguments = ["--metrics-bind-address=0", "--leader-election=false", "--webhook=false"];
    let operator = Operator::of_cluster("stored", &arguments, routes).await;
    eventually("all lists are read", async || {
        let begun = watched.lock().clone();
        seen(begun == paths, begun)
    })
    .await;
    let most = operator.most_memory_kib();
    println!("{stored} objects of up to {} KiB: {most} KiB", LONG >> 10);
    assert!(most < MOST, "{most} KiB");
}

/// Returns the page of a list that a client requests.
fn page(all: &[String], query: &str) -> String {
    let number = |name: &str| {
        let mut asked = query.split('&').filter_map(|pair| pair.split_once('='));
        asked.find(|(field, _)| *field == name).and_then(|(_, value)| value.parse::<usize>().ok())
    };
    let (first, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(all.len()));
    let end = all.len().min(first + limit);
    let next = if end < all.len() { format!(",\"continue\":\"{end}\"") } else { String::new() };
    format!(
        r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"1"{next}}},"items":[{}]}}"#,
        all[first..end].join(",")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_review_takes_much_memory() {
    let operator = Operator::start("reviewed").await;
    let mut reviews = Vec::new();
    for (list, kind, schema) in kinds() {
        let ours = "sparkoperator.k8s.io";
        let (group, asked): (_, &[_]) = match kind {
            "Pod" => ("", &["/mutate"]),
            "SparkApplication" => (ours, &["/mutate", "/validate"]),
            "ScheduledSparkApplication" | "SparkConnect" => (ours, &["/validate"]),
            _ => continue,
        };
        let mut empty = review(&json!("OBJECT"));
        empty["request"]["kind"] = json!({"group": group, "version": "v1", "kind": kind});
        let text = |object: &str| empty.to_string().replacen("\"OBJECT\"", object, 1);
        // Schedules are left out: their template is parsed by the same code as the spec of an application.
        let is_read = |object: &String| !object.contains(r#""spec":{"template":{"#);
        let annotated = (kind == "Pod").then(annotated).into_iter().flatten();
        let objects = objects(list, kind, &schema).into_iter().filter(is_read);
        let objects = objects.chain(crafted()).chain(annotated);
        let all = objects.flat_map(|object| asked.iter().map(move |path| (*path, object.clone())));
        reviews.extend(all.map(|(path, object)| (path, text(&object))));
    }
    let count = reviews.len();
    // A client that reaches the port may open any number of connections.
    let mut lanes = Vec::new();
    let reviews = Arc::new(Mutex::new(reviews.into_iter()));
    for _ in 0..8 {
        let mut client = Client::http2(operator.handshake("h2").await.unwrap()).await;
        let reviews = Arc::clone(&reviews);
        lanes.push(tokio::spawn(async move {
            loop {
                let Some((path, text)) = reviews.lock().next() else { break };
                client.post_to(path, "application/json", text).await.unwrap();
            }
        }));
    }
    stream::iter(lanes).for_each(async |lane| lane.await.unwrap()).await;
    operator.answers().await;
    let most = operator.most_memory_kib();
    println!("{count} reviews: {most} KiB");
    assert!(most < MOST, "{most} KiB");
}

/// Returns objects that no API server sends, but other clients of the port may send.
fn crafted() -> impl Iterator<Item = String> {
    let maps = |count: usize| iter::repeat_n("{\"a\":0}", count).collect::<Vec<_>>().join(",");
    let long = maps(480_000);
    [
        format!(r#"{{"spec":{{"x":[{long}]}}}}"#),
        // The first value costs memory, although only the second one is kept.
        format!(r#"{{"spec":{{"x":[{long}]}},"spec":{{}}}}"#),
        format!(r#"{{"metadata":[],"spec":{{"x":[{long}]}}}}"#),
        format!(r#"{{"spec":{{"x":[{long}]}},"metadata":7}}"#),
        format!(r#"[{long}]"#),
        format!(r#"{{"metadata":{{"managedFields":[{long}]}},"spec":{{}}}}"#),
        format!(r#"{{"metadata":{{"managedFields":0,"managedFields":[{long}],"x":[{long}]}}}}"#),
        format!(
            r#"{{{}}}"#,
            (0..60).map(|i| format!("\"f{i}\":[{}]", maps(7_000))).collect::<Vec<_>>().join(",")
        ),
        format!(r#"{{"spec":{{"x":[{long}"#),
        // `serde_json` would parse the text of an entry with this key.
        format!(
            r#"{{"metadata":{{"annotations":{{"$serde_json::private::RawValue":{}}}}}}}"#,
            json!(format!("[{}]", maps(400_000)))
        ),
    ]
    .into_iter()
}

/// Returns drivers whose annotations hold as many of the smallest values as they can, in one annotation or in all.
fn annotated() -> impl Iterator<Item = String> {
    let list = |bytes: usize| format!("[{}]", vec!["{}"; bytes / 3].join(","));
    let managed = format!(r#"{{"metadata":{{"managedFields":{}}}}}"#, list(200 << 10));
    let each = list((250 << 10) / STEPS.len());
    let one = STEPS.iter().flat_map(move |step| {
        [list(200 << 10), list(14_000), managed.clone()].map(|text| json!({step.key: text}))
    });
    let all: Value =
        STEPS.iter().map(|step| (step.key.to_owned(), each.clone().into())).collect::<Map<_, _>>().into();
    let long = json!({STEPS[0].key: list(3 << 20)});
    one.chain([all, long]).map(|annotations| {
        json!({
            "metadata": {"labels": {"spark-role": "driver"}, "annotations": annotations},
            "spec": {"containers": [{"name": "spark-kubernetes-driver"}]},
        })
        .to_string()
    })
}
