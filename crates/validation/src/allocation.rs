//! Checks the bounds for the number of executors under dynamic allocation.

use super::{Findings, Subject};

/// Refuses bounds that Spark's `ExecutorAllocationManager` refuses when the driver starts.
pub(super) fn bounds(subject: &Subject, findings: &mut Findings) {
    let Some(allocation) = subject.spec.dynamic_allocation.as_ref().filter(|allocation| allocation.enabled)
    else {
        return;
    };
    let (least, most) = (allocation.min_executors.unwrap_or(0), allocation.max_executors.unwrap_or(i32::MAX));
    if least < 0 {
        let field = subject.field("dynamicAllocation.minExecutors");
        findings.refuse(field, format_args!("`{least}` is negative: write 0 or more"));
    }
    if most < 1 {
        let field = subject.field("dynamicAllocation.maxExecutors");
        findings.refuse(field, format_args!("`{most}` leaves no executor: write 1 or more"));
    } else if least > most {
        let field = subject.field("dynamicAllocation.minExecutors");
        findings.refuse(field, format_args!("`{least}` is more than maxExecutors, which is {most}"));
    }
}
