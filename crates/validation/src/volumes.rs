//! Checks that every mount of scratch space refers to an existing volume and that every mount has its own path. Warns of other
//! mounts without a volume.

use super::Subject;
use api::{Role, SparkPodSpec, conf, volume};
use pod_customization::volume_name;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use submission::volumes as scratch;

/// Checks that each mount has its own path, and those of scratch space a volume: Spark mounts these itself, as its configuration
/// says. Warns of other mounts that have no volume: Kubeflow's operator runs such applications without these mounts.
pub(super) fn mounts(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let of_spec = scratch::by_name(&subject.spec);
    // This is computed only when needed: most applications mount only volumes of their spec.
    let others = std::cell::LazyCell::new(|| of_others(subject, role));
    let mut taken = BTreeSet::new();
    for (i, mount) in pod.volume_mounts.iter().map(|mount| mount.json()).enumerate() {
        let name = mount["name"].as_str().unwrap_or_default();
        let field = |name: &str| format!("{role}.volumeMounts[{i}].{name}");
        let volumes = subject.field("volumes");
        match of_spec.get(name) {
            None if volume::is_scratch(mount) => {
                let why = format_args!("mounts volume `{name}`, which is not in {volumes}");
                subject.refuse(format_args!("{role}.volumeMounts"), why);
            }
            None if !others.contains(name) => {
                subject.warn(field("name"), format_args!("is left out: no volume `{name}` is in {volumes}"));
                continue;
            }
            Some(found) if volume::is_scratch(mount) && scratch::type_of(found).is_none() => {
                let why = "is scratch space and of a type that Spark cannot mount: use emptyDir, hostPath, nfs or \
                     persistentVolumeClaim (`claimName: OnDemand` for one of each pod, with class and size in \
                     sparkConf), or write both into the template";
                subject.refuse("volumes", format_args!("`{name}` {why}"));
            }
            Some(found)
                if !volume::is_scratch(mount)
                    && found["persistentVolumeClaim"]["claimName"] == volume::ON_DEMAND =>
            {
                let what = "is made for volumes called `spark-local-dir-…` and those in sparkConf alone";
                subject.warn("volumes", format_args!("{} {what}", volume::ON_DEMAND));
            }
            _ => {}
        }
        let path = mount["mountPath"].as_str().unwrap_or_default();
        if !taken.insert(path) {
            let why = format_args!("`{path}` is taken by another mount: choose another path");
            subject.refuse(field("mountPath"), why);
        }
    }
}

/// Warns of volumes with different contents and one name.
pub(super) fn names(subject: &Subject) {
    // Contains, for each name, the first volume with that name; none once a different volume with that name has been
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

/// Returns the names of the volumes that a role's pods have besides the volumes of the spec.
fn of_others(subject: &Subject, role: Role) -> BTreeSet<String> {
    let spec = &subject.spec;
    let template = of_template(subject, role).iter().filter_map(|volume| volume["name"].as_str());
    // The webhook adds volumes for ConfigMaps.
    let hadoop = spec.hadoop_config_map.as_ref().map(|_| volume::HADOOP_CONFIG_MAP);
    let spark = spec.spark_config_map.as_ref().map(|_| volume::SPARK_CONFIG_MAP);
    let config_maps = role.pod(spec).config_maps.iter().map(|map| volume_name::of_config_map(&map.name));
    let named = template.chain(hadoop).chain(spark).map(str::to_owned);
    named.chain(config_maps).chain(of_spark(subject, role)).collect()
}

/// Returns the volumes of the role's pod template.
pub(super) fn of_template<'s>(subject: &'s Subject, role: Role) -> &'s [Value] {
    let volumes = role.pod(&subject.spec).template()["spec"]["volumes"].as_array();
    volumes.map_or(&[], Vec::as_slice)
}

/// Returns the names of the volumes that Spark adds: for its own ConfigMap, for Secrets, and for the volume properties
/// in `sparkConf`.
pub(super) fn of_spark(subject: &Subject, role: Role) -> Vec<String> {
    let own = match role {
        Role::Driver => volume::SPARK_CONF_DRIVER,
        Role::Executor => volume::SPARK_CONF_EXECUTOR,
    };
    let behind = |prefix: &str| {
        let prefix = conf::kubernetes(role, prefix);
        subject.spec.spark_conf.keys().filter_map(move |key| key.strip_prefix(&*prefix))
    };
    let secrets = role.pod(&subject.spec).secrets.iter().map(|secret| &*secret.name);
    let secrets =
        secrets.chain(behind(conf::SECRETS_PREFIX)).map(|name| format!("{name}{}", volume::SECRET_SUFFIX));
    // The keys are `<type>.<name>.mount.path` and the like.
    let configured = behind(conf::VOLUMES_PREFIX).filter_map(|key| key.split('.').nth(1));
    [own.to_owned()].into_iter().chain(secrets).chain(configured.map(str::to_owned)).collect()
}
