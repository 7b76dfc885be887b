//! Reads the credentials for S3 from the files of the AWS command line. Environment variables take precedence over
//! these files.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

/// The settings of a profile, from the files `config` and `credentials`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub name: String,
    values: BTreeMap<String, String>,
}

/// Settings from which only the AWS command line can get keys.
const DETOURS: [&str; 5] =
    ["sso_session", "sso_start_url", "role_arn", "credential_process", "login_session"];

impl Profile {
    /// Reads the profile that AWS_PROFILE names, or `default`.
    pub(super) fn chosen() -> Self {
        let name = env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| "default".to_owned());
        let file = |variable: &str, usual: &str| {
            let usual = || Some(Path::new(&env::var_os("HOME")?).join(".aws").join(usual));
            env::var_os(variable).map(PathBuf::from).or_else(usual)
        };
        // A missing file counts as empty.
        let text =
            |path: Option<PathBuf>| path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let configuration = text(file("AWS_CONFIG_FILE", "config"));
        let credentials = text(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"));
        Self::of(name, &configuration, &credentials)
    }

    fn of(name: String, configuration: &str, credentials: &str) -> Self {
        let mut values = section(configuration, &[&name, &format!("profile {name}")]);
        values.extend(section(credentials, &[&name]));
        Self { name, values }
    }

    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the access key id and the secret access key; `None` if the profile lacks one of them, or has a
    /// `role_arn`: then its keys only serve to get the keys of the role.
    pub(super) fn keys(&self) -> Option<(&str, &str)> {
        if self.value("role_arn").is_some() {
            return None;
        }
        Some((self.value("aws_access_key_id")?, self.value("aws_secret_access_key")?))
    }

    /// Whether the profile has a setting from which this program cannot get keys ([`DETOURS`]).
    pub(super) fn has_detour(&self) -> bool {
        DETOURS.iter().any(|key| self.value(key).is_some())
    }
}

/// Returns the settings in the sections with the given headings. Indented lines are skipped: they are nested settings,
/// and none of them is needed.
fn section(text: &str, headings: &[&str]) -> BTreeMap<String, String> {
    let (mut values, mut is_it) = (BTreeMap::new(), false);
    for line in text.lines().filter(|line| !line.starts_with(['#', ';', ' ', '\t'])) {
        if let Some(heading) = line.strip_prefix('[') {
            let heading = heading.split(']').next().unwrap_or_default();
            let words: Vec<_> = heading.split_whitespace().collect();
            is_it = headings.contains(&words.join(" ").as_str());
        } else if is_it && let Some((key, value)) = line.split_once('=') {
            values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_from_both_files() {
        let configuration = "[default]\nregion = eu-west-1\n[profile team]\nregion=us-west-2\ns3 =\n  max_retries = 3\n[sso-session team]\nsso_region = x\n";
        let credentials = "# mine\n[team]\naws_access_key_id = AK\naws_secret_access_key=SE=CRET\n[default]\naws_access_key_id =\n";
        let team = Profile::of("team".to_owned(), configuration, credentials);
        assert_eq!(team.keys(), Some(("AK", "SE=CRET")));
        assert_eq!((team.value("region"), team.value("max_retries")), (Some("us-west-2"), None));
        let other = Profile::of("default".to_owned(), configuration, credentials);
        assert_eq!(
            (other.keys(), other.value("region"), other.has_detour()),
            (None, Some("eu-west-1"), false)
        );
        let sso = Profile::of("a".to_owned(), "[profile a]\nsso_session = team\n", "");
        assert!(sso.has_detour());
        let role = Profile::of(
            "team".to_owned(),
            "[profile team]\nrole_arn = arn:aws:iam::1:role/jobs\n",
            credentials,
        );
        assert!(role.keys().is_none() && role.has_detour());
    }
}
