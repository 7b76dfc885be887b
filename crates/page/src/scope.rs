//! Finds the list that a caller may see: that of all namespaces, else that of the namespace that was chosen. Whoever may
//! see neither is offered the namespaces in which it is allowed.

use super::{
    callers::Caller,
    entry::Session,
    layout::{page, trouble},
    lists::List,
    query::address,
    reads,
    refusal::Refusal,
    rights::{Right, has},
};
use api::{Lenient, SparkApplication, is_segment};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, Resource, ResourceExt, api::ListParams, core::PartialObjectMeta};
use maud::html;
use std::{future::ready, iter, sync::Arc};

/// The most namespaces about which the API server is asked, and how many of the questions are under way at once.
const MOST: usize = 200;
const AT_ONCE: usize = 8;

/// Returns the list that `of` a caller is there for all namespaces, or for `namespace`. If the browser shows a version of
/// it, waits for a newer one.
///
/// # Errors
///
/// The page to show instead of the list.
pub(crate) async fn list<R: Send + 'static>(
    session: &Session,
    path: &str,
    namespace: Option<&str>,
    of: fn(&Caller, Option<&str>) -> Arc<List<R>>,
) -> Result<Arc<List<R>>, Response> {
    let all = of(&session.caller, None);
    match newest(&all, session.after).await {
        Ok(()) => return Ok(all),
        Err(refusal) if !refusal.is_forbidden() => return Err(refusal.into_response()),
        Err(_) => {}
    }
    let Some(namespace) = namespace.filter(|namespace| is_segment(namespace)) else {
        return Err(choice(session, path, None).await);
    };
    let one = of(&session.caller, Some(namespace));
    match newest(&one, session.after).await {
        Ok(()) => Ok(one),
        Err(refusal) if refusal.is_forbidden() => Err(choice(session, path, Some(&refusal.words)).await),
        Err(refusal) => Err(refusal.into_response()),
    }
}

/// Returns the list of all namespaces, or of `namespace`, as it is now.
///
/// # Errors
///
/// If the caller may see neither.
pub(crate) async fn known<R: Send + 'static>(
    session: &Session,
    namespace: &str,
    of: fn(&Caller, Option<&str>) -> Arc<List<R>>,
) -> Result<Arc<List<R>>, Refusal> {
    let all = of(&session.caller, None);
    if all.complete().await.is_ok() {
        return Ok(all);
    }
    let one = of(&session.caller, Some(namespace));
    one.complete().await?;
    Ok(one)
}

async fn newest<R: Send + 'static>(list: &List<R>, after: Option<u64>) -> Result<(), Refusal> {
    list.complete().await?;
    if let Some(after) = after {
        list.news(after).await;
    }
    Ok(())
}

/// Returns the page on which a namespace is chosen.
async fn choice(session: &Session, path: &str, wrong: Option<&str>) -> Response {
    let allowed = allowed(session).await;
    let content = html! {
        (trouble(wrong))
        p { "You may not list the applications of all namespaces. Choose one:" }
        @match &allowed {
            Ok(names) if !names.is_empty() => ul {
                @for name in names {
                    li { a href=(address(path, iter::once(("namespace", name.as_str())))) { (name) } }
                }
            },
            Ok(_) => p { "There is no namespace in which you may list them." },
            Err(_) => p { "You may not list namespaces either, so you have to know its name." },
        }
        form action=(path) {
            label for="namespace" { "Namespace" } " "
            input #namespace name="namespace" required;
            " " button { "Show" }
        }
    };
    page(Some(&session.visitor), "Choose a namespace", None, &content)
}

/// Returns the namespaces whose applications the caller may list.
async fn allowed(session: &Session) -> Result<Vec<String>, Refusal> {
    let client = &session.caller.client;
    let mut names = Vec::new();
    reads::list(client, &Namespace::url_path(&(), None), ListParams::default(), MOST, |object| {
        names.push(Lenient::<PartialObjectMeta>::parse(object).0.name_any());
    })
    .await?;
    let asked = names.into_iter().map(|name| listable(client.clone(), name));
    Ok(stream::iter(asked).buffered(AT_ONCE).filter_map(ready).collect().await)
}

/// Returns the namespace if the caller may list its applications.
async fn listable(client: Client, namespace: String) -> Option<String> {
    let (group, resource) = (SparkApplication::group(&()), SparkApplication::plural(&()));
    let right = Right { verb: "list", group: &group, resource: &resource, namespace: &namespace, name: "" };
    let is_allowed = has(&client, right).await.is_ok_and(|has| has);
    is_allowed.then_some(namespace)
}
