//! Mounts an application's volumes into Spark's container.
//!
//! Scratch space (`spark-local-dir-…`) is not mounted here: Spark itself mounts it, from its configuration
//! (`crates/submission/src/volumes.rs`).

use super::{Problem, SparkPod, Step, entries, value, volume_name};
use api::{
    Embedded, Role, SparkApplication,
    names::{annotation, volume::is_scratch},
};
use entries::OnClash;
use k8s_openapi::api::core::v1::{Volume, VolumeMount};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const VOLUMES: Step = Step {
    key: annotation::VOLUMES,
    // Returns only the volumes that containers of this role mount, in the order of the mounts: first those of Spark's
    // container, then those of sidecars and init containers, including the containers of the pod template.
    asked: |pod, application, role| {
        // If several volumes have the same name, the last one is used, as in Kubeflow's operator.
        let volumes = application.spec.volumes.iter();
        let mut unused: BTreeMap<_, _> =
            volumes.map(|volume| (volume.json()["name"].as_str(), volume)).collect();
        let mounts = mounts(application, role);
        let in_template = |list: &str| pod.template()["spec"][list].as_array();
        let containers = ["containers", "initContainers"].into_iter().filter_map(in_template).flatten();
        let beside = pod.sidecars.iter().chain(&pod.init_containers).map(Embedded::json).chain(containers);
        let beside = beside.flat_map(|container| container["volumeMounts"].as_array().into_iter().flatten());
        let template = in_template("volumes").into_iter().flatten();
        let of_template: BTreeSet<_> = template.filter_map(|volume| volume["name"].as_str()).collect();
        let beside = beside.filter_map(|mount| mount["name"].as_str());
        let beside = beside.filter(|name| !of_template.contains(name));
        let names = mounts.filter_map(|mount| mount.json()["name"].as_str()).chain(beside);
        let mounted = names.filter_map(|name| unused.remove(&Some(name))).cloned();
        let secrets = unmountable_secrets(application, role);
        let secrets = secrets
            .map(|(name, secret, _)| Embedded::from(json!({"name": name, "secret": {"secretName": secret}})));
        value::written_list(&mounted.chain(secrets).collect::<Vec<_>>())
    },
    apply: |pod, text| {
        let mut volumes = value::list::<Volume>(text)?;
        // If Spark's container does not mount a volume, and the pod has a volume of this name already, that one is
        // kept.
        let mounted = pod.names_in(annotation::VOLUME_MOUNTS);
        let there: BTreeSet<_> =
            pod.spec.list("volumes")?.filter_map(|volume| volume["name"].as_str()).collect();
        volumes.retain(|volume| {
            volume["name"].as_str().is_none_or(|name| mounted.contains(name) || !there.contains(name))
        });
        add_volumes(pod, volumes)
    },
};

pub(super) const VOLUME_MOUNTS: Step = Step {
    key: annotation::VOLUME_MOUNTS,
    asked: |_, application, role| {
        let secrets = unmountable_secrets(application, role);
        let secrets = secrets.map(|(name, _, path)| Embedded::from(json!({"name": name, "mountPath": path})));
        value::written_list(&mounts(application, role).cloned().chain(secrets).collect::<Vec<_>>())
    },
    apply: |pod, text| {
        let mut mounts = value::list::<VolumeMount>(text)?;
        let there: BTreeSet<_> =
            pod.spec.list("volumes")?.filter_map(|volume| volume["name"].as_str()).collect();
        let has_volume = |mount: &Value| mount["name"].as_str().is_some_and(|name| there.contains(name));
        // As in Kubeflow's operator, a mount without a volume is left out: the application's validation has warned of
        // it. Annotations without the contract's version were not written by the controller, so they were not
        // validated.
        if pod.has_annotation(annotation::CONTRACT) {
            mounts.retain(has_volume);
        } else if let Some(i) = mounts.iter().position(|mount| !has_volume(mount)) {
            let names: Vec<_> = pod.spec.list("volumes")?.map(|volume| volume["name"].to_string()).collect();
            let text = format!(
                "names no volume: {} is none of {}; add it to spec.volumes",
                mounts[i]["name"],
                names.join(", ")
            );
            return Err(Problem::new(format!("[{i}].name"), text));
        }
        add_mounts(pod, mounts)
    },
};

/// Returns the mounts of `role` that the webhook adds: all except scratch space.
fn mounts(application: &SparkApplication, role: Role) -> impl Iterator<Item = &Embedded<VolumeMount>> {
    role.pod(&application.spec).volume_mounts.iter().filter(|mount| !is_scratch(mount.json()))
}

/// Returns the Secrets that Spark cannot mount: the name of the volume that the webhook adds, the Secret and the path.
/// A Secret that is mounted twice has one volume.
fn unmountable_secrets(
    application: &SparkApplication,
    role: Role,
) -> impl Iterator<Item = (String, &str, &str)> {
    let secrets = role.pod(&application.spec).secrets.iter();
    secrets.filter_map(|secret| {
        Some((volume_name::of_unmountable_secret(&secret.name)?, &*secret.name, &*secret.path))
    })
}

/// A mount is identified by its path, which cannot occur twice.
pub(super) const MOUNT: &[&str] = &["mountPath"];

pub(super) fn add_volumes(pod: &mut SparkPod, volumes: Vec<Value>) -> Result<(), Problem> {
    entries::add(&mut pod.spec, "volumes", volumes, &["name"], OnClash::Deny)
}

pub(super) fn add_mounts(pod: &mut SparkPod, mounts: Vec<Value>) -> Result<(), Problem> {
    entries::add(&mut pod.container, "volumeMounts", mounts, MOUNT, OnClash::Deny)
}
