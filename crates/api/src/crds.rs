//! Compares installed CustomResourceDefinitions with the statuses that the operator writes.

use kube_core::{CustomResourceExt, Resource};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, value::RawValue};

/// The schema of a status, for the comparison with an installed CustomResourceDefinition. It takes a hundredth of the
/// time and memory of a whole definition.
#[derive(Debug)]
pub struct StatusSchema {
    /// The name of the definition whose objects have the status.
    pub definition: &'static str,
    version: String,
    schema: Value,
}

impl StatusSchema {
    fn of<K: CustomResourceExt + Resource<DynamicType = ()>, S: JsonSchema>() -> Self {
        let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<S>().to_value();
        Self { definition: K::crd_name(), version: K::version(&()).into_owned(), schema }
    }

    /// Returns the fields of the status that `installed`, a CustomResourceDefinition as JSON, would drop, as paths that
    /// begin with `status`. If `installed` does not serve our version, returns the version instead.
    ///
    /// # Errors
    ///
    /// When `installed` cannot be read.
    pub fn missing_in(&self, installed: &str) -> Result<Vec<String>, serde_json::Error> {
        let installed: Definition<'_> = serde_json::from_str(installed)?;
        let spec: Value = installed.spec.get().parse()?;
        let is_ours = |version: &&Value| version["name"] == self.version && version["served"] == true;
        let Some(version) = spec["versions"].as_array().into_iter().flatten().find(is_ours) else {
            return Ok(vec![format!("version {}", self.version)]);
        };
        let mut missing = Vec::new();
        // Schemas are compared as JSON: as Rust types, each would take a kilobyte.
        let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
        compare("status", &self.schema, status, &mut missing);
        Ok(missing)
    }
}

/// Returns the fields of the statuses of all our kinds.
pub fn status_schemas() -> [StatusSchema; 3] {
    [
        StatusSchema::of::<crate::SparkApplication, crate::SparkApplicationStatus>(),
        StatusSchema::of::<crate::ScheduledSparkApplication, crate::ScheduledSparkApplicationStatus>(),
        StatusSchema::of::<crate::SparkConnect, crate::SparkConnectStatus>(),
    ]
}

/// A definition without its metadata, whose managedFields may be nested deeper than serde_json parses.
#[derive(serde::Deserialize)]
struct Definition<'t> {
    #[serde(borrow)]
    spec: &'t RawValue,
}

fn compare(path: &str, ours: &Value, installed: &Value, missing: &mut Vec<String>) {
    if installed.is_null() {
        missing.push(path.to_owned());
        return;
    }
    if installed["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, field) in ours["properties"].as_object().into_iter().flatten() {
        compare(&format!("{path}.{name}"), field, &installed["properties"][name], missing);
    }
    let (ours, installed) = (&ours["items"], &installed["items"]);
    if ours.is_object() && installed.is_object() {
        compare(&format!("{path}[]"), ours, installed, missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_status_are_those_of_its_definition() {
        let definitions = [
            include_str!("../../../manifests/crds/sparkoperator.k8s.io_sparkapplications.yaml"),
            include_str!("../../../manifests/crds/sparkoperator.k8s.io_scheduledsparkapplications.yaml"),
            include_str!("../../../manifests/crds/sparkoperator.k8s.io_sparkconnects.yaml"),
        ];
        for (ours, yaml) in status_schemas().iter().zip(definitions) {
            let definition: Value = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(definition["metadata"]["name"], ours.definition);
            assert_eq!(ours.missing_in(&definition.to_string()).unwrap(), [""; 0]);
            let mut missing = Vec::new();
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            compare("status", &schema["properties"]["status"], &ours.schema, &mut missing);
            assert_eq!(missing, [""; 0]);
        }
    }
}
