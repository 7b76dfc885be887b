//! Sets the images from which driver and executors start.

use super::{Context, Properties};
use api::{Role, names::conf, stated};

pub(super) fn common(context: &Context, properties: &mut Properties) {
    let spec = context.spec;
    properties.set_some(conf::IMAGE, stated(&spec.image));
    properties.set_some(conf::IMAGE_PULL_POLICY, stated(&spec.image_pull_policy));
    if !spec.image_pull_secrets.is_empty() {
        properties.set(conf::IMAGE_PULL_SECRETS, spec.image_pull_secrets.join(","));
    }
    properties.set_some(conf::PYTHON_VERSION, stated(&spec.python_version));
}

pub(super) fn of_roles(context: &Context, properties: &mut Properties) {
    for role in Role::ALL {
        let image = stated(&role.pod(context.spec).image).or(stated(&context.spec.image));
        properties.set_some(conf::kubernetes(role, conf::CONTAINER_IMAGE), image);
    }
}
