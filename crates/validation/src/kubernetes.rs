//! Kubernetes' own rules for the objects that a run consists of, as far as a user's spec can break them: names, labels,
//! annotations, volumes, mounts, variables, ports and quantities (`k8s.io/kubernetes/pkg/apis/core/validation`). A mistake is
//! what every version of Kubernetes refuses, unless another webhook of the cluster may correct it, such as by adding a volume.
//! The rules about one value are in `rules.txt`, those about several values are here.

use super::rules::{self, list, text};
use api::{LONGEST_NAME, excerpt, volume::is_scratch};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// A place in an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The name of the object.
    Name(String),
    /// The label with this key.
    Label(String),
    /// The annotation with this key.
    Annotation(String),
    /// The volume of this name, as [`Place::volume`] has it.
    Volume(String),
    /// The path of another field.
    Field(String),
}

impl Place {
    /// Returns the place of the volume of this name. A name that is too long for Kubernetes is cut: one volume can have
    /// thousands of mistakes, each with the name.
    pub fn volume(name: &str) -> Self {
        Self::Volume(excerpt::beginning(name.to_owned(), LONGEST_NAME))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "the name `{name}`"),
            Self::Label(key) => write!(f, "the label `{key}`"),
            Self::Annotation(key) => write!(f, "the annotation `{key}`"),
            Self::Volume(name) => write!(f, "the volume `{name}`"),
            Self::Field(path) => f.write_str(path),
        }
    }
}

/// The mistakes of an object: where each is, and what is wrong there.
pub type Mistakes = Vec<(Place, String)>;

/// Returns the mistakes of an object.
pub fn mistakes(object: &Value) -> Mistakes {
    let mut mistakes = Vec::new();
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    rules::check("Metadata", metadata, &mut |path, why| mistakes.push((of_metadata(metadata, &path), why)));
    match text(object, "kind") {
        "Pod" => of_pod(spec, &mut mistakes),
        "Service" => {
            let mut numbers = BTreeSet::new();
            let all = list(&spec["ports"]).filter_map(|port| port["port"].as_i64());
            for number in all.filter(|number| !numbers.insert(*number)) {
                let why = format!("{number} twice: choose another port for one");
                mistakes.push((Place::Field("ports".to_owned()), why));
            }
        }
        kind => rules::check(kind, spec, &mut |path, why| mistakes.push((field(&path), why))),
    }
    mistakes
}

fn field(path: &str) -> Place {
    Place::Field(path.trim_start_matches('.').to_owned())
}

/// Returns the place that is at `path` in the metadata of an object.
fn of_metadata(metadata: &Value, path: &str) -> Place {
    let key = |map: &str| path.strip_prefix(map)?.strip_suffix(']').map(str::to_owned);
    let annotation = || key(".annotations[").map(Place::Annotation);
    let name = || Place::Name(text(metadata, "name").to_owned());
    key(".labels[").map(Place::Label).or_else(annotation).unwrap_or_else(name)
}

fn of_pod(spec: &Value, mistakes: &mut Mistakes) {
    let mut names = BTreeSet::new();
    for volume in list(&spec["volumes"]) {
        let name = text(volume, "name");
        let place = Place::volume(name);
        let mut add = |why| mistakes.push((place.clone(), why));
        if !names.insert(name) {
            add(format!("there are two volumes `{name}`"));
        }
        rules::check("Volume", volume, &mut |_, why| add(why));
    }
    let mut add = |path: String, why| mistakes.push((field(&path), why));
    rules::check("Pod", spec, &mut add);
    let mut names = BTreeSet::new();
    for kind in ["initContainers", "containers"] {
        for (i, container) in list(&spec[kind]).enumerate() {
            let mut add = |path: String, why| add(format!("{kind}[{i}]{path}"), why);
            let name = text(container, "name");
            if !names.insert(name) {
                let why = format!("`{name}` is the name of another container: choose another");
                add(".name".to_owned(), why);
            }
            rules::check("Container", container, &mut add);
            of_lists(container, &mut add);
        }
    }
}

/// Checks that no two mounts of a container have the same path, and no two ports the same name.
fn of_lists(container: &Value, add: &mut impl FnMut(String, String)) {
    let mut paths = BTreeMap::new();
    for mount in list(&container["volumeMounts"]) {
        let path = text(mount, "mountPath");
        let Some(other) = paths.insert(path, mount) else { continue };
        let is_sparks = is_scratch(mount) || is_scratch(other);
        let why = if is_sparks { ", where Spark has its scratch space," } else { "" };
        let (first, name) = (text(other, "name"), text(mount, "name"));
        let both = format!("`{first}` and `{name}` are both mounted at `{path}`{why}: choose another path");
        add(".volumeMounts".to_owned(), both);
    }
    let mut names = BTreeSet::new();
    let all = list(&container["ports"]).map(|port| text(port, "name"));
    for name in all.filter(|name| !name.is_empty() && !names.insert(*name)) {
        add(".ports".to_owned(), format!("`{name}` is the name of two ports: choose another"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mistakes_are_found_with_their_place() {
        let good: Value =
            serde_json::from_str(include_str!("../../../tests/data/kubernetes/good.json")).unwrap();
        assert_eq!(mistakes(&good), []);
        let cases = include_str!("../../../tests/data/kubernetes/refused.json");
        for (pointer, value, expected) in serde_json::from_str::<Vec<(String, Value, String)>>(cases).unwrap()
        {
            let mut pod = good.clone();
            *pod.pointer_mut(&pointer).unwrap() = value;
            let found = mistakes(&pod);
            assert_eq!(found.first().map(|(place, _)| place.to_string()), Some(expected), "{found:?}");
        }
    }

    /// Otherwise a name of some hundred kilobytes would take some gigabytes.
    #[test]
    fn a_long_name_of_a_volume_is_cut_in_each_of_its_mistakes() {
        let (name, items) = ("v".repeat(1 << 20), vec![json!({"path": "/"}); 2000]);
        let volume = json!({"name": name, "secret": {"items": items}});
        let found = mistakes(&json!({
            "kind": "Pod", "metadata": {"name": "pi-driver"}, "spec": {"volumes": [volume]},
        }));
        assert_eq!(found.len(), 2001, "each item, and the name");
        let told: usize = found.iter().map(|(place, why)| place.to_string().len() + why.len()).sum();
        assert!(told < 3 << 20, "{told}");
    }
}
