//! From which images do driver and executors start?

use super::{Context, Error, Properties};
use crate::api::{Role, names::conf};

pub(super) fn common(context: &Context, properties: &mut Properties) -> Result<(), Error> {
    let spec = context.spec;
    properties.set_some(conf::IMAGE, spec.image.as_ref());
    properties.set_some(conf::IMAGE_PULL_POLICY, spec.image_pull_policy.as_ref());
    if !spec.image_pull_secrets.is_empty() {
        properties.set(conf::IMAGE_PULL_SECRETS, spec.image_pull_secrets.join(","));
    }
    properties.set_some(conf::PYTHON_VERSION, spec.python_version.as_ref());
    Ok(())
}

pub(super) fn of_roles(context: &Context, properties: &mut Properties) -> Result<(), Error> {
    for role in Role::ALL {
        let image = role.pod(context.spec).image.as_ref().filter(|image| !image.is_empty());
        properties
            .set_some(conf::kubernetes(role, conf::CONTAINER_IMAGE), image.or(context.spec.image.as_ref()));
    }
    Ok(())
}
