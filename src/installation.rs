//! Checks that the cluster is set up for this operator: that Kubernetes is not too old, and that its roles grant what the
//! operator needs.

use crate::{manifests, settings::InstallationSettings};
use anyhow::{anyhow, bail, ensure};
use certificates::Places;
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, ResourceRule, SelfSubjectAccessReview, SelfSubjectRulesReview},
    rbac::v1::PolicyRule,
};
use kube::{Api, Client, api::PostParams};
use std::collections::BTreeMap;
use tracing::warn;

const LEASES: &str = "leases";

/// The oldest version of Kubernetes that a webhook can be used with: `matchConditions` are on by default since 1.28 and
/// cannot be turned off since 1.30.
const OLDEST: (u32, u32) = (1, 28);

/// The settings and object names that decide which permissions the operator needs.
#[derive(Clone, Debug)]
pub struct Needs {
    /// The objects that the operator reads or writes by name.
    pub places: Places,
    /// Namespace and name of the Lease, if there is a leader election.
    pub lock: Option<(String, String)>,
    pub settings: InstallationSettings,
}

/// Checks that the API server supports all fields of the webhook configurations.
///
/// # Errors
///
/// When Kubernetes is too old, or its version cannot be read.
pub async fn version(client: &Client) -> anyhow::Result<()> {
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| anyhow!("the version of Kubernetes: {error}"))?;
    // Some vendors append a `+` to the number.
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    match (number(&version.major), number(&version.minor)) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST => bail!(
            "Kubernetes {} is too old: before {}.{} it ignores the `matchConditions` of a webhook, so that pods of Spark \
             without the operator's annotations would depend on the operator; upgrade it, or run the operator with --webhook=false",
            version.git_version,
            OLDEST.0,
            OLDEST.1
        ),
        _ => Ok(()),
    }
}

/// Checks that the operator's account has all permissions that its roles in `manifests/rbac` grant under these
/// settings. If permissions are missing only in some of the named namespaces, the operator works in the others: a
/// tenant who deletes its namespace, and the Role in it, must not stop all others.
///
/// # Errors
///
/// When permissions are missing: the error names the verbs of all of them. When the API server does not answer or
/// refuses a check: a [`kube::Error`] with a context.
pub async fn permissions(client: &Client, needs: &Needs) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    for (namespace, needed) in needed(needs) {
        let lacking = lacking(client, namespace.as_deref(), needed).await?;
        if !lacking.is_empty() {
            missing.push((namespace, lacking));
        }
    }
    let namespaces = needs.settings.namespaces();
    let named = namespaces.named().cloned().unwrap_or_default();
    let of_applications =
        |namespace: &String| *namespace != needs.places.secret_namespace && named.contains(namespace);
    let (tolerable, others): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|(namespace, _)| namespace.as_ref().is_some_and(of_applications));
    if others.is_empty() && tolerable.len() < named.len() {
        for (namespace, verbs) in tolerable {
            let missing = verbs.join(", ");
            warn!(namespace, missing, "no application is driven in a namespace without permissions");
        }
        return Ok(());
    }
    let verbs: Vec<_> = others.into_iter().chain(tolerable).flat_map(|(_, verbs)| verbs).collect();
    let advice = advice(needs);
    ensure!(verbs.is_empty(), "the operator's account may not {}; {advice}", verbs.join(", "));
    Ok(())
}

/// Returns the advice that names the command which grants every permission that is needed.
fn advice(needs: &Needs) -> String {
    let Needs { places, settings, .. } = needs;
    if settings.half.is_some() {
        // The accounts of the halves are those of the chart.
        return "run: helm upgrade, with the chart of this version and rbac.create=true for both halves"
            .to_owned();
    }
    // Without the flag, the command would bind the roles to an account in the default namespace, and the operator's own
    // account would lose them.
    let namespace = Some(&places.secret_namespace).filter(|namespace| *namespace != manifests::NAMESPACE);
    let namespace = namespace.map(|namespace| format!("--namespace={namespace}"));
    let flags = settings.arguments().into_iter().chain(namespace).fold(String::new(), |flags, flag| {
        // A label selector can contain characters that a shell would interpret.
        let quote = if flag.contains([' ', '(', '!']) { "'" } else { "" };
        format!("{flags} {quote}{flag}{quote}")
    });
    // The chart, whose account has another name, can run both halves in one process too.
    format!(
        "run: spark-operator manifests rbac{flags} | kubectl apply --filename -{}; or, with the chart: helm upgrade",
        renamed(needs)
    )
}

