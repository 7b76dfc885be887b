//! Warns of fields that are deprecated, or that have no effect as they are written.

use super::Subject;
use api::{ApplicationType, RestartPolicyType, Role, SparkPodSpec, batch_scheduler, stated};
use spark_client::Line;

/// Adds the warnings about fields outside the sections of the roles. Kubeflow's operator accepts all of these fields.
pub(super) fn fields(subject: &Subject) {
    let (spec, policy) = (&subject.spec, &subject.spec.restart_policy);
    let (runs, submissions) = (policy.on_failure_retries, policy.on_submission_failure_retries);
    let (has_retries, is_on_failure) =
        (runs.or(submissions).is_some(), policy.restart_type == RestartPolicyType::OnFailure);
    let is_python = spec.application_type == ApplicationType::Python;
    // Another version of Python is refused elsewhere.
    let has_python = spec.python_version.as_deref().is_some_and(|version| version == "3" || !is_python);
    let (version, (line, _)) = (&spec.spark_version, Line::nearest(&spec.spark_version));
    let no_version =
        format!("`{version}` is no version: submitted as Spark {line}, write one such as `4.0.1`");
    let instead = |field: &str| format!("has no effect: write {}", subject.field(field));
    let (of_runs, of_retries) =
        (instead("restartPolicy.onFailureRetryInterval"), instead("restartPolicy.onFailureRetries"));
    let unless = "has no effect unless restartPolicy.type is OnFailure";
    let tries = "tries nothing again without onFailureRetries or onSubmissionFailureRetries: write how often";
    for (field, is_there, what) in [
        ("failureRetries", spec.failure_retries.is_some(), &*of_retries),
        ("retryInterval", spec.retry_interval.is_some(), &*of_runs),
        ("pythonVersion", has_python, "has no effect since Spark 3.1: the image has its Python"),
        ("sparkVersion", !Line::is_version(version), &*no_version),
        ("restartPolicy", is_on_failure && !has_retries, tries),
        ("restartPolicy.onFailureRetries", !is_on_failure && runs.is_some(), unless),
        ("restartPolicy.onSubmissionFailureRetries", !is_on_failure && submissions.is_some(), unless),
        (
            "timeToLiveSeconds",
            spec.time_to_live_seconds.is_some_and(i64::is_negative),
            "is negative and counts as 0: the application is deleted when it ends",
        ),
    ] {
        if is_there {
            subject.warn(field, what);
        }
    }
}

/// Adds the warnings about fields in the section of a role.
pub(super) fn of_role(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let counts =
        stated(&subject.spec.batch_scheduler).is_some_and(|name| name != batch_scheduler::KUBERNETES);
    let outweighed = format!("has no effect: {} counts", subject.field("batchScheduler"));
    let has_no_gpu = pod.gpu.as_ref().is_some_and(|gpu| gpu.name.is_empty() || gpu.quantity < 1);
    let deprecated = format!("is deprecated: write {}", subject.field(format_args!("{role}.env")));
    for (field, is_there, what) in [
        ("envVars", !pod.env_vars.is_empty(), &*deprecated),
        ("envSecretKeyRefs", !pod.env_secret_key_refs.is_empty(), &*deprecated),
        ("gpu", has_no_gpu, "has no effect without a name and a quantity from 1"),
        ("schedulerName", pod.scheduler_name.is_some() && counts, &*outweighed),
    ] {
        if is_there {
            subject.warn(format_args!("{role}.{field}"), what);
        }
    }
}
