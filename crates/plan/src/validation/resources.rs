//! Checks that cores and memory are written in the notation that Spark and Kubernetes accept.

use super::{Findings, Subject};
use api::{Role, defaults, memory, names::conf, quantity};
use spark_client::Line;

/// A value that the user wrote, and the field that contains the value.
struct Stated {
    field: String,
    text: String,
}

/// Checks heap, overhead and the factor of the overhead.
pub(super) fn memory(subject: &Subject, findings: &mut Findings) {
    let line = line(subject);
    for role in Role::ALL {
        if let Some(Stated { field, text }) = heap(subject, role) {
            // The JVM of a driver gets the text as it is, and knows no `Gi`.
            let bytes = match role {
                Role::Driver => memory::bytes(&text, false),
                Role::Executor => line.bytes(&text),
            };
            match bytes {
                None => not_memory(field, &text, findings),
                // spark-submit refuses 0: "Driver memory must be a positive number".
                Some(0) => findings.refuse(field, format_args!("`{text}` is no memory at all (try `1g`)")),
                Some(_) => {}
            }
        }
        if let Some(Stated { field, text }) = overhead(subject, role)
            && line.bytes(&text).is_none()
        {
            if memory::factor(&text).is_some() || text.trim_end().ends_with('%') {
                let factor = subject.field("memoryOverheadFactor");
                findings.refuse(
                    field,
                    format_args!("`{text}` is a factor, not a memory size: write it in {factor}"),
                );
            } else {
                not_memory(field, &text, findings);
            }
        }
    }
    let key = conf::MEMORY_OVERHEAD_FACTOR;
    let configured = subject.spec.spark_conf.get(key).map(|text| (subject.conf(key), text));
    let stated =
        || Some((subject.field("memoryOverheadFactor"), subject.spec.memory_overhead_factor.as_ref()?));
    let factor = configured.or_else(stated).filter(|(_, text)| !text.is_empty() && !is_substituted(text));
    if let Some((field, text)) = factor
        && memory::factor(text).is_none()
    {
        findings.refuse(field, format_args!("`{text}` is not a fraction from 0 (try `0.1`)"));
    }
}

fn line(subject: &Subject) -> Line {
    Line::nearest(&subject.spec.spark_version).0
}

fn not_memory(field: String, text: &str, findings: &mut Findings) {
    let like = memory::suggestion(text);
    findings.refuse(field, format_args!("`{text}` is not a Java memory size (try `{like}`)"));
}

/// Checks cores, CPU requests and limits, and the number of executors.
pub(super) fn cores(subject: &Subject, findings: &mut Findings) {
    let counted = Role::ALL.map(|role| whole_cores(subject, role)).into_iter().chain([instances(subject)]);
    for Stated { field, text } in counted.flatten() {
        // spark-submit refuses other values: "Executor cores must be a positive number".
        if !text.parse::<i32>().is_ok_and(|count| count > 0) {
            findings.refuse(field, format_args!("`{text}` is not a whole number from 1"));
        }
    }
    for role in Role::ALL {
        for Stated { field, text } in [request(subject, role), limit(subject, role)].into_iter().flatten() {
            match quantity::amount(text.trim()) {
                None => findings.refuse(
                    field,
                    format_args!("`{text}` is not a Kubernetes quantity of cores (try `1` or `200m`)"),
                ),
                Some(..0) => findings.refuse(field, format_args!("`{text}` is negative (try `1` or `200m`)")),
                Some(_) => {}
            }
        }
    }
}