/// Returns the part of the advice that says which names the admin has to replace in the printed roles: `run` has flags
/// for the names of these objects, `manifests` has none. Empty if no name differs.
fn renamed(Needs { places, lock, settings }: &Needs) -> String {
    let own = |suffix| settings.name.of(suffix);
    let in_own = |name: String| format!("{}/{name}", places.secret_namespace);
    let lock = lock.as_ref().map(|(namespace, name)| format!("{namespace}/{name}"));
    let names = [
        ("Secret", places.secret.clone(), own("webhook-certs")),
        ("MutatingWebhookConfiguration", places.mutating_configuration.clone(), own("webhook")),
        ("ValidatingWebhookConfiguration", places.validating_configuration.clone(), own("webhook")),
        ("Lease", lock.unwrap_or_else(|| in_own(own("lock"))), in_own(own("lock"))),
    ];
    let others = names.into_iter().filter(|(_, name, printed)| name != printed);
    let others: Vec<_> =
        others.map(|(kind, name, printed)| format!("{kind} {name} instead of {printed}")).collect();
    if others.is_empty() { String::new() } else { format!(", with {} in the roles", others.join(", ")) }
}

/// Returns those of `needed` that the operator's account does not have, in words. For a namespace, the answer to one request
/// (SelfSubjectRulesReview) contains nearly all rules. The API server is asked for each of the other permissions
/// separately, because the rules in that answer may be incomplete.
async fn lacking(
    client: &Client,
    namespace: Option<&str>,
    mut needed: Vec<ResourceAttributes>,
) -> anyhow::Result<Vec<String>> {
    let failed = |error: kube::Error| {
        let why = format!("SelfSubjectAccessReview: {error}");
        anyhow::Error::new(error).context(why)
    };
    let parameters = PostParams::default();
    if let Some(namespace) = namespace {
        let mut review = SelfSubjectRulesReview::default();
        review.spec.namespace = Some(namespace.to_owned());
        let reviews = Api::<SelfSubjectRulesReview>::all(client.clone());
        let answer = reviews.create(&parameters, &review).await.map_err(failed)?;
        let rules = answer.status.map(|status| status.resource_rules).unwrap_or_default();
        needed.retain(|attributes| !rules.iter().any(|rule| grants(rule, attributes)));
    }
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let mut lacking = Vec::new();
    for attributes in needed {
        let words = in_words(&attributes);
        let mut review = SelfSubjectAccessReview::default();
        review.spec.resource_attributes = Some(attributes);
        let answer = reviews.create(&parameters, &review).await.map_err(failed)?;
        if !answer.status.is_some_and(|status| status.allowed) {
            lacking.push(words);
        }
    }
    Ok(lacking)
}

fn grants(rule: &ResourceRule, needed: &ResourceAttributes) -> bool {
    let resource = needed.resource.as_deref().unwrap_or_default();
    let subresource = needed.subresource.as_ref().map(|subresource| format!("/{subresource}"));
    let resource = format!("{resource}{}", subresource.unwrap_or_default());
    let has = |words: &[String], word: &str| words.iter().any(|have| have == "*" || have == word);
    let of = |words: &Option<Vec<String>>, word: &str| words.as_deref().is_some_and(|words| has(words, word));
    let names = rule.resource_names.as_deref().unwrap_or_default();
    of(&rule.api_groups, needed.group.as_deref().unwrap_or_default())
        && of(&rule.resources, &resource)
        && has(&rule.verbs, needed.verb.as_deref().unwrap_or_default())
        && (names.is_empty() || needed.name.as_ref().is_some_and(|name| names.contains(name)))
}

/// Returns the permissions to check: one entry for each verb on each resource, by namespace; `None` stands for the
/// whole cluster.
fn needed(needs: &Needs) -> BTreeMap<Option<String>, Vec<ResourceAttributes>> {
    let roles = manifests::operator_roles(&needs.settings, &needs.places.secret_namespace).into_iter();
    let mut needed = BTreeMap::<_, Vec<_>>::new();
    for mut role in roles.filter(|object| !object["rules"].is_null()) {
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        let rules: Vec<PolicyRule> =
            serde_json::from_value(role["rules"].take()).expect("tests/it/manifests.rs reads the rules");
        for attributes in rules.iter().flat_map(|rule| attributes(rule, needs)) {
            // The only Lease is that of the leader election.
            let namespace = match (attributes.resource.as_deref(), &needs.lock) {
                (Some(LEASES), None) => continue,
                (Some(LEASES), Some((namespace, _))) => Some(namespace.clone()),
                _ => namespace.clone(),
            };
            let attributes = ResourceAttributes { namespace: namespace.clone(), ..attributes };
            needed.entry(namespace).or_default().push(attributes);
        }
    }
    needed
}

