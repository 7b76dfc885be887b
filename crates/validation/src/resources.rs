//! Checks that cores and memory are written in the notation that Spark and Kubernetes accept.

use super::{Given, Subject, rules};
use api::{Role, SparkPodSpec, conf, defaults, label, quantity};
use serde_json::json;
use spark_client::{Line, memory};
use submission::RoleField;

/// Checks heap, overhead and the factor of the overhead.
pub(super) fn memory(subject: &Subject) {
    let not_memory = |field: String, text: &str| {
        let like = memory::suggestion(text);
        subject.refuse(field, format_args!("`{text}` is not a Java memory size (try `{like}`)"));
    };
    let line = line(subject);
    for role in Role::ALL {
        if let Some((field, text)) = subject.given(role, RoleField::Memory) {
            // The JVM of a driver gets the text as it is, and knows no `Gi`.
            let bytes = if role == Role::Driver { memory::bytes(&text, false) } else { line.bytes(&text) };
            match bytes {
                None => not_memory(field, &text),
                // spark-submit refuses 0: "Driver memory must be a positive number".
                Some(0) => subject.refuse(field, format_args!("`{text}` is no memory at all (try `1g`)")),
                Some(_) => {}
            }
        }
        let overhead = settled(subject, role, RoleField::MemoryOverhead);
        let Some((field, text)) = overhead.filter(|(_, text)| line.bytes(text).is_none()) else { continue };
        if memory::factor(&text).is_some() || text.trim_end().ends_with('%') {
            let factor = subject.field("memoryOverheadFactor");
            subject
                .refuse(field, format_args!("`{text}` is a factor, not a memory size: write it in {factor}"));
        } else {
            not_memory(field, &text);
        }
    }
    let stated =
        || Some(("memoryOverheadFactor".to_owned(), subject.spec.memory_overhead_factor.as_ref()?.into()));
    let factor = subject.configured(conf::MEMORY_OVERHEAD_FACTOR).or_else(stated);
    if let Some((field, text)) = factor.filter(|(_, text)| !text.is_empty() && !is_substituted(text))
        && memory::factor(&text).is_none()
    {
        subject.refuse(field, format_args!("`{text}` is not a fraction from 0 (try `0.1`)"));
    }
}

fn line(subject: &Subject) -> Line {
    Line::nearest(&subject.spec.spark_version).0
}

/// Checks cores, CPU requests and limits, and the number of executors.
pub(super) fn cores(subject: &Subject) {
    let cores = Role::ALL.map(|role| subject.given(role, RoleField::Cores));
    for (field, text) in cores.into_iter().chain([instances(subject)]).flatten() {
        // spark-submit refuses other values: "Executor cores must be a positive number".
        if !text.parse::<i32>().is_ok_and(|count| count > 0) {
            subject.refuse(field, format_args!("`{text}` is not a whole number from 1"));
        }
    }
    let fields = [RoleField::CoreRequest, RoleField::CoreLimit];
    let amounts = Role::ALL.into_iter().flat_map(|role| fields.map(|field| settled(subject, role, field)));
    for (field, text) in amounts.flatten() {
        let wrong = match quantity::amount(text.trim()) {
            None => "is not a Kubernetes quantity of cores",
            Some(..0) => "is negative",
            Some(_) => continue,
        };
        subject.refuse(field, format_args!("`{text}` {wrong} (try `1` or `200m`)"));
    }
}

/// Refuses bounds for the number of executors under dynamic allocation that Spark's `ExecutorAllocationManager` refuses when
/// the driver starts.
pub(super) fn bounds(subject: &Subject) {
    let allocation = subject.spec.dynamic_allocation.as_ref();
    let Some(allocation) = allocation.filter(|allocation| allocation.enabled) else { return };
    rules::check("DynamicAllocation", &json!(allocation), &mut |field, why| {
        subject.refuse(format_args!("dynamicAllocation{field}"), why);
    });
    if let (Some(least), Some(most @ 1..)) = (allocation.min_executors, allocation.max_executors)
        && least > most
    {
        let why = format_args!("`{least}` is more than maxExecutors, which is {most}");
        subject.refuse("dynamicAllocation.minExecutors", why);
    }
}

