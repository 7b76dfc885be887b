//! Adds Secrets to the driver and to the model of an executor, as files and as environment variables.

use super::{
    Context,
    driver_in_progress::{Driver, list},
    not_native::NotNative,
};
use api::{
    Role,
    names::{conf, volume},
};
use serde_json::json;

#[expect(clippy::unnecessary_wraps, reason = "it is a step")]
pub(super) fn mounts(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    mount(context, Role::Driver, driver);
    Ok(())
}

pub(super) fn mount(context: &Context, role: Role, pod: &mut Driver) {
    for (name, path) in context.conf.prefixed(&conf::kubernetes(role, conf::SECRETS_PREFIX)) {
        let source = json!({"secret": {"secretName": name}});
        pod.mount(&format!("{name}{}", volume::SECRET_SUFFIX), source, path);
    }
}

pub(super) fn environment(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    set_variables(context, Role::Driver, driver)
}

pub(super) fn set_variables(context: &Context, role: Role, pod: &mut Driver) -> Result<(), NotNative> {
    let prefix = conf::kubernetes(role, conf::SECRET_KEY_REF_PREFIX);
    for (name, reference) in context.conf.prefixed(&prefix) {
        // This matches Java's `split`, which drops empty pieces only at the end.
        let pieces: Vec<_> = reference.trim_end_matches(':').split(':').collect();
        let [secret, key] = pieces[..] else {
            let key = format!("{prefix}{name}");
            return Err(NotNative::refused(&key, "SecretKeyRef must be in the form name:key"));
        };
        let source = json!({"secretKeyRef": {"key": key, "name": secret}});
        list(&mut pod.container, "env").push(json!({"name": name, "valueFrom": source}));
    }
    Ok(())
}
