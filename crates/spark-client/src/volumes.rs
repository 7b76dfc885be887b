//! Adds the volumes of `spark.kubernetes.driver.volumes.…` to the driver, and builds the PersistentVolumeClaims that
//! these properties request.

use super::{
    Context, Line,
    conf::{Conf, boolean},
    driver_in_progress::Driver,
    not_native::NotNative,
    resources::quantity,
    submit_conf,
};
use api::{
    Role,
    names::{conf, label, volume},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The smallest size of a volume, in bytes. A smaller number is probably meant in another unit.
const SMALLEST: u64 = 1024;

/// A volume as its properties describe it.
struct Volume {
    name: String,
    /// The entry of `volumeMounts`, without the name.
    mount: Value,
    path: String,
    read_only: bool,
    source: Source,
}

enum Source {
    /// The volume's type and its fields, in the form that the pod contains.
    Plain(Value),
    Claim {
        name: String,
        class: Option<String>,
        size: Option<String>,
        labels: Map<String, Value>,
        annotations: Map<String, Value>,
    },
}

/// Checks the settings of the executors' volumes. Only the driver uses these settings, but Spark already refuses wrong
/// ones at submission.
pub(super) fn check_executors(context: &Context) -> Result<(), NotNative> {
    volumes(&context.conf, Role::Executor).map(|_| ())
}

/// Mounts the executors' volumes into `executor`, the first executor. Its PersistentVolumeClaims are only named, not
/// built: the driver creates them.
pub(super) fn mount_into_executor(context: &Context, executor: &mut Driver) -> Result<(), NotNative> {
    for (i, volume) in volumes(&context.conf, Role::Executor)?.into_iter().enumerate() {
        let source = match volume.source {
            Source::Plain(source) => source,
            Source::Claim { name, .. } => {
                let own = format!("{}-exec-1-pvc-{i}", context.names.prefix);
                let claim = name.replace(volume::ON_DEMAND, &own);
                json!({"persistentVolumeClaim": {"claimName": claim, "readOnly": volume.read_only}})
            }
        };
        executor.mount_as(&volume.name, source, volume.mount);
    }
    Ok(())
}

pub(super) fn mounts(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let volumes = volumes(&context.conf, Role::Driver)?;
    let mut paths = BTreeSet::new();
    for Volume { name, path, .. } in &volumes {
        if !paths.insert(path) {
            let prefix = conf::kubernetes(Role::Driver, conf::VOLUMES_PREFIX);
            return Err(NotNative::refused(
                &format!("{prefix}*.{name}.mount.path"),
                format_args!("found duplicated mountPath: '{path}'"),
            ));
        }
    }
    let mut mode = None;
    for (i, volume) in volumes.into_iter().enumerate() {
        let source = match volume.source {
            Source::Plain(source) => source,
            Source::Claim { name, class, size, labels, annotations } => {
                let own = format!("{}{}{i}", context.names.prefix, volume::DRIVER_CLAIM);
                let name = name.replace(volume::ON_DEMAND, &own);
                if let (Some(class), Some(size)) = (class, size) {
                    // The property is read only once: there may be thousands of claims, and the property may be long.
                    let mode = match mode {
                        Some(mode) => mode,
                        None => *mode.insert(access_mode(context)?),
                    };
                    driver.children.push(claim(context, mode, &name, &class, &size, labels, annotations));
                }
                json!({"persistentVolumeClaim": {"claimName": name, "readOnly": volume.read_only}})
            }
        };
        driver.mount_as(&volume.name, source, volume.mount);
    }
    Ok(())
}

/// Returns the volumes that `spark.kubernetes.driver.volumes.…` mount into the driver and that exist independently of
/// the driver, each with its mount. Claims that are created for the driver are not included.
///
/// # Errors
///
/// When Spark would refuse a setting.
pub fn existing_volumes(conf: &Conf) -> Result<Vec<(Value, Value)>, NotNative> {
    let volumes = volumes(conf, Role::Driver)?.into_iter();
    let existing = volumes.filter_map(|Volume { name, mut mount, read_only, source, .. }| {
        let mut volume = match source {
            Source::Plain(source) => source,
            Source::Claim { name, class, size, .. } => {
                let is_created = name.contains(volume::ON_DEMAND) || class.is_some() && size.is_some();
                let claim = json!({"persistentVolumeClaim": {"claimName": name, "readOnly": read_only}});
                (!is_created).then_some(claim)?
            }
        };
        volume["name"] = name.as_str().into();
        mount["name"] = name.into();
        Some((volume, mount))
    });
    Ok(existing.collect())
}

fn claim(
    context: &Context,
    mode: &str,
    name: &str,
    class: &str,
    size: &str,
    mut labels: Map<String, Value>,
    annotations: Map<String, Value>,
) -> Value {
    labels.insert(label::SPARK_APP_SELECTOR.to_owned(), context.submission.ids.application.as_str().into());
    let mut claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "storageClassName": class,
            "accessModes": [mode],
            "resources": {"requests": {"storage": size}},
        },
    });
    if !annotations.is_empty() {
        claim["metadata"]["annotations"] = annotations.into();
    }
    claim
}

