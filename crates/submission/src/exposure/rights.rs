//! Determines which rights a user needs to make a port of a driver reachable from outside the cluster.
//!
//! The operator creates Services and Ingresses with its own rights. Without this check, a tenant who may create
//! applications but no Ingresses could claim any host, with any annotation that an ingress controller, a load balancer or
//! external-dns obeys: the Service by which executors find their driver has annotations of the spec, too.

use api::{SparkApplicationSpec, conf::DRIVER_SERVICE_ANNOTATION_PREFIX};

/// A right to create objects of one kind in the namespace of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposureRight {
    /// The API group, as in a Role.
    pub group: &'static str,
    /// The plural of the kind, as in a Role.
    pub resource: &'static str,
    /// The path of the first field of the application that needs the right.
    pub field: String,
}

/// Returns the rights that a user needs to apply `spec`; empty if `old` has the same exposure options. `path` is the
/// path of the spec: `spec`, or `spec.template` in a schedule.
///
/// A Service of the type ClusterIP without annotations needs no right: it only leads to the driver's own port inside
/// the cluster, which other pods can reach without the Service.
pub fn exposure_rights(
    old: Option<&SparkApplicationSpec>,
    spec: &SparkApplicationSpec,
    path: &str,
) -> Vec<ExposureRight> {
    let is_same = |old: &SparkApplicationSpec| {
        old.driver_ingress_options == spec.driver_ingress_options
            && old.spark_ui_options == spec.spark_ui_options
            && old.driver.service_annotations == spec.driver.service_annotations
            && annotations_in_conf(old).eq(annotations_in_conf(spec))
    };
    if old.is_some_and(is_same) {
        return Vec::new();
    }
    let (mut services, mut ingresses) = (Vec::new(), Vec::new());
    if !spec.driver.service_annotations.is_empty() {
        services.push(format!("{path}.driver.serviceAnnotations"));
    }
    services.extend(annotations_in_conf(spec).map(|(key, _)| format!("{path}.sparkConf[{key}]")));
    if let Some(options) = &spec.spark_ui_options {
        let field = |name: &str| format!("{path}.sparkUIOptions.{name}");
        services.extend(is_open(options.service_type.as_deref()).then(|| field("serviceType")));
        services.extend((!options.service_annotations.is_empty()).then(|| field("serviceAnnotations")));
        ingresses.extend((!options.ingress_annotations.is_empty()).then(|| field("ingressAnnotations")));
        ingresses.extend((!options.ingress_tls.is_empty()).then(|| field("ingressTLS")));
    }
    for (i, options) in spec.driver_ingress_options.iter().enumerate() {
        let field = |name: &str| format!("{path}.driverIngressOptions[{i}].{name}");
        let exposure = &options.exposure;
        services.extend(is_open(exposure.service_type.as_deref()).then(|| field("serviceType")));
        services.extend((!exposure.service_annotations.is_empty()).then(|| field("serviceAnnotations")));
        let has_address = options.ingress_url_format.as_deref().is_some_and(|format| !format.is_empty());
        ingresses.extend(has_address.then(|| field("ingressURLFormat")));
    }
    let right = |group, resource, fields: Vec<String>| {
        fields.into_iter().next().map(|field| ExposureRight { group, resource, field })
    };
    let services = right("", "services", services);
    services.into_iter().chain(right("networking.k8s.io", "ingresses", ingresses)).collect()
}

/// Returns the properties that annotate the Service by which executors find their driver.
fn annotations_in_conf(spec: &SparkApplicationSpec) -> impl Iterator<Item = (&String, &String)> {
    spec.spark_conf.iter().filter(|(key, _)| key.starts_with(DRIVER_SERVICE_ANNOTATION_PREFIX))
}

/// Whether a Service of this type can be reached from outside the cluster.
fn is_open(service_type: Option<&str>) -> bool {
    service_type.is_some_and(|kind| !kind.is_empty() && kind != super::SERVICE_TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn needed(old: Option<Value>, spec: Value) -> Vec<String> {
        let read = |spec: Value| from_value::<SparkApplicationSpec>(spec).unwrap();
        let rights = exposure_rights(old.map(read).as_ref(), &read(spec), "spec");
        rights.iter().map(|right| format!("{} for {}", right.resource, right.field)).collect()
    }

    #[test]
    fn exposing_a_driver_outside_the_cluster_requires_rights() {
        let port = json!({"servicePort": 4040, "servicePortName": "ui"});
        let with = |field: &str, value: Value| {
            let mut options = port.clone();
            options[field] = value;
            options
        };
        let cases = include_str!("../../../../tests/data/exposure-rights.json");
        for (spec, expected) in serde_json::from_str::<Vec<(Value, Vec<String>)>>(cases).unwrap() {
            assert_eq!(needed(None, spec.clone()), expected, "{spec}");
            assert_eq!(needed(Some(spec.clone()), spec), [""; 0], "an unchanged exposure requires no rights");
        }
        let open = |host: &str| json!({"driverIngressOptions": [with("ingressURLFormat", json!(host))]});
        assert_eq!(needed(Some(open("a.example.com")), open("b.example.com")).len(), 1);
    }
}
