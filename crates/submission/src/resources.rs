//! Sets the images, the CPU, the memory and the JVM options of driver and executors.

use super::{Context, RoleField};
use api::{conf, stated};
use spark_client::Conf;

/// Sets the properties that apply to both roles. The values of `sparkConf` are set later and override them.
pub(super) fn common(context: &Context, properties: &mut Conf) {
    let spec = context.spec;
    properties.set_some(conf::IMAGE, stated(&spec.image));
    properties.set_some(conf::IMAGE_PULL_POLICY, stated(&spec.image_pull_policy));
    if !spec.image_pull_secrets.is_empty() {
        properties.set(conf::IMAGE_PULL_SECRETS, spec.image_pull_secrets.join(","));
    }
    properties.set_some(conf::PYTHON_VERSION, stated(&spec.python_version));
    properties.set_some(conf::MEMORY_OVERHEAD_FACTOR, stated(&spec.memory_overhead_factor));
}

pub(super) fn of_roles(context: &Context, properties: &mut Conf) {
    let spec = context.spec;
    for (role, pod) in context.pods() {
        let image = stated(&pod.image).or(stated(&spec.image));
        properties.set_some(conf::kubernetes(role, conf::CONTAINER_IMAGE), image);
        for field in RoleField::ALL {
            properties.set_some(field.key(role), field.stated(pod));
        }
    }
    properties.set_some(conf::EXECUTOR_INSTANCES, spec.executor.instances);
    properties.set_some(conf::EXECUTOR_DELETE_ON_TERMINATION, spec.executor.delete_on_termination);
}
