//! Puts the Hadoop configuration of this machine into an application's pods: as a ConfigMap that is deleted with the
//! application.

use super::{cluster::Cluster, failure::of_call, manifest, show::complain};
use anyhow::{Context, bail};
use api::{
    Identity, SparkConnect,
    names::{env::HADOOP_CONF_DIR, label},
};
use k8s_openapi::{ByteString, api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api, Resource, ResourceExt,
    api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

/// The value of the label [`label::MANAGED_BY`] on the ConfigMaps that `sparkctl` creates. A ConfigMap without owners
/// and without this value is not replaced.
const MANAGER: &str = "sparkctl";

/// The largest total size, in bytes, of the values of a ConfigMap that the API server accepts.
const LARGEST: u64 = 1 << 20;

/// The files of the folder with the Hadoop configuration, split into text and binary files as in a ConfigMap.
pub(super) struct HadoopConf {
    folder: PathBuf,
    text: BTreeMap<String, String>,
    binary: BTreeMap<String, ByteString>,
}

impl HadoopConf {
    /// Reads the folder that HADOOP_CONF_DIR names, if the variable is set.
    ///
    /// # Errors
    ///
    /// When the folder cannot become a ConfigMap.
    pub(super) fn of_environment() -> anyhow::Result<Option<Self>> {
        let folder = env::var_os(HADOOP_CONF_DIR).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let read = folder.map(|folder| {
            let shown = folder.display().to_string();
            Self::of(folder).with_context(|| format!("{HADOOP_CONF_DIR}={shown}"))
        });
        read.transpose()
    }

    fn of(folder: PathBuf) -> anyhow::Result<Self> {
        let files = plain_files(&folder)?;
        if files.is_empty() {
            bail!("has no files: put some there, or unset the variable");
        }
        let size: u64 = files.values().map(|(_, size)| size).sum();
        if size > LARGEST {
            bail!("has {size} bytes, and a ConfigMap holds {LARGEST}: take files out, or unset the variable");
        }
        let (mut text, mut binary) = (BTreeMap::new(), BTreeMap::new());
        for (name, (path, _)) in files {
            let content = fs::read(&path).with_context(|| format!("{name} cannot be read"))?;
            match String::from_utf8(content) {
                Ok(content) => drop(text.insert(name, content)),
                Err(error) => drop(binary.insert(name, ByteString(error.into_bytes()))),
            }
        }
        Ok(Self { folder, text, binary })
    }

    /// Sets `hadoopConfigMap` in the spec of `object`, and returns the ConfigMap to create. Returns `None` if the spec
    /// names a ConfigMap already, or is that of a SparkConnect, which has no such field.
    ///
    /// # Errors
    ///
    /// When `object` has no `metadata.name`, from which the name of the ConfigMap is made.
    pub(super) fn wanted_by(&self, object: &mut DynamicObject) -> anyhow::Result<Option<Wanted<'_>>> {
        if manifest::kind(object) == SparkConnect::kind(&()) {
            return Ok(None);
        }
        let (title, name) = (manifest::title(object), object.name_any());
        let (_, spec) = manifest::place_of_spec(object);
        let Some(spec) = object.data.pointer_mut(spec) else { return Ok(None) };
        let chosen = &mut spec["hadoopConfigMap"];
        if let Some(chosen) = chosen.as_str().filter(|chosen| !chosen.is_empty()) {
            complain(&format!(
                "{title}: has the ConfigMap {chosen}, so that {HADOOP_CONF_DIR} is not used for it"
            ));
            return Ok(None);
        }
        if object.metadata.name.as_deref().is_none_or(str::is_empty) {
            bail!(
                "{title}: metadata.generateName: with {HADOOP_CONF_DIR}, write metadata.name: a ConfigMap is called after it"
            );
        }
        let name = format!("{name}-hadoop-config");
        *chosen = json!(name);
        Ok(Some(Wanted { conf: self, name }))
    }
}

/// Returns the plain files of a folder, with their sizes. Fails if a name cannot be a key of a ConfigMap.
fn plain_files(folder: &Path) -> anyhow::Result<BTreeMap<String, (PathBuf, u64)>> {
    let mut files = BTreeMap::new();
    for entry in
        fs::read_dir(folder).context("is no folder that can be read: set the variable to one, or unset it")?
    {
        let path = entry?.path();
        // Links are followed: mounted ConfigMaps and packages consist of links.
        let metadata = fs::metadata(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        if !metadata.is_file() {
            continue;
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
            bail!(
                "has the file `{name}`: take it out, keys of ConfigMaps have only letters, digits, `-`, `_` and `.`"
            );
        }
        files.insert(name, (path, metadata.len()));
    }
    Ok(files)
}

/// A ConfigMap to be created for one application or schedule.
pub(super) struct Wanted<'a> {
    conf: &'a HadoopConf,
    pub name: String,
}

