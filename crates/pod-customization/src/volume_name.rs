//! Names the volume that holds a ConfigMap.

use sha2::{Digest, Sha256};

/// Kubernetes' limit for volume names (a DNS label).
const LONGEST: usize = 63;

/// Returns `<ConfigMap>-vol` if this is a DNS label. Otherwise dots become dashes and the name is cut to make room for
/// 8 hexadecimal digits of the SHA-256 of the ConfigMap's name, so that two ConfigMaps never share a volume. This is
/// the rule of Kubeflow's operator.
#[must_use]
pub fn of_config_map(config_map: &str) -> String {
    api::steps::took(1);
    let plain = format!("{config_map}-vol");
    if plain.len() <= LONGEST && !config_map.contains('.') {
        return plain;
    }
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(config_map.as_bytes()));
    let suffix = format!("-{:08x}-vol", u32::from_be_bytes([a, b, c, d]));
    let dashed = config_map.replace('.', "-");
    // ConfigMap names are ASCII, so any byte is a character boundary; `get` prevents a panic for a name that is not
    // ASCII.
    let cut = dashed.get(..LONGEST - suffix.len()).unwrap_or(&dashed);
    format!("{}{suffix}", cut.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::of_config_map;

    #[test]
    fn a_short_name_is_kept() {
        assert_eq!(of_config_map("settings"), "settings-vol");
    }

    #[test]
    fn a_dotted_or_long_name_is_hashed_and_stays_a_label() {
        assert_eq!(of_config_map("app.conf"), "app-conf-3a476fd9-vol");
        let long = of_config_map(&"a".repeat(200));
        assert_eq!(long.len(), 63);
        assert_ne!(long, of_config_map(&"a".repeat(201)));
        assert!(of_config_map("a.b").starts_with("a-b-") && of_config_map("a-b") == "a-b-vol");
    }
}
