//! Mounts the files for Kerberos into the driver: `krb5.conf`, and either a keytab or delegation tokens.

use super::{
    Context,
    driver_in_progress::{Driver, immutable, secret_data},
    names::suffix,
    not_native::NotNative,
    submit_conf, submitter_file,
};
use api::names::env;
use serde_json::{Map, json};

const KRB5_FILE: &str = "/etc/krb5.conf";
const KEYTAB_DIRECTORY: &str = "/mnt/secrets/kerberos-keytab";
const TOKEN_DIRECTORY: &str = "/mnt/secrets/hadoop-credentials";

pub(super) fn kerberos(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    both_or_neither(context, submit_conf::PRINCIPAL, submit_conf::KEYTAB)?;
    both_or_neither(context, submit_conf::TOKEN_SECRET_NAME, submit_conf::TOKEN_SECRET_ITEM)?;
    krb5(context, driver)?;
    let keytab = context.conf.text(submit_conf::KEYTAB)?.filter(|keytab| !keytab.starts_with("local:"));
    match keytab {
        Some(path) => upload_keytab(context, driver, &path),
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
        (None, Some(path)) => {
            let content = submitter_file::read(context, submit_conf::KRB5_PATH, &path)?;
            let file = file_name(&path);
            let name = context.names.prefixed(suffix::KRB5);
            let data = Map::from_iter([(file.to_owned(), String::from_utf8_lossy(content).into())]);
            driver.children.push(immutable("ConfigMap", &name, data));
            json!({"configMap": {"name": name, "items": [{"key": file, "path": file}]}})
        }
    };
    driver.mount_as("krb5-file", source, json!({"mountPath": KRB5_FILE, "subPath": "krb5.conf"}));
    Ok(())
}

fn upload_keytab(context: &Context, driver: &mut Driver, path: &str) -> Result<(), NotNative> {
    let content = submitter_file::read(context, submit_conf::KEYTAB, path)?;
    let (file, name) = (file_name(path), context.names.prefixed(suffix::KEYTAB));
    let data = Map::from_iter([(file.to_owned(), secret_data(content))]);
    driver.mount("kerberos-keytab", json!({"secret": {"secretName": name}}), KEYTAB_DIRECTORY);
    driver.children.push(immutable("Secret", &name, data));
    driver.set_property(submit_conf::KEYTAB, format!("{KEYTAB_DIRECTORY}/{file}"));
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

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
