//! Warns of fields that are deprecated, or that have no effect as they are written.

use super::{Findings, Subject};
use api::{ApplicationType, RestartPolicyType, Role, names::batch_scheduler, stated};
use spark_client::Line;

/// Adds the warnings about such fields. Kubeflow's operator accepts all of these fields.
pub(super) fn fields(subject: &Subject, findings: &mut Findings) {
    let spec = &subject.spec;
    if spec.failure_retries.is_some() {
        let instead = subject.field("restartPolicy.onFailureRetries");
        findings.warn(subject.field("failureRetries"), format_args!("has no effect: write {instead}"));
    }
    if spec.retry_interval.is_some() {
        let instead = subject.field("restartPolicy.onFailureRetryInterval");
        findings.warn(subject.field("retryInterval"), format_args!("has no effect: write {instead}"));
    }
    // Another one is refused.
    if spec
        .python_version
        .as_deref()
        .is_some_and(|version| version == "3" || spec.application_type != ApplicationType::Python)
    {
        findings
            .warn(subject.field("pythonVersion"), "has no effect since Spark 3.1: the image has its Python");
    }
    if !Line::is_version(&spec.spark_version) {
        let version = &spec.spark_version;
        let (line, _) = Line::nearest(version);
        let what = format!("`{version}` is no version: submitted as Spark {line}, write one such as `4.0.1`");
        findings.warn(subject.field("sparkVersion"), what);
    }
    let policy = &spec.restart_policy;
    if policy.restart_type == RestartPolicyType::OnFailure
        && policy.on_failure_retries.is_none()
        && policy.on_submission_failure_retries.is_none()
    {
        let what =
            "tries nothing again without onFailureRetries or onSubmissionFailureRetries: write how often";
        findings.warn(subject.field("restartPolicy"), what);
    }
    if spec.restart_policy.restart_type != RestartPolicyType::OnFailure {
        for (field, retries) in [
            ("onFailureRetries", spec.restart_policy.on_failure_retries),
            ("onSubmissionFailureRetries", spec.restart_policy.on_submission_failure_retries),
        ] {
            if retries.is_some() {
                let field = subject.field(format_args!("restartPolicy.{field}"));
                findings.warn(field, "has no effect unless restartPolicy.type is OnFailure");
            }
        }
    }
    if spec.time_to_live_seconds.is_some_and(i64::is_negative) {
        findings.warn(subject.field("timeToLiveSeconds"), "is negative and counts as 0: deleted at its end");
    }
    for role in Role::ALL {
        of_role(subject, role, findings);
    }
}

fn of_role(subject: &Subject, role: Role, findings: &mut Findings) {
    let pod = role.pod(&subject.spec);
    for (field, is_used) in
        [("envVars", !pod.env_vars.is_empty()), ("envSecretKeyRefs", !pod.env_secret_key_refs.is_empty())]
    {
        if is_used {
            let instead = subject.of_role(role, "env");
            findings.warn(subject.of_role(role, field), format_args!("is deprecated: write {instead}"));
        }
    }
    if pod.gpu.as_ref().is_some_and(|gpu| gpu.name.is_empty() || gpu.quantity < 1) {
        findings.warn(subject.of_role(role, "gpu"), "has no effect without a name and a quantity from 1");
    }
    let batch_scheduler = stated(&subject.spec.batch_scheduler);
    let counts = batch_scheduler.is_some_and(|name| name != batch_scheduler::KUBERNETES);
    if pod.scheduler_name.is_some() && counts {
        let outweighs = subject.field("batchScheduler");
        findings
            .warn(subject.of_role(role, "schedulerName"), format_args!("has no effect: {outweighs} counts"));
    }
}
