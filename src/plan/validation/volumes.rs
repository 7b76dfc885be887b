//! Does every mount have a volume, and a place of its own?

use super::{Findings, Subject};
use crate::{
    api::{
        Role,
        names::{conf, volume},
    },
    plan::{submission::volumes as scratch, volume_name},
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Volumes that Spark itself mounts, from its configuration.
pub(super) fn scratch_space(subject: &Subject, findings: &mut Findings) {
    let volumes = subject.field("volumes");
    for (role, _, mount) in mounted(subject).filter(|(_, _, mount)| scratch::is_scratch(mount)) {
        let name = mount["name"].as_str().unwrap_or_default();
        match of_spec(subject, name) {
            None => findings.refuse(
                subject.of_role(role, "volumeMounts"),
                format_args!("mounts volume `{name}`, which is not in {volumes}"),
            ),
            Some(volume) if scratch::type_of(volume).is_none() => findings.refuse(
                &volumes,
                format_args!(
                    "`{name}` is scratch space and of a type that Spark cannot mount: use emptyDir, hostPath, nfs or \
                     persistentVolumeClaim"
                ),
            ),
            Some(_) => {}
        }
    }
}

/// All others.
pub(super) fn mounts(subject: &Subject, findings: &mut Findings) {
    let volumes = subject.field("volumes");
    for (i, entry) in subject.spec.volumes.iter().enumerate() {
        let (entry, name) = (entry.json(), &entry.json()["name"]);
        let mut earlier = subject.spec.volumes[..i].iter().map(|earlier| earlier.json());
        if earlier.any(|earlier| earlier["name"] == *name && earlier != entry) {
            let name = name.as_str().unwrap_or_default();
            findings.refuse(
                &volumes,
                format_args!("`{name}` stands for two volumes: give one of them another name"),
            );
        }
    }
    let mut taken = BTreeSet::new();
    for (role, i, mount) in mounted(subject) {
        let name = mount["name"].as_str().unwrap_or_default();
        let field = |name: &str| subject.of_role(role, format_args!("volumeMounts[{i}].{name}"));
        let has_volume = of_spec(subject, name).is_some()
            || of_template(subject, role).iter().any(|volume| volume["name"] == name)
            || of_webhook(subject, role).iter().chain(&of_spark(subject, role)).any(|volume| volume == name);
        if !scratch::is_scratch(mount) && !has_volume {
            findings.refuse(field("name"), format_args!("mounts volume `{name}`, which is not in {volumes}"));
        }
        let path = mount["mountPath"].as_str().unwrap_or_default();
        if !taken.insert((role, path)) {
            findings.refuse(
                field("mountPath"),
                format_args!("`{path}` is taken by another mount: choose another path"),
            );
        }
    }
}

/// The mounts of both roles, with their positions.
fn mounted<'s>(subject: &'s Subject) -> impl Iterator<Item = (Role, usize, &'s Value)> {
    Role::ALL.into_iter().flat_map(|role| {
        let mounts = role.pod(&subject.spec).volume_mounts.iter().enumerate();
        mounts.map(move |(i, mount)| (role, i, mount.json()))
    })
}

/// The volume of the spec that is called `name`.
pub(super) fn of_spec<'s>(subject: &'s Subject, name: &str) -> Option<&'s Value> {
    subject.spec.volumes.iter().map(|volume| volume.json()).find(|volume| volume["name"] == name)
}

/// The volumes of the role's pod template.
pub(super) fn of_template<'s>(subject: &'s Subject, role: Role) -> &'s [Value] {
    let template = role.pod(&subject.spec).template.as_ref();
    let volumes = template.and_then(|template| template.json()["spec"]["volumes"].as_array());
    volumes.map_or(&[], Vec::as_slice)
}

/// Names of the volumes that the webhook makes for ConfigMaps.
pub(super) fn of_webhook(subject: &Subject, role: Role) -> Vec<String> {
    let spec = &subject.spec;
    let hadoop = spec.hadoop_config_map.is_some().then(|| volume::HADOOP_CONFIG_MAP.to_owned());
    let spark = spec.spark_config_map.is_some().then(|| volume::SPARK_CONFIG_MAP.to_owned());
    let config_maps = role.pod(spec).config_maps.iter().map(|map| volume_name::of_config_map(&map.name));
    hadoop.into_iter().chain(spark).chain(config_maps).collect()
}

/// Names of the volumes that Spark makes: for its own ConfigMap, for Secrets, and as sparkConf says.
fn of_spark(subject: &Subject, role: Role) -> Vec<String> {
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
    // `<type>.<name>.mount.path` and the like.
    let configured = behind(conf::VOLUMES_PREFIX);
    let configured = configured.iter().filter_map(|key| key.split('.').nth(1)).map(str::to_owned);
    [own.to_owned()]
        .into_iter()
        .chain(secrets.map(|secret| secret + volume::SECRET_SUFFIX))
        .chain(configured)
        .collect()
}
