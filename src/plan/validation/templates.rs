//! Are the pod templates some, and does this version of Spark have any?

use super::{Findings, Subject};
use crate::{api::Role, plan::submission};
use k8s_openapi::api::core::v1::PodTemplateSpec;

pub(super) fn version(subject: &Subject, findings: &mut Findings) {
    let version = &subject.spec.spark_version;
    if submission::has_templates(version) {
        return;
    }
    for role in Role::ALL.into_iter().filter(|role| role.pod(&subject.spec).template.is_some()) {
        findings.refuse(
            subject.of_role(role, "template"),
            format_args!("pod templates need Spark 3.0.0 or later, and sparkVersion is `{version}`"),
        );
    }
}

/// The CRD lets any object through here.
pub(super) fn form(subject: &Subject, findings: &mut Findings) {
    for role in Role::ALL {
        let Some(template) = &role.pod(&subject.spec).template else { continue };
        if let Err(error) = serde_path_to_error::deserialize::<_, PodTemplateSpec>(template.json()) {
            findings
                .refuse(subject.of_role(role, "template"), format_args!("is not a pod template: {error}"));
        }
    }
}
