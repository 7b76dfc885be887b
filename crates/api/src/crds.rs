//! Compares installed CustomResourceDefinitions with the statuses that the operator writes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube_core::{CustomResourceExt, Resource, schema::StructuralSchemaRewriter};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    ScheduledSparkApplication, ScheduledSparkApplicationStatus, SparkApplication, SparkApplicationStatus,
    SparkConnect, SparkConnectStatus,
};

/// The fields of a status, for the comparison with an installed definition. Takes a hundredth of the time and of the memory
/// of a whole definition.
#[derive(Debug)]
pub struct StatusSchema {
    /// The name of the definition whose objects have the status.
    pub definition: &'static str,
    version: String,
    schema: JSONSchemaProps,
}

impl StatusSchema {
    fn of<K: CustomResourceExt + Resource<DynamicType = ()>, S: JsonSchema>() -> Self {
        // As in the definition, which kube's derive makes.
        let generator = SchemaSettings::openapi3()
            .with(|settings| {
                settings.inline_subschemas = true;
                settings.meta_schema = None;
            })
            .with_transform(StructuralSchemaRewriter)
            .into_generator();
        let schema = generator.into_root_schema_for::<S>().to_value();
        let schema = serde_json::from_value(schema).expect("the definition contains this schema");
        Self { definition: K::crd_name(), version: K::version(&()).into_owned(), schema }
    }

    /// Returns the fields of the status that `installed`, a definition as JSON, would drop, as paths that begin with `status`.
    ///
    /// # Errors
    ///
    /// When `installed` cannot be read.
    pub fn missing_in(&self, installed: &str) -> Result<Vec<String>, serde_json::Error> {
        let installed: Definition<'_> = serde_json::from_str(installed)?;
        let mut spec: Value = installed.spec.get().parse()?;
        let versions = spec.pointer_mut("/versions").and_then(Value::as_array_mut);
        let is_ours = |version: &&mut Value| version["name"] == self.version && version["served"] == true;
        let Some(version) = versions.into_iter().flatten().find(is_ours) else {
            return Ok(vec![format!("version {}", self.version)]);
        };
        let mut missing = Vec::new();
        compare("status", &self.schema, status(version)?.as_ref(), &mut missing);
        Ok(missing)
    }
}

/// Returns the fields of the statuses of all our kinds.
pub fn status_schemas() -> [StatusSchema; 3] {
    [
        StatusSchema::of::<SparkApplication, SparkApplicationStatus>(),
        StatusSchema::of::<ScheduledSparkApplication, ScheduledSparkApplicationStatus>(),
        StatusSchema::of::<SparkConnect, SparkConnectStatus>(),
    ]
}

/// A definition without its metadata: managedFields may be nested deeper than any parser of values goes.
#[derive(Deserialize)]
struct Definition<'t> {
    #[serde(borrow)]
    spec: &'t RawValue,
}

/// Takes the schema of the status out of a version of a definition. The others stay JSON: a pod's template alone is thousands
/// of schemas, of which each takes a kilobyte.
fn status(version: &mut Value) -> Result<Option<JSONSchemaProps>, serde_json::Error> {
    let status = version.pointer_mut("/schema/openAPIV3Schema/properties/status");
    status.map(|schema| serde_json::from_value(schema.take())).transpose()
}

fn compare(
    path: &str,
    ours: &JSONSchemaProps,
    installed: Option<&JSONSchemaProps>,
    missing: &mut Vec<String>,
) {
    let Some(installed) = installed else {
        missing.push(path.to_owned());
        return;
    };
    if installed.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    for (name, field) in ours.properties.iter().flatten() {
        let other = installed.properties.as_ref().and_then(|properties| properties.get(name));
        compare(&format!("{path}.{name}"), field, other, missing);
    }
    if let (Some(JSONSchemaPropsOrArray::Schema(ours)), Some(JSONSchemaPropsOrArray::Schema(installed))) =
        (&ours.items, &installed.items)
    {
        compare(&format!("{path}[]"), ours, Some(installed), missing);
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
            let mut definition: Value = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(definition["metadata"]["name"], ours.definition);
            assert_eq!(ours.missing_in(&definition.to_string()).unwrap(), [""; 0]);
            let installed = status(&mut definition["spec"]["versions"][0]).unwrap().unwrap();
            let mut missing = Vec::new();
            compare("status", &installed, Some(&ours.schema), &mut missing);
            assert_eq!(missing, [""; 0]);
        }
    }
}
