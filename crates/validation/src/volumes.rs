//! Checks that every mount of scratch space refers to an existing volume and that every mount has its own path. Warns of other
//! mounts without a volume.

use super::{Findings, Subject};
use api::{
    Role,
    names::{
        conf,
        volume::{self, ON_DEMAND, is_scratch},
    },
};
use pod_customization::volume_name;
use serde_json::Value;
use std::{
    borrow::Cow,
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
};
use submission::volumes as scratch;

/// Checks the mounts of scratch space: Spark mounts these volumes itself, as its configuration says.
pub(super) fn scratch_space(subject: &Subject, findings: &mut Findings) {
    let (volumes, of_spec) = (subject.field("volumes"), of_spec(subject));
    for (role, _, mount) in mounted(subject).filter(|(_, _, mount)| is_scratch(mount)) {
        let name = mount["name"].as_str().unwrap_or_default();
        match of_spec.get(name) {
            None => findings.refuse(
                subject.of_role(role, "volumeMounts"),
                format_args!("mounts volume `{name}`, which is not in {volumes}"),
            ),
            Some(volume) if scratch::type_of(volume).is_none() => findings.refuse(
                &volumes,
                format_args!(
                    "`{name}` is scratch space and of a type that Spark cannot mount: use emptyDir, hostPath, nfs or \
                     persistentVolumeClaim (`claimName: OnDemand` for one of each pod, with class and size in sparkConf), or \
                     write both into the template"
                ),
            ),
            Some(_) => {}
        }
    }
}

/// Checks that each mount has its own path. Warns of different volumes with one name, and of mounts other than scratch space
/// that have no volume: Kubeflow's operator runs such applications, with the last of the volumes and without these mounts.
pub(super) fn mounts(subject: &Subject, findings: &mut Findings) {
    let volumes = subject.field("volumes");
    names(subject, &volumes, findings);
    let of_spec = of_spec(subject);
    for role in Role::ALL {
        // This is computed only when needed: most applications mount only volumes of their spec.
        let others = LazyCell::new(|| of_others(subject, role));
        let mut taken = BTreeSet::new();
        for (i, mount) in mounts_of(subject, role) {
            let name = mount["name"].as_str().unwrap_or_default();
            let field = |name: &str| subject.of_role(role, format_args!("volumeMounts[{i}].{name}"));
            let has_volume = || of_spec.contains_key(name) || others.contains(name);
            if !is_scratch(mount) && !has_volume() {
                findings.warn(field("name"), format_args!("is left out: no volume `{name}` is in {volumes}"));
                continue;
            }
            let claim = of_spec.get(name).map(|volume| &volume["persistentVolumeClaim"]["claimName"]);
            if !is_scratch(mount) && claim.is_some_and(|claim| *claim == ON_DEMAND) {
                findings.warn(
                    &volumes,
                    format_args!(
                        "{ON_DEMAND} is made for volumes called `spark-local-dir-…` and those in sparkConf alone"
                    ),
                );
            }
            let path = mount["mountPath"].as_str().unwrap_or_default();
            if !taken.insert(path) {
                findings.refuse(
                    field("mountPath"),
                    format_args!("`{path}` is taken by another mount: choose another path"),
                );
            }
        }
    }
}

/// Warns of volumes with different contents and one name.
fn names(subject: &Subject, field: &str, findings: &mut Findings) {
    // Contains, for each name, the first volume with that name; none once a different volume with that name has been
    // found.
    let mut by_name: BTreeMap<Option<&str>, Option<&Value>> = BTreeMap::new();
    for volume in subject.spec.volumes.iter().map(|volume| volume.json()) {
        let name = volume["name"].as_str();
        let first = by_name.entry(name).or_insert(Some(volume));
        if first.is_some_and(|first| first != volume) {
            *first = None;
            let name = name.unwrap_or_default();
            findings.warn(
                field,
                format_args!("`{name}` stands for two volumes, and the last counts: rename the other"),
            );
        }
    }
}

/// Returns the mounts of both roles, with their positions in `volumeMounts`.
fn mounted<'s>(subject: &'s Subject) -> impl Iterator<Item = (Role, usize, &'s Value)> {
    Role::ALL
        .into_iter()
        .flat_map(move |role| mounts_of(subject, role).map(move |(i, mount)| (role, i, mount)))
}

fn mounts_of<'s>(subject: &'s Subject, role: Role) -> impl Iterator<Item = (usize, &'s Value)> {
    role.pod(&subject.spec).volume_mounts.iter().map(|mount| mount.json()).enumerate()
}

/// Returns the volumes of the spec by their names. If several volumes have the same name, the last one is returned.
pub(super) fn of_spec<'s>(subject: &'s Subject) -> BTreeMap<&'s str, &'s Value> {
    let volumes = subject.spec.volumes.iter().map(|volume| volume.json());
    volumes.filter_map(|volume| Some((volume["name"].as_str()?, volume))).collect()
}

/// Returns the names of the volumes that a role's pods have besides the volumes of the spec.
fn of_others<'s>(subject: &'s Subject, role: Role) -> BTreeSet<Cow<'s, str>> {
    let template = of_template(subject, role).iter().filter_map(|volume| volume["name"].as_str());
    let made = of_webhook(subject, role).into_iter().chain(of_spark(subject, role));
    template.map(Cow::Borrowed).chain(made.map(Cow::Owned)).collect()
}

/// Returns the volumes of the role's pod template.
pub(super) fn of_template<'s>(subject: &'s Subject, role: Role) -> &'s [Value] {
    let template = role.pod(&subject.spec).template.as_ref();
    let volumes = template.and_then(|template| template.json()["spec"]["volumes"].as_array());
    volumes.map_or(&[], Vec::as_slice)
}

/// Returns the names of the volumes that the webhook adds for ConfigMaps.
fn of_webhook(subject: &Subject, role: Role) -> Vec<String> {
    let spec = &subject.spec;
    let hadoop = spec.hadoop_config_map.is_some().then(|| volume::HADOOP_CONFIG_MAP.to_owned());
    let spark = spec.spark_config_map.is_some().then(|| volume::SPARK_CONFIG_MAP.to_owned());
    let config_maps = role.pod(spec).config_maps.iter().map(|map| volume_name::of_config_map(&map.name));
    hadoop.into_iter().chain(spark).chain(config_maps).collect()
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
        let keys = subject.spec.spark_conf.keys();
        keys.filter_map(|key| key.strip_prefix(&prefix)).map(str::to_owned).collect::<Vec<_>>()
    };
    let secrets = role.pod(&subject.spec).secrets.iter().map(|secret| secret.name.clone());
    let secrets = secrets.chain(behind(conf::SECRETS_PREFIX));
    // The keys are `<type>.<name>.mount.path` and the like.
    let configured = behind(conf::VOLUMES_PREFIX);
    let configured = configured.iter().filter_map(|key| key.split('.').nth(1)).map(str::to_owned);
    [own.to_owned()]
        .into_iter()
        .chain(secrets.map(|secret| secret + volume::SECRET_SUFFIX))
        .chain(configured)
        .collect()
}
