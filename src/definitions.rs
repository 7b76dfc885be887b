//! The CustomResourceDefinitions in a cluster: whether they keep every field that the operator writes, how they are brought up
//! to date, and whether there are objects of a kind that nobody would serve.

use crate::{manifests, settings::VERSION};
use anyhow::{anyhow, bail, ensure};
use api::{Identity, Lenient, SparkConnect, crds, names::annotation};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResourceExt, Resource, ResourceExt,
    api::{GetParams, ListParams, PostParams},
    core::{PartialObjectMeta, Request},
    runtime::wait::{Condition, conditions::is_crd_established},
};
use std::{sync::LazyLock, time::Duration};
use tokio::time::{sleep, timeout};

/// The command that installs the CustomResourceDefinitions, for error messages.
const APPLY_CRDS: &str = "spark-operator crds | kubectl apply --server-side --force-conflicts --filename -";
/// The maximum time until the API server serves a definition that was applied; less than a second is usual.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(60);
/// The pause between two attempts to write a definition, and between two checks that it is served.
const PAUSE: Duration = Duration::from_millis(200);
/// The maximum number of SparkConnects that a message names.
const MOST_NAMED: u32 = 50;

/// Checks that the installed definitions have every field that the operator writes into a status. The API server
/// silently drops a field that it does not know, and a run that is not recorded would be run again. The definition of
/// SparkConnects is checked only if the operator `serves_connect`.
///
/// # Errors
///
/// When a definition or a field is missing, with the command that installs it, or when a definition cannot be read.
pub async fn check(client: &Client, serves_connect: bool) -> anyhow::Result<()> {
    static STATUSES: LazyLock<[crds::StatusSchema; 3]> = LazyLock::new(crds::status_schemas);
    let definitions = Request::new(CustomResourceDefinition::url_path(&(), None));
    let is_used = |ours: &&crds::StatusSchema| serves_connect || ours.definition != SparkConnect::crd_name();
    for ours in STATUSES.iter().filter(is_used) {
        let name = ours.definition;
        let request = definitions.get(name, &GetParams::default()).expect("the name can be part of a path");
        let installed = match client.request_text(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                bail!("CustomResourceDefinition {name} is not installed; run: {APPLY_CRDS}")
            }
            installed => installed.map_err(|error| anyhow!("CustomResourceDefinition {name}: {error}"))?,
        };
        match ours.missing_in(&installed) {
            Ok(fields) if fields.is_empty() => {}
            Ok(fields) => bail!(
                "CustomResourceDefinition {name} is not this version's: the API server would drop {}; run: {APPLY_CRDS}",
                fields.join(", ")
            ),
            Err(error) => bail!("CustomResourceDefinition {name} cannot be read: {error}; run: {APPLY_CRDS}"),
        }
    }
    Ok(())
}

/// Creates the definitions of this version, or replaces those that are installed, and waits until the API server serves
/// them. Returns a line for each.
///
/// An installed definition keeps its labels and annotations. Its specification is replaced as a whole: if it were
/// merged with ours, as `kubectl apply` does, constraints of another operator's schemas would stay. A definition of a
/// later version of this operator is left alone, because another installation in the cluster writes the fields that only
/// that one has.
///
/// # Errors
///
/// When the API server refuses a definition, or does not serve it within [`ESTABLISHED_WITHIN`].
pub async fn apply(client: &Client) -> anyhow::Result<String> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let mut applied = String::new();
    for (_, yaml) in manifests::CRDS {
        let mut ours: CustomResourceDefinition =
            serde_saphyr::from_str(yaml).expect("tests/it/crds.rs reads them all");
        ours.annotations_mut().insert(annotation::DEFINITION_VERSION.to_owned(), VERSION.to_owned());
        let name = ours.name_any();
        match timeout(ESTABLISHED_WITHIN, establish(&definitions, &ours)).await {
            Ok(Ok(done)) => applied += &format!("customresourcedefinition/{name} {done}\n"),
            Ok(Err(error)) => bail!("CustomResourceDefinition {name}: {error}"),
            Err(_) => bail!(
                "CustomResourceDefinition {name} is applied, but the API server does not serve it: look at its conditions with \
                 kubectl describe crd {name}"
            ),
        }
    }
    Ok(applied)
}

