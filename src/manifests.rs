//! Prints the manifests of an installation: the files under `manifests/`, which are compiled into the program, changed
//! as the flags require.

use crate::settings::{
    ExposureCheck, InstallationName, InstallationSettings, ManifestsPart, ManifestsSettings,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

/// The operator's namespace in the files under `manifests/`, and the default of `--namespace`.
pub const NAMESPACE: &str = "spark-operator";
/// The service account and the namespace of drivers in the files under `manifests/`.
const DRIVERS: (&str, &str) = ("spark", "default");

/// The CustomResourceDefinitions in the order in which they are applied: their plural names, and their files.
pub const CRDS: [(&str, &str); 3] = [
    ("sparkapplications", include_str!("../manifests/crds/sparkoperator.k8s.io_sparkapplications.yaml")),
    (
        "scheduledsparkapplications",
        include_str!("../manifests/crds/sparkoperator.k8s.io_scheduledsparkapplications.yaml"),
    ),
    ("sparkconnects", include_str!("../manifests/crds/sparkoperator.k8s.io_sparkconnects.yaml")),
];
const DEPLOYMENT: [&str; 3] = [
    include_str!("../manifests/deployment/operator.yaml"),
    include_str!("../manifests/deployment/disruption-budget.yaml"),
    include_str!("../manifests/deployment/network-policy.yaml"),
];

/// Returns the CustomResourceDefinitions as one YAML stream, for `kubectl apply -f -`.
pub fn crds() -> String {
    CRDS.map(|(_, yaml)| yaml).concat()
}

/// Returns the manifests that `settings` select, as one YAML stream in the order in which to apply them.
pub fn yaml(settings: &ManifestsSettings) -> String {
    let is_wanted = |part| settings.parts.is_empty() || settings.parts.contains(&part);
    let (installation, namespace) = (&settings.installation, &settings.namespace);
    let of_file = |file| objects(file, &installation.name, namespace);
    let (has_webhook, has_gateway) = (installation.webhook, installation.connect.has_gateway());
    let gateway = include_str!("../manifests/deployment/connect-gateway.yaml");
    let parts = [
        (ManifestsPart::Rbac, true, operator_roles(installation, namespace)),
        (ManifestsPart::Rbac, has_gateway, gateway_roles(installation, namespace)),
        (ManifestsPart::Rbac, true, of_file(include_str!("../manifests/rbac/people.yaml"))),
        (ManifestsPart::Drivers, true, drivers_accounts(settings)),
        (ManifestsPart::Webhook, has_webhook, of_file(include_str!("../manifests/webhook/service.yaml"))),
        (ManifestsPart::Webhook, has_webhook, webhook_configurations(installation, namespace)),
        (ManifestsPart::Deployment, true, DEPLOYMENT.into_iter().flat_map(of_file).collect()),
        (ManifestsPart::Deployment, has_gateway, of_file(gateway)),
    ];
    let mut stream = if is_wanted(ManifestsPart::Crds) { crds() } else { String::new() };
    let parts = parts.into_iter().filter(|(part, has_it, _)| *has_it && is_wanted(*part));
    for mut object in parts.flat_map(|(_, _, objects)| objects) {
        fill_in(&mut object, settings);
        stream += "---\n";
        stream += &serde_saphyr::to_string(&object).expect("what was YAML is YAML");
    }
    stream
}

/// Returns the operator's account in `namespace` and its roles, with only the permissions that the settings require: if
/// the namespaces are chosen by their names, Roles in these namespaces instead of ClusterRoles.
pub fn operator_roles(settings: &InstallationSettings, namespace: &str) -> Vec<Value> {
    let of_file = |file| objects(file, &settings.name, namespace);
    let namespaces = settings.namespaces();
    let (drives, serves) = (settings.drives_applications(), settings.serves_webhook());
    let connect = &settings.connect;
    let checks_exposure = settings.check_exposure_rights != ExposureCheck::False;
    let checks_quotas = settings.enable_resource_quota_enforcement;
    let of_cluster = [
        (true, include_str!("../manifests/rbac/operator.yaml")),
        (drives && namespaces.depends_on_labels(), include_str!("../manifests/rbac/namespaces.yaml")),
        (drives && connect.has_gateway(), include_str!("../manifests/rbac/connect-ports.yaml")),
    ];
    let where_applications_run = [
        (drives, include_str!("../manifests/rbac/applications.yaml")),
        (drives && connect.enable_spark_connect, include_str!("../manifests/rbac/connects.yaml")),
        (serves && checks_exposure, include_str!("../manifests/rbac/exposure.yaml")),
        (drives && settings.enable_driver_pdb, include_str!("../manifests/rbac/driver-pdb.yaml")),
        (serves && checks_quotas, include_str!("../manifests/rbac/quota.yaml")),
    ];
    let needed = |(is_needed, file): (bool, &'static str)| is_needed.then_some(file);
    let mut roles: Vec<_> = of_cluster.into_iter().filter_map(needed).flat_map(of_file).collect();
    let of_extensions = settings.extensions.roles().filter(|_| drives);
    let where_applications_run = where_applications_run.into_iter().filter_map(needed).chain(of_extensions);
    roles.extend(within_all(where_applications_run.flat_map(of_file).collect(), settings));
    // In a namespace of applications, the level of Pod Security would refuse Spark's pods, and uninstalling the operator
    // would delete the applications.
    let has_applications = settings.namespaces.iter().any(|name| name == namespace);
    roles.retain(|object| object["kind"] != "Namespace" || !has_applications);
    // The Secret and the webhook configurations are for the webhook's certificates, and Leases for the leader election.
    let is_needed = |resource: &Value| match resource.as_str().unwrap_or_default() {
        "leases" => drives,
        other => serves || other != "secrets" && !other.ends_with("webhookconfigurations"),
    };
    for rules in roles.iter_mut().filter_map(|role| role.get_mut("rules")?.as_array_mut()) {
        rules.retain(|rule| rule["resources"].as_array().is_none_or(|all| all.iter().any(is_needed)));
    }
    roles
}

/// Returns the roles of the gateway, whose account is in `namespace`.
pub fn gateway_roles(settings: &InstallationSettings, namespace: &str) -> Vec<Value> {
    let file = include_str!("../manifests/rbac/connect-gateway.yaml");
    within_all(objects(file, &settings.name, namespace), settings)
}

/// If the namespaces are chosen by their names alone, turns ClusterRoles and their bindings into Roles and RoleBindings
/// in each of these namespaces.
fn within_all(roles: Vec<Value>, settings: &InstallationSettings) -> Vec<Value> {
    match settings.namespaces().named() {
        Some(names) => {
            let in_each = |object: Value| names.iter().map(move |name| within(object.clone(), name));
            roles.into_iter().flat_map(in_each).collect()
        }
        None => roles,
    }
}

/// Turns a ClusterRole into a Role in `namespace`, or a ClusterRoleBinding into a RoleBinding.
fn within(mut object: Value, namespace: &str) -> Value {
    let inside = |field: &str, kind: &str| match field {
        "kind" => kind.strip_prefix("Cluster").map(str::to_owned),
        _ => None,
    };
    replace(&mut object, "", &inside);
    object["metadata"]["namespace"] = json!(namespace);
    object
}

/// Returns the account of drivers and its role, and Kubeflow's account unless the admin has named another one: in each of the
/// named namespaces, or in the namespace of the file if the namespaces are not chosen by their names alone.
fn drivers_accounts(settings: &ManifestsSettings) -> Vec<Value> {
    let namespaces = settings.installation.namespaces();
    let names = namespaces.named().cloned().unwrap_or_else(|| [DRIVERS.1.to_owned()].into());
    let account = &settings.driver_service_account;
    let of_kubeflow = include_str!("../manifests/rbac/spark-operator-spark.yaml");
    let of_kubeflow = (account == DRIVERS.0).then_some(of_kubeflow);
    let files = [Some(include_str!("../manifests/rbac/spark.yaml")), of_kubeflow];
    let in_one = |namespace: &String| {
        let mut objects: Vec<_> = files.into_iter().flatten().flat_map(read).collect();
        let renamed = |field: &str, name: &str| match field {
            "name" if name == DRIVERS.0 => Some(account.clone()),
            "namespace" => Some(namespace.clone()),
            _ => None,
        };
        objects.iter_mut().for_each(|object| replace(object, "", &renamed));
        objects
    };
    names.iter().flat_map(in_one).collect()
}

/// Returns the webhook configurations of an installation whose Service is in `namespace`. They decide when the API
/// server calls the webhook.
pub fn webhook_configurations(settings: &InstallationSettings, namespace: &str) -> Vec<Value> {
    let of_file = |file| objects(file, &settings.name, namespace);
    let mut configurations = of_file(include_str!("../manifests/webhook/pods.yaml"));
    configurations.extend(of_file(include_str!("../manifests/webhook/applications.yaml")));
    let selectors = settings.namespaces().selectors();
    let is_served = |webhook: &Value| {
        settings.connect.enable_spark_connect || webhook["rules"][0]["resources"][0] != "sparkconnects"
    };
    for webhooks in configurations.iter_mut().filter_map(|object| object["webhooks"].as_array_mut()) {
        webhooks.retain(is_served);
        if !selectors.is_empty() {
            *webhooks = webhooks.iter().flat_map(|webhook| for_each(webhook, &selectors)).collect();
        }
    }
    configurations
}

/// Returns a copy of the webhook for each selector, because a webhook has only one namespace selector. Where two
/// selectors match the same namespace, the API server calls the webhook twice, which has the same result as once.
fn for_each(webhook: &Value, selectors: &[LabelSelector]) -> Vec<Value> {
    let mut copies = vec![webhook.clone(); selectors.len()];
    for (i, (copy, selector)) in copies.iter_mut().zip(selectors).enumerate() {
        copy["namespaceSelector"] = json!(selector);
        if let (1.., Some(name)) = (i, webhook["name"].as_str()) {
            copy["name"] = json!(format!("labelled.{name}"));
        }
    }
    copies
}

/// Returns the objects in a file of manifests, with the names of an installation in `namespace`.
fn objects(file: &str, installation: &InstallationName, namespace: &str) -> Vec<Value> {
    let mut objects = read(file);
    let renamed = |field: &str, name: &str| {
        if field == "namespace" {
            return (name == NAMESPACE).then(|| namespace.to_owned());
        }
        let suffix = name.strip_prefix(InstallationName::DEFAULT)?;
        let is_ours = suffix.is_empty() || suffix.starts_with('-');
        is_ours.then(|| format!("{}{suffix}", installation.name))
    };
    for object in &mut objects {
        if object["kind"] == "Namespace" {
            object["metadata"]["name"] = json!(namespace);
        } else {
            replace(object, "", &renamed);
        }
    }
    objects
}

fn read(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(file).expect("the manifests are YAML: tests/it/manifests.rs reads them all")
}

/// Replaces each text in `value` for which `other` returns another one. `other` gets the name of the nearest field
/// around the text, and the text. `field` is the name of the field of `value` itself.
fn replace(value: &mut Value, field: &str, other: &impl Fn(&str, &str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = other(field, text) {
                *text = new;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, field, other)),
        Value::Object(fields) => fields.iter_mut().for_each(|(field, value)| replace(value, field, other)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Writes the settings of the webhook and of the Deployment into an object.
fn fill_in(object: &mut Value, settings: &ManifestsSettings) {
    for webhook in object.pointer_mut("/webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        webhook["failurePolicy"] = json!(settings.failure_policy);
        webhook["timeoutSeconds"] = json!(settings.timeout_seconds);
    }
    if let Some(container) = object.pointer_mut("/spec/template/spec/containers/0") {
        container["image"] = json!(settings.image);
        // The name of the program, whatever the name of the installation is.
        container["name"] = json!(InstallationName::DEFAULT);
        if let Some(arguments) = container["args"].as_array_mut() {
            let (run, is_gateway) = (&settings.installation, arguments[0] == "connect-gateway");
            let own = if is_gateway { gateway_arguments(run) } else { run.arguments() };
            arguments.extend(own.into_iter().map(Value::from));
        }
    }
}

/// Returns the flags of the gateway. It serves every SparkConnect that has a port of its range, so namespaces that are
/// chosen by labels need no flag.
fn gateway_arguments(settings: &InstallationSettings) -> Vec<String> {
    let named =
        settings.namespaces().named().map(|names| names.iter().cloned().collect::<Vec<_>>().join(","));
    let named = named.map(|names| format!("--namespaces={names}"));
    let range = |argument: &String| {
        argument.strip_prefix("--connect-gateway-port-range=").map(|range| format!("--port-range={range}"))
    };
    named.into_iter().chain(settings.arguments().iter().find_map(range)).collect()
}