/// Warns if pods request more than their limits allow. This is only a warning: Kubernetes refuses such pods, but some
/// clusters change the requests of pods before that.
pub(super) fn limits(subject: &Subject, findings: &mut Findings) {
    for role in Role::ALL {
        let pod = role.pod(&subject.spec);
        let asked = request(subject, role).or_else(|| whole_cores(subject, role));
        if let (Some(limit), Some(request)) = (limit(subject, role), asked)
            && let (Some(most), Some(asked)) =
                (quantity::amount(limit.text.trim()), quantity::amount(request.text.trim()))
            && most < asked
        {
            let Stated { field, text } = limit;
            let (from, request) = (request.field, request.text);
            findings.warn(
                field,
                format_args!("`{text}` is less than {from}, `{request}`: Kubernetes refuses such pods"),
            );
        }
        let stated = |stated: Option<Stated>| stated.and_then(|stated| line(subject).bytes(&stated.text));
        let heap = stated(heap(subject, role)).unwrap_or_default();
        // What Spark adds at least, unless the user or the admin has lowered that.
        let least = if heap > 0 { memory::OVERHEAD_LEAST << 20 } else { 0 };
        let is_lowered = subject.spec.spark_conf.keys().any(|key| key.ends_with(conf::MEMORY_OVERHEAD_LEAST));
        let overhead = stated(overhead(subject, role)).unwrap_or(if is_lowered { 0 } else { least });
        let asked = heap.saturating_add(overhead);
        if let Some(text) = &pod.memory_limit
            && let Some(limit) = quantity::amount(&memory::quantity(text))
            && limit < i128::from(asked) * 1000
        {
            findings.warn(
                subject.of_role(role, "memoryLimit"),
                format_args!("`{text}` is less than the heap and its overhead: Kubernetes refuses such pods"),
            );
        }
    }
}

fn heap(subject: &Subject, role: Role) -> Option<Stated> {
    let stated = role.pod(&subject.spec).memory.clone();
    of_role(subject, role, "memory", stated, conf::spark(role, conf::MEMORY))
}

fn overhead(subject: &Subject, role: Role) -> Option<Stated> {
    let stated = role.pod(&subject.spec).memory_overhead.clone();
    of_role(subject, role, "memoryOverhead", stated, conf::spark(role, conf::MEMORY_OVERHEAD))
        .filter(is_final)
}

fn request(subject: &Subject, role: Role) -> Option<Stated> {
    let stated = role.pod(&subject.spec).core_request.clone();
    of_role(subject, role, "coreRequest", stated, conf::kubernetes(role, conf::REQUEST_CORES))
        .filter(is_final)
}

fn limit(subject: &Subject, role: Role) -> Option<Stated> {
    let stated = role.pod(&subject.spec).core_limit.clone();
    of_role(subject, role, "coreLimit", stated, conf::kubernetes(role, conf::LIMIT_CORES)).filter(is_final)
}

fn whole_cores(subject: &Subject, role: Role) -> Option<Stated> {
    let stated = role.pod(&subject.spec).cores.map(|cores| cores.to_string());
    of_role(subject, role, "cores", stated, conf::spark(role, conf::CORES))
}

/// Returns the number of executors; none if dynamic allocation is on, so that the number follows the work.
fn instances(subject: &Subject) -> Option<Stated> {
    let stated = subject.spec.executor.instances.map(|instances| instances.to_string());
    of_role(subject, Role::Executor, "instances", stated, conf::EXECUTOR_INSTANCES.to_owned())
        .filter(|_| !defaults::is_dynamic_allocation_on(&subject.spec))
}

/// Returns the value of the spec field; if the field is not set, the value of the property in `sparkConf`.
fn of_role(
    subject: &Subject,
    role: Role,
    field: &str,
    stated: Option<String>,
    key: String,
) -> Option<Stated> {
    let configured =
        || Some(Stated { field: subject.conf(&key), text: subject.spec.spark_conf.get(&key)?.clone() });
    stated.map(|text| Stated { field: subject.of_role(role, field), text }).or_else(configured)
}

/// Whether the final value is known before Spark runs. Spark replaces `${…}` by other properties and environment
/// variables in every value that `spark-submit` itself does not read first, so the result is known only when Spark
/// runs.
fn is_final(stated: &Stated) -> bool {
    !is_substituted(&stated.text)
}

fn is_substituted(text: &str) -> bool {
    text.contains("${")
}
