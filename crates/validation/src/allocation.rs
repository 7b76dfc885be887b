//! Checks the bounds for the number of executors under dynamic allocation.

use super::Subject;

/// Refuses bounds that Spark's `ExecutorAllocationManager` refuses when the driver starts.
pub(super) fn bounds(subject: &Subject) {
    let allocation = subject.spec.dynamic_allocation.as_ref();
    let Some(allocation) = allocation.filter(|allocation| allocation.enabled) else { return };
    let (least, most) = (allocation.min_executors.unwrap_or(0), allocation.max_executors.unwrap_or(i32::MAX));
    let (of_least, of_most) = ("dynamicAllocation.minExecutors", "dynamicAllocation.maxExecutors");
    if least < 0 {
        subject.refuse(of_least, format_args!("`{least}` is negative: write 0 or more"));
    }
    if most < 1 {
        subject.refuse(of_most, format_args!("`{most}` leaves no executor: write 1 or more"));
    } else if least > most {
        subject.refuse(of_least, format_args!("`{least}` is more than maxExecutors, which is {most}"));
    }
}
