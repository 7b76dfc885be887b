//! Asks the API server whether a user who exposes a driver outside the cluster may do so (`--check-exposure-rights`):
//! the operator creates Services and Ingresses with its own permissions, which users without these permissions must not
//! be able to use.

use super::{PATIENCE, lookups::Permit};
use api::excerpt;
use k8s_openapi::api::{authentication::v1::UserInfo, authorization::v1::LocalSubjectAccessReview};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use submission::{digest, exposure::ExposureRight};
use tokio::time::timeout;
use tracing::debug;
use validation::{Findings, Invalid};

/// The client that asks the API server for the permissions of users.
pub struct ExposureRights {
    pub client: Client,
    /// Whether changes of users without the permissions are refused; otherwise their users are only warned.
    pub refuses: bool,
}

impl ExposureRights {
    /// Returns mistakes or warnings if `user` lacks one of the rights that are `needed` in a namespace, or if that cannot be
    /// determined. The API server is asked if that is `permitted`. Applications that the operator creates for a schedule
    /// pass, because the operator has these permissions. The schedule itself was checked when a user applied it.
    pub(super) async fn check(
        &self,
        needed: Vec<ExposureRight>,
        user: &UserInfo,
        namespace: &str,
        permitted: Result<Permit, &'static str>,
    ) -> Findings {
        let name = user.username.as_deref().unwrap_or_default();
        let mut lacking = Vec::new();
        for right in needed {
            let has = match &permitted {
                Ok(_) => self.has(user, &right, namespace).await,
                Err(why) => Err((*why).to_owned()),
            };
            if has != Ok(true) {
                lacking.push(Lacking { right, user: name, namespace, unknown: has.err() });
            }
        }
        judged(&lacking, self.refuses)
    }

    /// Asks whether `user` has the permission. The error is the reason why that cannot be determined.
    async fn has(&self, user: &UserInfo, right: &ExposureRight, namespace: &str) -> Result<bool, String> {
        let ExposureRight { group, resource, .. } = right;
        let UserInfo { username: user, groups, uid, extra } = user;
        let attributes =
            json!({"namespace": namespace, "verb": "create", "group": group, "resource": resource});
        let review = serde_json::from_value(json!({
            "metadata": {"namespace": namespace},
            "spec": {
                "resourceAttributes": attributes, "user": user, "groups": groups, "uid": uid, "extra": extra,
            },
        }));
        let review: LocalSubjectAccessReview = review.expect("these are fields of the type");
        let reviews = Api::<LocalSubjectAccessReview>::namespaced(self.client.clone(), namespace);
        match timeout(PATIENCE, reviews.create(&PostParams::default(), &review)).await {
            Ok(Ok(answer)) => Ok(answer.status.is_some_and(|status| status.allowed)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the API server has not answered for {} s", PATIENCE.as_secs())),
        }
    }
}

/// Returns the mistakes, or the warnings, of a user who lacks these rights.
fn judged(lacking: &[Lacking<'_>], refuses: bool) -> Findings {
    let mut found = Findings::default();
    if refuses {
        found.invalid.extend(lacking.iter().map(Lacking::refusal));
        return found;
    }
    for Lacking { right, user, namespace, unknown } in lacking {
        let resource = right.resource;
        debug!(user, namespace, resource, unknown, "warned: exposes a driver without the right to do so");
    }
    found.warnings.extend(lacking.iter().map(Lacking::warning));
    found
}

/// A right that a user lacks, or may lack.
struct Lacking<'a> {
    right: ExposureRight,
    user: &'a str,
    namespace: &'a str,
    /// Why it is not known whether the user has the right; `None` if the user lacks it.
    unknown: Option<String>,
}

impl Lacking<'_> {
    fn refusal(&self) -> Invalid {
        let Self { right: ExposureRight { resource, field, .. }, user, namespace, unknown } = self;
        let why = match unknown {
            None => format!(
                "user `{user}` may not create {resource} in namespace {namespace}: leave the field out, have an admin grant that \
                 right ({}), or have the operator warn only (--check-exposure-rights=warn)",
                self.grant()
            ),
            Some(why) => format!(
                "it is not known whether user `{user}` may create {resource} in namespace {namespace} \
                 (--check-exposure-rights): {why}"
            ),
        };
        Invalid { field: field.clone(), why }
    }

    fn warning(&self) -> String {
        let Self { right: ExposureRight { resource, field, .. }, user, unknown, .. } = self;
        let text = match unknown {
            None => format!("{field}: `{user}` may not create {resource} (--check-exposure-rights)"),
            Some(why) => format!("{field}: not known whether `{user}` may create {resource}: {why}"),
        };
        excerpt::beginning(text, LONGEST_WARNING)
    }