/// Warns of an application in a queue of Kueue that may have more executors than Kueue counts. Under dynamic allocation, too,
/// Kueue counts `executor.instances`, and none where that is absent (`numInitialExecutors` of its integration).
pub(super) fn counted_by_kueue(subject: &Subject) {
    let spec = &subject.spec;
    let mut labels = subject.application.metadata.labels.iter().flatten();
    if !labels.any(|(key, _)| key == label::QUEUE_NAME) || !defaults::is_dynamic_allocation_on(spec) {
        return;
    }
    let counted = spec.executor.instances.unwrap_or(0);
    let stated = spec.dynamic_allocation.as_ref().and_then(|allocation| allocation.max_executors);
    let most = stated.or_else(|| subject.configured(conf::DYNAMIC_ALLOCATION_MAX)?.1.trim().parse().ok());
    if most.is_none_or(|most| most > counted) {
        let of_kueue = format_args!("Kueue counts {counted} (executor.instances), and Spark may make more");
        let what = format_args!("{of_kueue}: write the same number into both");
        subject.warn("dynamicAllocation.maxExecutors", what);
    }
}

/// Warns if pods request more than their limits allow. This is only a warning: Kubernetes refuses such pods, but some
/// clusters change the requests of pods before that.
pub(super) fn limits(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let refused = "Kubernetes refuses such pods";
    let asked = settled(subject, role, RoleField::CoreRequest);
    let asked = asked.or_else(|| subject.given(role, RoleField::Cores));
    if let Some((field, text)) = settled(subject, role, RoleField::CoreLimit)
        && let Some((from, request)) = asked
        && let Some(most) = quantity::amount(text.trim())
        && quantity::amount(request.trim()).is_some_and(|asked| most < asked)
    {
        let from = subject.field(from);
        subject.warn(field, format_args!("`{text}` is less than {from}, `{request}`: {refused}"));
    }
    let bytes = |given: Option<Given>| given.and_then(|(_, text)| line(subject).bytes(&text));
    let heap = bytes(subject.given(role, RoleField::Memory)).unwrap_or_default();
    // The overhead that Spark adds at least, unless the user or the admin has lowered that minimum.
    let is_lowered = subject.spec.spark_conf.keys().any(|key| key.ends_with(conf::MEMORY_OVERHEAD_LEAST));
    let least = if heap == 0 || is_lowered { 0 } else { memory::OVERHEAD_LEAST << 20 };
    let overhead = bytes(settled(subject, role, RoleField::MemoryOverhead)).unwrap_or(least);
    let asked = heap.saturating_add(overhead);
    if let Some(text) = &pod.memory_limit
        && let Some(limit) = quantity::amount(&quantity::from_java(text))
        && limit < i128::from(asked) * 1000
    {
        let field = format_args!("{role}.memoryLimit");
        subject.warn(field, format_args!("`{text}` is less than the heap and its overhead: {refused}"));
    }
}

/// Returns the value of a role's field, or of its property, if the final value is known before Spark runs: see
/// [`is_substituted`].
fn settled<'s>(subject: &'s Subject, role: Role, field: RoleField) -> Option<Given<'s>> {
    subject.given(role, field).filter(|(_, text)| !is_substituted(text))
}

/// Returns the number of executors; `None` if it is not given, or if dynamic allocation is on and changes it.
fn instances<'s>(subject: &'s Subject) -> Option<Given<'s>> {
    let stated = subject.spec.executor.instances;
    let stated = stated.map(|count| ("executor.instances".to_owned(), count.to_string().into()));
    stated
        .or_else(|| subject.configured(conf::EXECUTOR_INSTANCES))
        .filter(|_| !defaults::is_dynamic_allocation_on(&subject.spec))
}

/// Whether Spark replaces a part of the value. Spark replaces `${…}` by other properties and environment variables in every
/// value that `spark-submit` itself does not read first, so the final value is known only when Spark runs.
fn is_substituted(text: &str) -> bool {
    text.contains("${")
}
