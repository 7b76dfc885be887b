//! Names the volume that holds a ConfigMap or a Secret.

use api::names::volume;
use sha2::{Digest, Sha256};

/// The maximum length of a volume's name in Kubernetes (a DNS label).
const LONGEST: usize = 63;

/// Returns `<ConfigMap>-vol` if this is a DNS label. Otherwise dots become dashes and the name is cut to make room for
/// 8 hexadecimal digits of the SHA-256 of the ConfigMap's name, so that two ConfigMaps never share a volume. This is
/// the rule of Kubeflow's operator.
pub fn of_config_map(config_map: &str) -> String {
    label(config_map, "-vol").unwrap_or_else(|| hashed(config_map, "-vol"))
}

/// Returns the name of the volume of a Secret that Spark cannot mount, because Spark's name for the volume,
/// `<Secret>-volume`, would not be a DNS label; `None` if Spark can mount it.
pub fn of_unmountable_secret(secret: &str) -> Option<String> {
    label(secret, volume::SECRET_SUFFIX).is_none().then(|| hashed(secret, volume::SECRET_SUFFIX))
}

/// Returns `name` with `suffix` if that can be the name of a volume.
fn label(name: &str, suffix: &str) -> Option<String> {
    (name.len() + suffix.len() <= LONGEST && !name.contains('.')).then(|| format!("{name}{suffix}"))
}

fn hashed(name: &str, suffix: &str) -> String {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(name.as_bytes()));
    let suffix = format!("-{:08x}{suffix}", u32::from_be_bytes([a, b, c, d]));
    let dashed = name.replace('.', "-");
    // Such names are ASCII, so any byte is a character boundary; `get` prevents a panic for a name that is not ASCII.
    let cut = dashed.get(..LONGEST - suffix.len()).unwrap_or(&dashed);
    format!("{}{suffix}", cut.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotted_or_long_name_gets_a_hash_and_is_a_dns_label() {
        assert_eq!(of_config_map("app.conf"), "app-conf-3a476fd9-vol");
        let long = of_config_map(&"a".repeat(200));
        assert_eq!(long.len(), 63);
        assert_ne!(long, of_config_map(&"a".repeat(201)));
        assert!(of_config_map("a.b").starts_with("a-b-") && of_config_map("a-b") == "a-b-vol");
    }

    #[test]
    fn a_secret_that_spark_cannot_mount_gets_a_hashed_volume_name() {
        assert_eq!(of_unmountable_secret("a-b"), None);
        assert_eq!(of_unmountable_secret(&"a".repeat(56)), None);
        assert_eq!(of_unmountable_secret(&"a".repeat(57)).map(|name| name.len()), Some(63));
        assert_eq!(of_unmountable_secret("app.conf").as_deref(), Some("app-conf-3a476fd9-volume"));
    }
}
