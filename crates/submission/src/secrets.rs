//! Sets the properties for Secrets that are mounted into driver and executors, and for the deprecated fields `envVars`
//! and `envSecretKeyRefs`. The field `env` is applied by the webhook instead.

use super::Context;
use api::{SecretType, conf, env};
use spark_client::Conf;

pub(super) fn of_roles(context: &Context, properties: &mut Conf) {
    for (role, pod) in context.pods() {
        properties.set_all(&conf::env(role, ""), &pod.env_vars);
        for (name, secret) in &pod.env_secret_key_refs {
            let key = conf::kubernetes(role, &format!("{}{name}", conf::SECRET_KEY_REF_PREFIX));
            properties.set(key, format!("{}:{}", secret.name, secret.key));
        }
        for secret in &pod.secrets {
            // The webhook mounts the Secrets that Spark cannot mount.
            if pod_customization::volume_name::of_unmountable_secret(&secret.name).is_none() {
                let key = conf::kubernetes(role, &format!("{}{}", conf::SECRETS_PREFIX, secret.name));
                properties.set(key, &secret.path);
            }
            let (variable, name) = match secret.secret_type {
                SecretType::GcpServiceAccount => (env::GOOGLE_APPLICATION_CREDENTIALS, "key.json"),
                SecretType::HadoopDelegationToken => (env::HADOOP_TOKEN_FILE_LOCATION, "hadoop.token"),
                SecretType::Generic | SecretType::Other(_) => continue,
            };
            properties.set(conf::env(role, variable), file_in(&secret.path, name));
        }
    }
}

/// Returns the path of the file `name` in `directory`, without empty parts and `.`, and with `..` resolved: the result
/// of Go's `filepath.Join`, which Kubeflow's operator uses for this path.
fn file_in(directory: &str, name: &str) -> String {
    let root = if directory.starts_with('/') { "/" } else { "" };
    let mut steps: Vec<&str> = Vec::new();
    for step in directory.split('/').chain([name]) {
        match step {
            "" | "." => {}
            ".." if steps.last().is_some_and(|last| *last != "..") => drop(steps.pop()),
            // There is nothing above the root.
            ".." if !root.is_empty() => {}
            step => steps.push(step),
        }
    }
    format!("{root}{}", steps.join("/"))
}

#[cfg(test)]
mod tests {
    use super::file_in;

    /// The expected paths are the results of Go's `filepath.Join`.
    #[test]
    fn a_path_is_cleaned_as_by_filepath_join_of_go() {
        let cases = include_str!("../../../tests/data/submission-paths.json");
        for [directory, expected] in serde_json::from_str::<Vec<[&str; 2]>>(cases).unwrap() {
            assert_eq!(file_in(directory, "f"), expected, "{directory}");
        }
    }
}
