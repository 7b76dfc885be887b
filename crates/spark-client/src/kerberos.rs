//! Mounts what Kerberos needs into the driver: a ConfigMap with `krb5.conf`, and a Secret with delegation tokens.

use super::{Context, driver_in_progress::Driver, not_native::NotNative};
use api::names::{env, submit_conf};
use serde_json::json;

const KRB5_FILE: &str = "/etc/krb5.conf";
const TOKEN_DIRECTORY: &str = "/mnt/secrets/hadoop-credentials";

pub(super) fn kerberos(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    both_or_neither(context, submit_conf::PRINCIPAL, submit_conf::KEYTAB)?;
    both_or_neither(context, submit_conf::TOKEN_SECRET_NAME, submit_conf::TOKEN_SECRET_ITEM)?;
    krb5(context, driver)?;
    match context.conf.text(submit_conf::KEYTAB)?.filter(|keytab| !keytab.starts_with("local:")) {
        Some(path) => Err(NotNative::unread(submit_conf::KEYTAB, &path)),
        None => tokens(context, driver),
    }
}

fn both_or_neither(context: &Context, one: &str, other: &str) -> Result<(), NotNative> {
    for (set, unset) in [(one, other), (other, one)] {
        if context.conf.has(set) && !context.conf.has(unset) {
            return Err(NotNative::refused(
                set,
                format_args!("if it is specified you must also specify {unset}"),
            ));
        }
    }
    Ok(())
}

fn krb5(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let map = context.conf.text(submit_conf::KRB5_CONFIG_MAP)?;
    let path = context.conf.text(submit_conf::KRB5_PATH)?;
    let source = match (map, path) {
        (None, None) => return Ok(()),
        (Some(_), Some(_)) => {
            let problem = format!("do not specify both it and {}", submit_conf::KRB5_CONFIG_MAP);
            return Err(NotNative::refused(submit_conf::KRB5_PATH, problem));
        }
        (Some(name), None) => json!({"configMap": {"name": name}}),
        (None, Some(path)) => return Err(NotNative::unread(submit_conf::KRB5_PATH, &path)),
    };
    driver.mount_as("krb5-file", source, json!({"mountPath": KRB5_FILE, "subPath": "krb5.conf"}));
    Ok(())
}

fn tokens(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let secret = context.conf.text(submit_conf::TOKEN_SECRET_NAME)?;
    let item = context.conf.text(submit_conf::TOKEN_SECRET_ITEM)?;
    if let (Some(secret), Some(item)) = (secret, item) {
        driver.mount("hadoop-secret", json!({"secret": {"secretName": secret}}), TOKEN_DIRECTORY);
        driver.add_env(env::HADOOP_TOKEN_FILE_LOCATION, &format!("{TOKEN_DIRECTORY}/{item}"));
    }
    Ok(())
}
