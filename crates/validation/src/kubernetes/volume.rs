//! Kubernetes' rules for the source of a volume.

use super::{entries, lacks_name, leading_out, list, no_size};
use serde_json::Value;

/// The types of `hostPath`.
const HOST_PATHS: [&str; 8] =
    ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

/// Returns what is wrong with where a volume's content comes from.
pub(super) fn of_source(volume: &Value) -> Option<String> {
    if entries(volume).filter(|(_, source)| source.is_object()).count() > 1 {
        return Some("has two sources: take one out".to_owned());
    }
    let kinds = ["configMap", "secret", "projected", "downwardAPI"];
    let mut modes = kinds.into_iter().filter_map(|kind| volume[kind]["defaultMode"].as_i64());
    if let Some(mode) = modes.find(|mode| !(0..=0o777).contains(mode)) {
        let like = "write it octal, such as 0644, or in decimal, such as 420";
        return Some(format!("{mode} is no file mode: {like}"));
    }
    let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str);
    if let Some(kind) = text("/hostPath/type").filter(|kind| !HOST_PATHS.contains(kind)) {
        return Some(format!("hostPath has no type `{kind}`: write one of {}", HOST_PATHS[1..].join(", ")));
    }
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
    paths.find_map(leading_out).or_else(|| no_size(text("/emptyDir/sizeLimit")?))
}
