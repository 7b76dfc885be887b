//! Which Secrets are mounted into driver and executors?

use super::{Context, Properties};
use crate::api::{
    Role, SecretType,
    names::{conf, env},
};

pub(super) fn of_roles(context: &Context, properties: &mut Properties) {
    for role in Role::ALL {
        for secret in &role.pod(context.spec).secrets {
            let key = conf::kubernetes(role, &format!("{}{}", conf::SECRETS_PREFIX, secret.name));
            properties.set(key, &secret.path);
            let path = secret.path.trim_end_matches('/');
            match secret.secret_type {
                SecretType::GcpServiceAccount => {
                    properties.set(
                        conf::env(role, env::GOOGLE_APPLICATION_CREDENTIALS),
                        format!("{path}/key.json"),
                    );
                }
                SecretType::HadoopDelegationToken => {
                    properties.set(
                        conf::env(role, env::HADOOP_TOKEN_FILE_LOCATION),
                        format!("{path}/hadoop.token"),
                    );
                }
                SecretType::Generic | SecretType::Other(_) => {}
            }
        }
    }
}
