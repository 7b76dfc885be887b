//! Sets the identity with which the driver authenticates to the API server: credentials in a Secret, or a service
//! account.

use super::{
    Context,
    driver_in_progress::{Driver, immutable},
    names::suffix,
    not_native::NotNative,
};
use api::{
    Role,
    names::{conf, submit_conf},
};
use k8s_openapi::ByteString;
use serde_json::{Map, json};

const VOLUME: &str = "kubernetes-credentials";
const DIRECTORY: &str = "/mnt/secrets/spark-kubernetes-credentials";
/// The key of the token in its Secret, and the name of its file in the driver.
const TOKEN: &str = "oauth-token";
/// The text that replaces tokens in the driver's properties.
const REDACTED: &str = "<present_but_redacted>";
/// The ends of the properties that name files of the submitter.
const FILES: [&str; 3] = ["caCertFile", "clientKeyFile", "clientCertFile"];

pub(super) fn credentials(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let conf = &context.conf;
    for (key, _) in conf.prefixed("").filter(|(key, _)| key.ends_with(submit_conf::TOKEN_SUFFIX)) {
        driver.set_property(key, REDACTED);
    }
    let key = |setting: &str| format!("{}{setting}", submit_conf::DRIVER_CREDENTIALS_PREFIX);
    for file in FILES.map(key) {
        if let Some(path) = conf.raw(&file) {
            return Err(NotNative::unread(&file, path));
        }
    }
    if let Some(token) = conf.raw(&key(submit_conf::TOKEN_SUFFIX)) {
        let mounted = format!("{}oauthTokenFile", submit_conf::MOUNTED_CREDENTIALS_PREFIX);
        if !conf.has(&mounted) {
            driver.set_property(&mounted, format!("{DIRECTORY}/{TOKEN}"));
        }
        let name = context.names.prefixed(suffix::CREDENTIALS);
        let data = Map::from_iter([(TOKEN.to_owned(), json!(ByteString(token.as_bytes().to_vec())))]);
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
