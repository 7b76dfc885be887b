//! Sets the CPU, the memory and the JVM options of driver and executors.

use super::{Context, Properties};
use api::{Role, names::conf, stated};

pub(super) fn memory_overhead_factor(context: &Context, properties: &mut Properties) {
    properties.set_some(conf::MEMORY_OVERHEAD_FACTOR, stated(&context.spec.memory_overhead_factor));
}

pub(super) fn of_roles(context: &Context, properties: &mut Properties) {
    let spec = context.spec;
    for role in Role::ALL {
        let pod = role.pod(spec);
        properties.set_some(conf::spark(role, conf::CORES), pod.cores);
        properties.set_some(conf::kubernetes(role, conf::REQUEST_CORES), pod.core_request.as_ref());
        properties.set_some(conf::kubernetes(role, conf::LIMIT_CORES), pod.core_limit.as_ref());
        properties.set_some(conf::spark(role, conf::MEMORY), pod.memory.as_ref());
        properties.set_some(conf::spark(role, conf::MEMORY_OVERHEAD), pod.memory_overhead.as_ref());
        properties.set_some(conf::spark(role, conf::EXTRA_JAVA_OPTIONS), pod.java_options.as_ref());
    }
    properties.set_some(conf::EXECUTOR_INSTANCES, spec.executor.instances);
    properties.set_some(conf::EXECUTOR_DELETE_ON_TERMINATION, spec.executor.delete_on_termination);
}