fn attributes(rule: &PolicyRule, ours: &Needs) -> Vec<ResourceAttributes> {
    let mut attributes = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let parts = resource.split_once('/');
            let (resource, subresource) =
                (parts.map_or(&**resource, |parts| parts.0), parts.map(|parts| parts.1));
            let names = match (rule.resource_names.as_deref().unwrap_or_default(), resource) {
                ([], _) => vec![None],
                // The settings can give these objects other names than the manifests have.
                (_, "secrets") => vec![Some(&ours.places.secret)],
                (_, "mutatingwebhookconfigurations") => vec![Some(&ours.places.mutating_configuration)],
                (_, "validatingwebhookconfigurations") => vec![Some(&ours.places.validating_configuration)],
                (_, LEASES) => vec![ours.lock.as_ref().map(|(_, name)| name)],
                (names, _) => names.iter().map(Some).collect(),
            };
            for name in names {
                attributes.extend(rule.verbs.iter().map(|verb| ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: subresource.map(str::to_owned),
                    name: name.cloned(),
                    verb: Some(verb.clone()),
                    ..ResourceAttributes::default()
                }));
            }
        }
    }
    attributes
}

/// Describes a permission, such as `patch sparkapplications/status of API group sparkoperator.k8s.io`.
fn in_words(attributes: &ResourceAttributes) -> String {
    let ResourceAttributes { verb, resource, subresource, name, namespace, group, .. } = attributes;
    let what = [("", verb), (" ", resource), ("/", subresource), (" ", name)];
    let parts = what.into_iter().chain([(" in namespace ", namespace), (" of API group ", group)]);
    let given = parts.filter_map(|(before, part)| Some([before, part.as_deref()?]));
    given.filter(|[_, part]| !part.is_empty()).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admin::Readiness,
        parts::{PERMISSIONS, Parts},
        settings::{Command, Flags},
    };
    use axum::http::{Request, Response};
    use clap::Parser;
    use kube::client::Body;
    use serde_json::json;
    use std::{
        convert::Infallible,
        io,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };
    use tokio_util::sync::CancellationToken;

    fn needs(flags: &[&str]) -> Needs {
        let arguments = ["run"].iter().chain(flags);
        let Command::Run(settings) = Flags::parse_from(["spark-operator"].iter().chain(arguments)).command
        else {
            unreachable!("the command is `run`")
        };

        let places = Places {
            secret_namespace: "ours".into(),
            secret: "certs".into(),
            service_namespace: "ours".into(),
            service: "svc".into(),
            mutating_configuration: "hook".into(),
            validating_configuration: "checks".into(),
        };
        Needs { places, lock: Some(("elsewhere".into(), "lock".into())), settings: settings.installation }
    }

    #[tokio::test]
    async fn a_version_that_ignores_parts_of_the_webhook_configurations_is_refused() {
        for (minor, is_refused) in [("27", true), ("27+", true), ("28", false), ("34+", false), ("?", false)]
        {
            let info = json!({
                "major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.3"), "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
            });
            let answer = tower::service_fn(move |_: Request<Body>| {
                let body = Body::from(info.to_string().into_bytes());
                async move { Ok::<_, Infallible>(Response::new(body)) }
            });
            let checked = version(&Client::new(answer, "default")).await;
            assert_eq!(checked.is_err(), is_refused, "{minor}: {checked:?}");
            if let Err(why) = checked {
                assert!(why.to_string().contains("before 1.28 it ignores the `matchConditions`"), "{why}");
            }
        }
    }

    /// In an earlier version, an operator was not ready for up to a minute after the API server answered again.
    #[tokio::test(start_paused = true)]
    async fn permissions_count_as_granted_while_the_api_server_does_not_answer() {
        let is_up = Arc::new(AtomicBool::new(true));
        let answers = Arc::clone(&is_up);
        let api_server = tower::service_fn(move |_: Request<Body>| {
            let is_up = answers.load(Ordering::Relaxed);
            async move {
                let allowed = json!({"status": {"allowed": true}}).to_string();
                if is_up {
                    Ok(Response::new(Body::from(allowed.into_bytes())))
                } else {
                    Err(io::Error::other("down"))
                }
            }
        });
        let client = Client::new(api_server, "default");
        let readiness = Readiness::waiting_for([PERMISSIONS]);
        let mut parts = Parts::new(&readiness, &CancellationToken::new(), Duration::ZERO);
        parts.keep_installed(client.clone(), needs(&[]));
        readiness.wait_for(&[PERMISSIONS]).await;
        is_up.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(30 * 60)).await;
        assert!(readiness.is_met(PERMISSIONS));
        let error = permissions(&client, &needs(&[])).await.unwrap_err();
        assert!(error.to_string().starts_with("SelfSubjectAccessReview: "), "{error}");
    }

    #[test]
    fn the_checked_permissions_have_the_namespaces_and_names_of_the_settings() {
        let needed: Vec<_> = needed(&needs(&[])).values().flatten().map(in_words).collect();
        for expected in include_str!("../tests/data/installation-needs.txt").lines() {
            assert!(needed.iter().any(|words| words == expected), "no `{expected}` in {needed:#?}");
        }
    }

    #[test]
    fn the_checked_permissions_grow_with_the_features_that_are_on() {
        let asked = |flags: &[&str], expected: &str| {
            needed(&needs(flags)).values().flatten().map(in_words).filter(|words| words == expected).count()
        };
        for (flag, words) in [
            ("--enable-resource-quota-enforcement", "list resourcequotas"),
            ("--enable-driver-pdb", "create poddisruptionbudgets of API group policy"),
            ("--namespace-selector=team=data", "watch namespaces"),
            ("--namespaces=a", "watch pods in namespace a"),
        ] {
            assert_eq!((asked(&[], words), asked(&[flag], words)), (0, 1), "{flag}");
        }
        assert_eq!(asked(&["--namespaces=a"], "watch namespaces"), 0);
        assert_eq!(asked(&["--namespaces=a"], "watch pods"), 0, "no permission on pods of the whole cluster");
    }

    /// In an earlier version, the command in the message took the rights from an operator whose namespace had another
    /// name.
    #[test]
    fn the_command_that_grants_permissions_has_the_namespace_of_the_operator() {
        let mut needs = needs(&["--namespaces=a", "--namespace-selector=team in (data)"]);
        needs.lock = None;
        needs.places.secret = "spark-operator-webhook-certs".to_owned();
        needs.places.mutating_configuration = "spark-operator-webhook".to_owned();
        needs.places.validating_configuration = "spark-operator-webhook".to_owned();
        let command = |namespace: &str| {
            let flags = "--namespaces=a '--namespace-selector=team in (data)'";
            let apply = "kubectl apply --filename -; or, with the chart: helm upgrade";
            format!("run: spark-operator manifests rbac {flags}{namespace} | {apply}")
        };
        assert_eq!(advice(&needs), command(" --namespace=ours"));
        needs.places.secret_namespace = manifests::NAMESPACE.to_owned();
        assert_eq!(advice(&needs), command(""));
    }

    /// In an earlier version, the command granted rights on objects of other names, so the same permissions were still
    /// missing.
    #[test]
    fn the_advice_lists_the_names_that_only_flags_of_run_can_set() {
        let names = "Secret certs instead of spark-operator-webhook-certs, MutatingWebhookConfiguration hook instead of \
                     spark-operator-webhook, ValidatingWebhookConfiguration checks instead of spark-operator-webhook, \
                     Lease elsewhere/lock instead of ours/spark-operator-lock";
        let advice = advice(&needs(&[]));
        assert!(advice.contains(&format!("--filename -, with {names} in the roles; or, ")), "{advice}");
    }

    #[test]
    fn a_rule_grants_its_verbs_on_its_resources_under_its_names() {
        type Case = (ResourceRule, ResourceAttributes, bool);
        let cases = include_str!("../tests/data/installation-grants.json");
        for (rule, needed, expected) in serde_json::from_str::<Vec<Case>>(cases).unwrap() {
            assert_eq!(grants(&rule, &needed), expected, "{rule:?} {needed:?}");
        }
    }
}
