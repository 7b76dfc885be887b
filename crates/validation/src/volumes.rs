//! Checks that every mount of scratch space refers to an existing volume and that every mount of a volume in the spec has its
//! own path. Warns of other mounts without a volume. Mounts of other volumes are checked in the planned pods.

use super::Subject;
use api::{Role, SparkPodSpec, volume};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use submission::volumes as scratch;

/// Checks that each mount of a volume in the spec has its own path, and that each mount of scratch space has a volume that
/// Spark can mount: Spark mounts scratch space itself, as its configuration says.
pub(super) fn mounts(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let of_spec = scratch::by_name(&subject.spec);
    let mut taken = BTreeSet::new();
    for (i, mount) in pod.volume_mounts.iter().map(|mount| mount.json()).enumerate() {
        let name = mount["name"].as_str().unwrap_or_default();
        let is_scratch = volume::is_scratch(mount);
        let Some(found) = of_spec.get(name) else {
            if is_scratch {
                let volumes = subject.field("volumes");
                let why = format_args!("mounts volume `{name}`, which is not in {volumes}");
                subject.refuse(format_args!("{role}.volumeMounts"), why);
            }
            continue;
        };
        if is_scratch && scratch::type_of(found).is_none() {
            let why = "is scratch space and of a type that Spark cannot mount: use emptyDir, hostPath, nfs or \
                 persistentVolumeClaim (`claimName: OnDemand` for one of each pod, with class and size in \
                 sparkConf), or write both into the template";
            subject.refuse("volumes", format_args!("`{name}` {why}"));
        }
        if !is_scratch && found["persistentVolumeClaim"]["claimName"] == volume::ON_DEMAND {
            let what = "claims are created only for volumes `spark-local-dir-…` and those in sparkConf";
            subject.warn("volumes", format_args!("{} {what}", volume::ON_DEMAND));
        }
        let path = mount["mountPath"].as_str().unwrap_or_default();
        if !taken.insert(path) {
            let why = format_args!("`{path}` is taken by another mount: choose another path");
            subject.refuse(format_args!("{role}.volumeMounts[{i}].mountPath"), why);
        }
    }
}

/// Warns of mounts that the webhook leaves out of `pod`, which it has changed, because no volume has their name. Kubeflow's
/// operator runs such applications without these mounts.
pub(super) fn left_out(subject: &Subject, role: Role, pod: &Value) {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let there: BTreeSet<_> = volumes.filter_map(|volume| volume["name"].as_str()).collect();
    for (i, mount) in role.pod(&subject.spec).volume_mounts.iter().map(|mount| mount.json()).enumerate() {
        let name = mount["name"].as_str().unwrap_or_default();
        if !volume::is_scratch(mount) && !there.contains(name) {
            let what = format!("is left out: no volume `{name}` is in {}", subject.field("volumes"));
            subject.warn(format_args!("{role}.volumeMounts[{i}].name"), what);
        }
    }
}

/// Warns of volumes with different contents and one name.
pub(super) fn names(subject: &Subject) {
    // Contains, for each name, the first volume with that name; `None` once a different volume with that name has been
    // found.
    let mut by_name: BTreeMap<Option<&str>, Option<&Value>> = BTreeMap::new();
    for volume in subject.spec.volumes.iter().map(|volume| volume.json()) {
        let name = volume["name"].as_str();
        let first = by_name.entry(name).or_insert(Some(volume));
        if first.is_some_and(|first| first != volume) {
            *first = None;
            let name = name.unwrap_or_default();
            let what = format_args!("`{name}` stands for two volumes, and the last counts: rename the other");
            subject.warn("volumes", what);
        }
    }
}
