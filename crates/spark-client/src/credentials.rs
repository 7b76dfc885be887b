//! Sets the identity with which the driver authenticates to the API server: credentials in a Secret, or a service
//! account.

use super::{
    Context,
    driver_in_progress::{Driver, immutable, secret_data},
    names::suffix,
    not_native::NotNative,
    submit_conf, submitter_file,
};
use api::{Role, names::conf};
use serde_json::{Map, json};

const VOLUME: &str = "kubernetes-credentials";
const DIRECTORY: &str = "/mnt/secrets/spark-kubernetes-credentials";
/// The name, without prefix, of the property whose value is the token itself.
const TOKEN: &str = submit_conf::TOKEN_SUFFIX;
/// The text that replaces tokens in the driver's properties.
const REDACTED: &str = "<present_but_redacted>";
/// The credentials: for each, its property, its key in the Secret, and the property that contains its path in the
/// driver. The properties are written without their prefixes.
const CREDENTIALS: [(&str, &str, &str); 4] = [
    ("caCertFile", "ca-cert", "caCertFile"),
    ("clientKeyFile", "client-key", "clientKeyFile"),
    ("clientCertFile", "client-cert", "clientCertFile"),
    (TOKEN, "oauth-token", "oauthTokenFile"),
];

pub(super) fn credentials(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let conf = &context.conf;
    for (key, _) in conf.prefixed("").filter(|(key, _)| key.ends_with(submit_conf::TOKEN_SUFFIX)) {
        driver.set_property(key, REDACTED);
    }
    let mut data = Map::new();
    for (setting, secret_key, mounted) in CREDENTIALS {
        let key = format!("{}{setting}", submit_conf::DRIVER_CREDENTIALS_PREFIX);
        let mounted = format!("{}{mounted}", submit_conf::MOUNTED_CREDENTIALS_PREFIX);
        let Some(value) = conf.raw(&key) else { continue };
        let content =
            if setting == TOKEN { value.as_bytes() } else { submitter_file::read(context, &key, value)? };
        data.insert(secret_key.to_owned(), secret_data(content));
        if !conf.has(&mounted) {
            driver.set_property(&mounted, format!("{DIRECTORY}/{secret_key}"));
        }
    }
    if !data.is_empty() {
        let name = context.names.prefixed(suffix::CREDENTIALS);
        driver.mount(VOLUME, json!({"secret": {"secretName": name}}), DIRECTORY);
        driver.children.push(immutable("Secret", &name, data));
        return Ok(());
    }
    if let Some(account) = conf.text(&conf::service_account(Role::Driver))? {
        driver.pod["spec"]["serviceAccount"] = account.as_str().into();
        driver.pod["spec"]["serviceAccountName"] = account.into();
    }
    Ok(())
}
