//! Sets the deprecated fields `envVars` and `envSecretKeyRefs` as Spark properties. The field `env` is applied by the
//! webhook instead.

use super::{Context, Properties};
use api::{Role, names::conf};

pub(super) fn of_roles(context: &Context, properties: &mut Properties) {
    for role in Role::ALL {
        let pod = role.pod(context.spec);
        for (name, value) in &pod.env_vars {
            properties.set(conf::env(role, name), value);
        }
        for (name, secret) in &pod.env_secret_key_refs {
            let key = conf::kubernetes(role, &format!("{}{name}", conf::SECRET_KEY_REF_PREFIX));
            properties.set(key, format!("{}:{}", secret.name, secret.key));
        }
    }
}