impl Wanted<'_> {
    /// Checks that no other ConfigMap has the name: an existing ConfigMap must belong to `object`, or must be one that
    /// `sparkctl` has created.
    ///
    /// # Errors
    ///
    /// When another ConfigMap has the name, or when the API server does not answer.
    pub(super) async fn check(&self, place: &Cluster, object: &DynamicObject) -> anyhow::Result<()> {
        let present = place.api::<ConfigMap>().get_metadata_opt(&self.name).await.map_err(of_call)?;
        let Some(present) = present else { return Ok(()) };
        let is_another = |owner: &&OwnerReference| {
            (&*owner.kind, &*owner.name) != (manifest::kind(object), &*object.name_any())
        };
        let owners = present.owner_references();
        let is_ours = present.labels().get(label::MANAGED_BY).is_some_and(|manager| manager == MANAGER);
        let whose = match owners.iter().find(is_another) {
            Some(other) => format!("which belongs to {} {}", other.kind, other.name),
            None if owners.is_empty() && !is_ours => "which sparkctl did not create".to_owned(),
            None => return Ok(()),
        };
        bail!(
            "{}: with {HADOOP_CONF_DIR} it would have the ConfigMap {}, {whose}: name another one in hadoopConfigMap, rename the object, or \
             delete that ConfigMap",
            manifest::title(object),
            self.name,
        )
    }

    /// Creates the ConfigMap, or replaces the existing one.
    ///
    /// # Errors
    ///
    /// When the API server refuses the ConfigMap.
    pub(super) async fn make(&self, place: &Cluster) -> anyhow::Result<()> {
        let HadoopConf { folder, text, binary } = self.conf;
        let config_map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some([(label::MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
                ..ObjectMeta::default()
            },
            data: Some(text.clone()),
            binary_data: Some(binary.clone()),
            ..ConfigMap::default()
        };
        let config_maps: Api<ConfigMap> = place.api();
        let parameters = PostParams::default();
        match config_maps.replace(&self.name, &parameters, &config_map).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                config_maps.create(&parameters, &config_map).await.map_err(of_call)?;
            }
            replaced => drop(replaced.map_err(of_call)?),
        }
        complain(&format!("ConfigMap {} has the files of {}", self.name, folder.display()));
        Ok(())
    }

    /// Sets `owner` as the owner of the ConfigMap, so that Kubernetes deletes both together. A failure is only reported
    /// as a warning: its only effect is that the ConfigMap is not deleted with the owner.
    pub(super) async fn leave_to(&self, place: &Cluster, owner: &DynamicObject) {
        let types = owner.types.clone().unwrap_or_default();
        let (name, uid) = (owner.name_any(), owner.own_uid());
        let reference =
            json!({"apiVersion": types.api_version, "kind": types.kind, "name": name, "uid": uid});
        let patch = json!({"metadata": {"ownerReferences": [reference]}});
        let config_maps: Api<ConfigMap> = place.api();
        let patched = config_maps.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        if let Err(error) = patched.map_err(of_call) {
            complain(&format!(
                "Warning: ConfigMap {} will not be deleted together with {}: {error:#}",
                self.name,
                owner.name_any()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    #[test]
    fn a_folder_becomes_the_text_and_binary_data_of_a_config_map() {
        let folder = env::temp_dir().join(format!("sparkctl-hadoop-{}", process::id()));
        let complaint = || HadoopConf::of(folder.clone()).err().unwrap().to_string();
        assert_eq!(complaint(), "is no folder that can be read: set the variable to one, or unset it");
        fs::create_dir_all(folder.join("below")).unwrap();
        assert!(complaint().starts_with("has no files"));
        fs::write(folder.join("core-site.xml"), "<ü/>").unwrap();
        fs::write(folder.join("key"), b"\xff").unwrap();
        let conf = HadoopConf::of(folder.clone()).unwrap();
        assert_eq!(conf.text, BTreeMap::from([("core-site.xml".to_owned(), "<ü/>".to_owned())]));
        assert_eq!(conf.binary, BTreeMap::from([("key".to_owned(), ByteString(vec![0xff]))]));
        fs::write(folder.join("large"), vec![b'x'; 1 << 20]).unwrap();
        assert!(complaint().starts_with("has 1048582 bytes"), "{}", complaint());
        fs::rename(folder.join("large"), folder.join("a b")).unwrap();
        assert!(complaint().starts_with("has the file `a b`"), "{}", complaint());
        fs::remove_dir_all(folder).unwrap();
    }
}