    /// Returns the commands that give the user the right in this namespace.
    fn grant(&self) -> String {
        let ExposureRight { group, resource, .. } = self.right;
        let dot = if group.is_empty() { "" } else { "." };
        let (kind, name) = match self.user.strip_prefix("system:serviceaccount:") {
            Some(account) => ("serviceaccount", account),
            None => ("user", self.user),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let mut binding: String = name.chars().take(200).map(|c| if is_plain(c) { c } else { '-' }).collect();
        if binding != name {
            // The name of another user may result in the same text.
            binding = format!("{binding}-{}", &digest::fingerprint(&[self.user])[..8]);
        }
        let (namespace, name) = (in_shell(self.namespace), in_shell(name));
        format!(
            "kubectl create role create-{resource} --namespace={namespace} --verb=create --resource={resource}{dot}{group}; \
             kubectl create rolebinding create-{resource}-{binding} --namespace={namespace} --role=create-{resource} \
             --{kind}={name}"
        )
    }
}

/// The maximum length of a warning, in bytes: `kubectl` shows each on a line.
const LONGEST_WARNING: usize = 160;

/// Returns `text` as one word of a shell: an admin copies the commands, and a user's name may be any text.
fn in_shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@.:_-".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, sync::Arc};
    use validation::Refusal;

    fn lacking<'a>(user: &'a str, unknown: Option<&str>) -> Lacking<'a> {
        let field = "spec.driverIngressOptions[0].ingressURLFormat".to_owned();
        let right = ExposureRight { group: "networking.k8s.io", resource: "ingresses", field };
        Lacking { right, user, namespace: "team-a", unknown: unknown.map(str::to_owned) }
    }

    #[test]
    fn a_refusal_has_the_commands_that_grant_the_right() {
        let role = "kubectl create role create-ingresses --namespace=team-a --verb=create --resource=ingresses.networking.k8s.io";
        let binding = "--namespace=team-a --role=create-ingresses";
        let cases = include_str!("../../../tests/data/exposure-grants.json");
        for [user, name, subject] in &serde_json::from_str::<Vec<[String; 3]>>(cases).unwrap() {
            let expected =
                format!("{role}; kubectl create rolebinding create-ingresses-{name} {binding} {subject}");
            assert_eq!(lacking(user, None).grant(), expected);
        }
        let services = ExposureRight { group: "", resource: "services", field: String::new() };
        let services = Lacking { right: services, ..lacking("alice", None) }.grant();
        assert!(
            services.contains("create role create-services ") && services.contains("--resource=services;")
        );
        let message = Refusal(judged(&[lacking("alice", None)], true).invalid).to_string();
        let begin = "spec.driverIngressOptions[0].ingressURLFormat: user `alice` may not create ingresses in namespace team-a: ";
        assert!(message.starts_with(begin) && message.contains(role), "{message}");
        assert!(message.ends_with("(--check-exposure-rights=warn)"), "{message}");
    }

    /// Airflow's account applies the applications of all users, and has the rights of none of them.
    #[test]
    fn a_check_that_only_warns_admits_what_it_would_refuse() {
        // An info line for each dry run would fill the log.
        let (mut log, written) = std::io::pipe().unwrap();
        let subscriber = tracing_subscriber::fmt().with_writer(Arc::new(written)).finish();
        let logged = tracing::subscriber::set_default(subscriber);
        let airflow = "system:serviceaccount:airflow:airflow-worker";
        for (unknown, expected) in [
            (
                None,
                "`system:serviceaccount:airflow:airflow-worker` may not create ingresses (--check-exposure-rights)",
            ),
            (
                Some("localsubjectaccessreviews is forbidden"),
                "not known whether `system:serviceaccount:airflow:airflow-worker` may create ingresses: local",
            ),
        ] {
            let lacking = [lacking(airflow, unknown)];
            assert_eq!(judged(&lacking, true).invalid.len(), 1);
            let Findings { invalid, warnings, .. } = judged(&lacking, false);
            assert!(invalid.is_empty(), "it only warns");
            let [warning] = &warnings[..] else { panic!("{warnings:?}") };
            let expected = format!("spec.driverIngressOptions[0].ingressURLFormat: {expected}");
            assert!(warning.starts_with(&expected) && warning.len() <= LONGEST_WARNING, "{warning}");
        }
        drop(logged);
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        assert_eq!(text, "");
    }
}