/// Returns the access mode of claims. Since Spark 4, only one pod may use a claim by default.
fn access_mode(context: &Context) -> Result<&'static str, NotNative> {
    let default = context.line < Line::V4_0;
    let shared = context.conf.boolean(submit_conf::READ_WRITE_ONCE)?.unwrap_or(default);
    Ok(if shared { "ReadWriteOnce" } else { "ReadWriteOncePod" })
}

/// Returns the volumes of a role, in the order of their types and names.
fn volumes(conf: &Conf, role: Role) -> Result<Vec<Volume>, NotNative> {
    let prefix = conf::kubernetes(role, conf::VOLUMES_PREFIX);
    let settings = conf.prefixed(&prefix).filter_map(|(setting, _)| {
        let mut parts = setting.split('.');
        Some((parts.next()?, parts.next()?))
    });
    let volumes: BTreeSet<_> = settings.collect();
    let properties = |kind, name| Properties { conf, prefix: format!("{prefix}{kind}.{name}."), kind };
    volumes.into_iter().map(|(kind, name)| properties(kind, name).volume(name)).collect()
}

/// The properties of one volume.
struct Properties<'a> {
    conf: &'a Conf,
    /// The prefix of the keys of this volume's properties.
    prefix: String,
    kind: &'a str,
}

impl<'a> Properties<'a> {
    fn volume(&self, name: &str) -> Result<Volume, NotNative> {
        let path = self.required("mount.path")?;
        let read_only = self.read_only()?;
        let mut mount = json!({"mountPath": path, "readOnly": read_only});
        let (sub_path, expression) = (self.get("mount.subPath"), self.get("mount.subPathExpr"));
        mount["subPath"] = sub_path.unwrap_or_default().into();
        if self.conf.1 >= Line::V4_0 {
            if sub_path.is_some() && expression.is_some() {
                let problem =
                    format!("and {}: these options are mutually exclusive", self.key("mount.subPath"));
                return Err(NotNative::refused(&self.key("mount.subPathExpr"), problem));
            }
            mount["subPathExpr"] = expression.unwrap_or_default().into();
        }
        Ok(Volume { name: name.to_owned(), mount, path: path.to_owned(), read_only, source: self.source()? })
    }

    fn source(&self) -> Result<Source, NotNative> {
        let source = match self.kind {
            "hostPath" => {
                let kind = if self.conf.1 >= Line::V4_0 { self.get("options.type") } else { None };
                json!({"hostPath": {"path": self.required("options.path")?, "type": kind.unwrap_or_default()}})
            }
            "emptyDir" => {
                let mut source = json!({"medium": self.get("options.medium").unwrap_or_default()});
                if let Some(size) = self.size()? {
                    source["sizeLimit"] = size.into();
                }
                json!({"emptyDir": source})
            }
            "nfs" => {
                json!({"nfs": {"path": self.required("options.path")?, "server": self.required("options.server")?}})
            }
            "persistentVolumeClaim" => {
                return Ok(Source::Claim {
                    name: self.required("options.claimName")?.to_owned(),
                    class: self.get("options.storageClass").map(str::to_owned),
                    size: self.size()?,
                    labels: self.entries("label."),
                    annotations: self.entries("annotation."),
                });
            }
            other => {
                let key = self.prefix.trim_end_matches('.');
                return Err(NotNative::refused(
                    key,
                    format_args!("Kubernetes Volume type `{other}` is not supported"),
                ));
            }
        };
        Ok(Source::Plain(source))
    }

    fn key(&self, setting: &str) -> String {
        format!("{}{setting}", self.prefix)
    }

    fn get(&self, setting: &str) -> Option<&'a str> {
        self.conf.raw(&self.key(setting))
    }

    fn required(&self, setting: &str) -> Result<&'a str, NotNative> {
        self.get(setting).ok_or_else(|| {
            let blank = "; the key contains a blank: remove it";
            let blank = if self.prefix.contains(' ') { blank } else { "" };
            NotNative::refused(
                &self.key(setting),
                format_args!("is required for {}{blank}", self.kind.trim()),
            )
        })
    }

    fn read_only(&self) -> Result<bool, NotNative> {
        let Some(text) = self.get("mount.readOnly") else { return Ok(false) };
        boolean(text).ok_or_else(|| {
            let problem = format!("should be true or false, but is `{text}`");
            NotNative::refused(&self.key("mount.readOnly"), problem)
        })
    }

    fn size(&self) -> Result<Option<String>, NotNative> {
        const SETTING: &str = "options.sizeLimit";
        let Some(text) = self.get(SETTING) else { return Ok(None) };
        let is_number = self.conf.1 >= Line::V4_0 && text.chars().all(|c| c.is_ascii_digit());
        if is_number && !text.parse::<u64>().is_ok_and(|bytes| bytes >= SMALLEST) {
            let problem = format!("Volume size `{text}` is smaller than 1KiB. Missing units?");
            return Err(NotNative::refused(&self.key(SETTING), problem));
        }
        quantity(&self.key(SETTING), text.to_owned()).map(Some)
    }

    /// Returns the labels or annotations of a claim. Spark 3 does not know these settings.
    fn entries(&self, family: &str) -> Map<String, Value> {
        let prefix = self.key(family);
        let entries = self.conf.prefixed(&prefix).map(|(name, value)| (name.to_owned(), value.into()));
        if self.conf.1 >= Line::V4_0 { entries.collect() } else { Map::new() }
    }
}
