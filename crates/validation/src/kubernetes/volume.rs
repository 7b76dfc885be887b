//! Kubernetes' rules for the source of a volume.

use super::{entries, lacks_name, list};
use api::quantity;
use serde_json::Value;

/// The types of `hostPath`.
const HOST_PATHS: [&str; 8] =
    ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

/// Returns what is wrong with where a volume's content comes from.
pub(super) fn of_source(volume: &Value) -> Option<String> {
    let sources = entries(volume).filter(|(_, source)| source.is_object());
    if sources.count() > 1 {
        return Some("has two sources: take one out".to_owned());
    }
    for kind in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(mode) = volume[kind]["defaultMode"].as_i64().filter(|mode| !(0..=0o777).contains(mode)) {
            return Some(format!(
                "{mode} is no file mode: write it octal, such as 0644, or in decimal, such as 420"
            ));
        }
    }
    if let Some(kind) = volume["hostPath"]["type"].as_str().filter(|kind| !HOST_PATHS.contains(kind)) {
        return Some(format!("hostPath has no type `{kind}`: write one of {}", HOST_PATHS[1..].join(", ")));
    }
    if let Some(why) = of_paths(volume) {
        return Some(why);
    }
    let limit = volume["emptyDir"]["sizeLimit"].as_str()?;
    quantity::amount(limit.trim()).is_none().then(|| format!("`{limit}` is no size (try `10Gi`)"))
}

/// Returns what is wrong with the paths and names in a volume's source.
fn of_paths(volume: &Value) -> Option<String> {
    let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str);
    let leads_up = |path: &str| path.split('/').any(|part| part == "..");
    if let Some(path) = text("/hostPath/path").filter(|path| path.is_empty() || leads_up(path)) {
        return Some(format!("`{path}` is no path of a host: write one without `..`"));
    }
    if let Some(path) = text("/nfs/path").filter(|path| !path.starts_with('/')) {
        return Some(format!("`{path}` is no path of a server: begin it with `/`"));
    }
    if text("/persistentVolumeClaim/claimName").is_some_and(str::is_empty) {
        return Some("names no claim: write claimName".to_owned());
    }
    let projected = list(&volume["projected"]["sources"]);
    let mut references = [("configMap", &volume["configMap"])]
        .into_iter()
        .chain(projected.flat_map(|source| ["configMap", "secret"].map(|kind| (kind, &source[kind]))));
    if let Some((kind, _)) = references.find(|(_, reference)| lacks_name(reference)) {
        return Some(format!("its {kind} needs a name"));
    }
    let items = ["configMap", "secret"].into_iter().flat_map(|kind| list(&volume[kind]["items"]));
    let mut paths = items.filter_map(|item| item["path"].as_str());
    let path = paths.find(|path| path.is_empty() || path.starts_with('/') || leads_up(path))?;
    Some(format!("`{path}` leads out of the volume: write one without `/` first and `..`"))
}
