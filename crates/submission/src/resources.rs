//! Sets the CPU, the memory and the JVM options of driver and executors.

use super::{Context, Properties, RoleField};
use api::{Role, names::conf, stated};

pub(super) fn memory_overhead_factor(context: &Context, properties: &mut Properties) {
    properties.set_some(conf::MEMORY_OVERHEAD_FACTOR, stated(&context.spec.memory_overhead_factor));
}

pub(super) fn of_roles(context: &Context, properties: &mut Properties) {
    let spec = context.spec;
    for role in Role::ALL {
        for field in RoleField::ALL {
            properties.set_some(field.key(role), field.stated(role.pod(spec)));
        }
    }
    properties.set_some(conf::EXECUTOR_INSTANCES, spec.executor.instances);
    properties.set_some(conf::EXECUTOR_DELETE_ON_TERMINATION, spec.executor.delete_on_termination);
}