/// Checks that there are no SparkConnects, for an operator that does not serve them: where it replaces one that does, edits
/// would have no effect without anybody noticing.
///
/// # Errors
///
/// When there are some, with their names, or when they cannot be listed.
pub async fn check_spark_connects(client: &Client) -> anyhow::Result<()> {
    let not_listed = |error: kube::Error| {
        let is_forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
        let allow = "allow the account to list sparkconnects in all namespaces";
        anyhow!(
            "SparkConnects cannot be listed: {error}; {}, or pass --leave-spark-connects (in the chart \
             hook.leaveSparkConnects=true)",
            if is_forbidden { allow } else { "try again" }
        )
    };
    let connects = Api::<Lenient<PartialObjectMeta<SparkConnect>>>::all(client.clone());
    let found = match connects.list(&ListParams::default().limit(MOST_NAMED)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        found => found.map_err(not_listed)?,
    };
    let items = found.items.iter();
    let names = items.map(|object| format!("{}/{}", object.own_namespace(), object.own_name()));
    let mut names: Vec<_> = names.collect();
    let has_more = found.metadata.continue_.is_some_and(|rest| !rest.is_empty());
    names.extend(has_more.then(|| "others".to_owned()));
    ensure!(
        names.is_empty(),
        "this operator does not serve SparkConnects (--enable-spark-connect=false), so that no controller would manage {}: delete \
         them, or let it serve them (in the chart sparkConnect.enable=true); with --leave-spark-connects (in the chart \
         hook.leaveSparkConnects=true) they and their servers stay as they are",
        names.join(", ")
    );
    Ok(())
}

/// Writes the definition, and waits until the API server serves it. Returns what was done, in words.
async fn establish(
    definitions: &Api<CustomResourceDefinition>,
    ours: &CustomResourceDefinition,
) -> Result<&'static str, kube::Error> {
    let name = ours.name_any();
    let mut done = "applied";
    let mut definition = loop {
        let written = match definitions.get_opt(&name).await? {
            None => definitions.create(&PostParams::default(), ours).await,
            Some(installed) if is_later(installed.annotations().get(annotation::DEFINITION_VERSION)) => {
                done = "left alone: a later version has written it";
                Ok(installed)
            }
            Some(mut installed) => {
                installed.annotations_mut().extend(ours.annotations().clone());
                installed.spec = ours.spec.clone();
                definitions.replace(&name, &PostParams::default(), &installed).await
            }
        };
        match written {
            // The API server writes conditions into the status of a definition that was just created.
            Err(kube::Error::Api(status)) if status.is_conflict() => sleep(PAUSE).await,
            written => break written?,
        }
    };
    while !is_crd_established().matches_object(Some(&definition)) {
        sleep(PAUSE).await;
        definition = definitions.get(&name).await?;
    }
    Ok(done)
}

/// Returns whether a version is later than the version of this program. A text that is not a version is not later.
fn is_later(version: Option<&String>) -> bool {
    let numbers = |version: &str| -> Option<Vec<u64>> {
        let release = version.split(['-', '+']).next().unwrap_or_default();
        release.split('.').map(|number| number.parse().ok()).collect()
    };
    version.and_then(|version| numbers(version)).is_some_and(|theirs| Some(theirs) > numbers(VERSION))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use std::convert::Infallible;

    #[tokio::test]
    async fn spark_connects_that_would_have_no_controller_are_named() {
        let of = |names: &[&str], rest: &str| {
            let item = |name: &&str| json!({"metadata": {"namespace": "team-a", "name": name}});
            let items: Vec<_> = names.iter().map(item).collect();
            (200_u16, json!({"metadata": {"continue": rest}, "items": items}))
        };
        let refusal = |code: u16| (code, json!({"status": "Failure", "code": code}));
        for ((code, answer), said) in [
            (of(&[], ""), ""),
            (refusal(404), ""),
            (refusal(403), "; allow the account to list sparkconnects in all namespaces, or pass --leave"),
            (refusal(500), "; try again, or pass --leave"),
            (of(&["a", "b"], "more"), "no controller would manage team-a/a, team-a/b, others: delete"),
        ] {
            let answers = tower::service_fn(move |request: Request<Body>| {
                assert_eq!(request.uri().path(), "/apis/sparkoperator.k8s.io/v1alpha1/sparkconnects");
                // SparkConnects can be large, and only their names are needed.
                assert!(
                    request.headers()["accept"].to_str().unwrap().contains("as=PartialObjectMetadataList")
                );
                let body = Body::from(answer.to_string().into_bytes());
                async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
            });
            let checked = check_spark_connects(&Client::new(answers, "default")).await;
            let why = checked.err().map(|why| why.to_string()).unwrap_or_default();
            assert!(why.contains(said) && why.is_empty() == said.is_empty(), "{why}");
        }
    }

    #[test]
    fn a_definition_of_a_later_version_is_known_by_its_annotation() {
        let is_later = |version: &str| super::is_later(Some(&version.to_owned()));
        assert!(is_later("99.0.0") && is_later("0.99.0-rc.1"));
        assert!(!is_later(VERSION) && !is_later("0.0.9") && !is_later("latest") && !super::is_later(None));
    }
}
