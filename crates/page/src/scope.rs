//! Shows the list that a caller may see: that of all namespaces, else that of the namespace that was chosen. Whoever may
//! see neither is offered the namespaces in which it is allowed.

use super::{
    callers::Caller,
    entry::Session,
    layout::{page, trouble},
    lists::List,
    query::address,
    reads::{self, Right, lack},
    refusal::Refusal,
    rows::Key,
};
use api::{Lenient, SparkApplication, is_segment};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, Resource, ResourceExt, api::ListParams, core::PartialObjectMeta};
use maud::{Markup, html};
use std::{iter, sync::Arc};

/// The most namespaces about which the API server is asked, and how many of the questions are under way at once.
const MOST: usize = 200;
const AT_ONCE: usize = 8;

/// Shows the page `title` with the `content` for those rows of the list that `of` a caller is there that are in the namespace
/// of the query, or for all; else the page on which a namespace is chosen.
pub(crate) async fn show<R: Send + 'static>(
    session: &Session,
    path: &str,
    title: &str,
    of: fn(&Caller, Option<&str>) -> Arc<List<R>>,
    content: impl FnOnce(Vec<(&Key, &R)>) -> Markup,
) -> Response {
    let namespace = session.query.given("namespace").filter(|namespace| is_segment(namespace));
    let mut list = of(&session.caller, None);
    let mut complete = list.complete().await;
    if complete.as_ref().is_err_and(Refusal::is_forbidden) && namespace.is_some() {
        list = of(&session.caller, namespace);
        complete = list.complete().await;
    }
    match complete {
        Ok(()) => {}
        Err(refusal) if refusal.is_forbidden() => {
            return choice(session, path, namespace.map(|_| &*refusal.words)).await;
        }
        Err(refusal) => return refusal.into_response(),
    }
    let content = list.read(|rows| {
        let here = rows.into_iter().filter(|(key, _)| namespace.is_none_or(|namespace| *key.0 == *namespace));
        content(here.collect())
    });
    let content = html! { (trouble(list.trouble().as_deref())) (content) };
    page(Some(&session.visitor), title, true, &content)
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
        (chooser(path, ""))
    };
    page(Some(&session.visitor), "Choose a namespace", false, &content)
}

/// Returns the form for a namespace.
pub(crate) fn chooser(path: &str, namespace: &str) -> Markup {
    html! {
        form action=(path) role="search" {
            label for="namespace" { "Namespace" } " "
            input #namespace name="namespace" value=(namespace);
            " " button { "Show" }
        }
    }
}

/// Returns the namespaces whose applications the caller may list.
async fn allowed(session: &Session) -> Result<Vec<String>, Refusal> {
    let client = &session.caller.client;
    let mut names = Vec::new();
    reads::list(client, &Namespace::url_path(&(), None), ListParams::default(), MOST, |object| {
        names.push(Lenient::<PartialObjectMeta>::parse(object).0.name_any());
    })
    .await?;
    let asked: Vec<_> = names.into_iter().map(|name| listable(client.clone(), name)).collect();
    Ok(stream::iter(asked).buffered(AT_ONCE).collect::<Vec<_>>().await.into_iter().flatten().collect())
}

/// Returns the namespace if the caller may list its applications.
async fn listable(client: Client, namespace: String) -> Option<String> {
    let (group, resource) = (SparkApplication::group(&()), SparkApplication::plural(&()));
    let right = Right { verb: "list", group: &group, resource: &resource, namespace: &namespace, name: "" };
    let is_allowed = lack(&client, right).await.is_none();
    is_allowed.then_some(namespace)
}
