//! Shows the list that a caller may see: that of all namespaces, else that of the namespace that was chosen. Whoever may
//! see neither is offered the namespaces in which it is allowed.

use super::{Key, List, Reader, Result, Row, Session, address, trouble, wide};
use api::{Lenient, is_segment};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, future, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt, api::ListParams, core::PartialObjectMeta};
use maud::{Markup, html};
use std::sync::Arc;

/// The most namespaces about which the API server is asked, and how many of the questions are under way at once.
const MOST: usize = 200;
const AT_ONCE: usize = 8;
/// The most rows of a list without pages. More are found by their namespace.
const ROWS: usize = 500;

/// Returns the list of a kind that the caller may see: that of all namespaces, else that of this one.
///
/// # Errors
///
/// If the caller may see neither, or if the list cannot be read in time.
pub(crate) async fn list<R: Row>(session: &Session, namespace: Option<&str>) -> Result<Arc<List<R>>> {
    // Whose list of one namespace is known may not see that of all, and it would be asked for in vain each time.
    if let Some(known) = namespace.and_then(|namespace| session.caller.known::<R>(namespace))
        && let Ok(list) = known.complete().await
    {
        return Ok(list);
    }
    match (session.caller.list::<R>(None).complete().await, namespace) {
        (Err(refusal), Some(_)) if refusal.is_forbidden() => {
            session.caller.list::<R>(namespace).complete().await
        }
        (list, _) => list,
    }
}

/// Shows the page `title` with the `content` for those rows of the caller's list that are in the namespace of the query, or
/// for all; else the page on which a namespace is chosen.
pub(crate) async fn show<R: Row>(
    session: &Session,
    path: &str,
    title: &str,
    content: impl FnOnce(Vec<(&Key, &R)>) -> Markup,
) -> Response {
    let namespace = namespace(session);
    let list = match list::<R>(session, namespace).await {
        Ok(list) => list,
        Err(refusal) if refusal.is_forbidden() => {
            return choice::<R>(session, path, namespace.map(|_| &*refusal.words)).await;
        }
        Err(refusal) => return refusal.into_response(),
    };
    let content = list.read(|rows| {
        let here = rows.into_iter().filter(|(key, _)| namespace.is_none_or(|namespace| *key.0 == *namespace));
        content(here.collect())
    });
    let content = html! { (trouble(list.trouble().as_deref())) (content) };
    session.document(title, true, &content)
}

/// Shows a list as a table: name and namespace of each object, and behind them the `cells` of its row.
pub(crate) async fn table<R: Row>(
    session: &Session,
    path: &str,
    title: &str,
    titles: &[&str],
    cells: fn(&R) -> Markup,
) -> Response {
    show::<R>(session, path, title, |rows| {
        let titles =
            html! { @for title in ["Name", "Namespace"].iter().chain(titles) { th scope="col" { (title) } } };
        let rows = rows.iter().take(ROWS).map(|(key, row)| {
            html! {
                th scope="row" { a href={ (path) "/" (key.0) "/" (key.1) } { (key.1) } }
                td { (key.0) }
                (cells(row))
            }
        });
        html! { (chooser(path, session.query.get("namespace"))) (wide(title, &titles, rows)) }
    })
    .await
}

/// Returns the namespace of the query, if it can be one.
pub(crate) fn namespace(session: &Session) -> Option<&str> {
    session.query.given("namespace").filter(|namespace| is_segment(namespace))
}

/// Returns the page on which a namespace is chosen.
async fn choice<R: Row>(session: &Session, path: &str, wrong: Option<&str>) -> Response {
    let allowed = allowed::<R>(session).await;
    let content = html! {
        (trouble(wrong))
        p { "You may not list the " (R::Kind::plural(&())) " of all namespaces. Choose one:" }
        @match &allowed {
            Ok((names, is_cut)) => {
                ul {
                    @for name in names {
                        li { a href=(address(path, [("namespace", name.as_str())])) { (name) } }
                    }
                }
                @if *is_cut { p { "Only the first " (MOST) " namespaces were asked for: there may be others." } }
                @else if names.is_empty() { p { "There is no namespace in which you may list them." } }
            },
            Err(_) => p { "You may not list namespaces either, so you have to know its name." },
        }
        (chooser(path, ""))
    };
    session.document("Choose a namespace", false, &content)
}

/// Returns the form for a namespace.
fn chooser(path: &str, namespace: &str) -> Markup {
    html! {
        form action=(path) role="search" {
            label for="namespace" { "Namespace" } " "
            input #namespace name="namespace" value=(namespace);
            " " button { "Show" }
        }
    }
}

/// Returns the namespaces whose objects of the kind the caller may list, and whether there are more namespaces than were asked
/// for.
async fn allowed<R: Row>(session: &Session) -> Result<(Vec<String>, bool)> {
    let reader = &session.caller.reader;
    let mut names = Vec::new();
    let path = Namespace::url_path(&(), None);
    let (_, is_cut) = reader
        .list(&path, ListParams::default(), MOST, |object| {
            names.push(Lenient::<PartialObjectMeta>::parse(object).0.name_any());
        })
        .await?;
    let asked: Vec<_> = names.into_iter().map(|name| listable::<R>(reader.clone(), name)).collect();
    let allowed = stream::iter(asked).buffered(AT_ONCE).filter_map(future::ready).collect().await;
    Ok((allowed, is_cut))
}

/// Returns the namespace if the caller may list its objects of the kind.
async fn listable<R: Row>(reader: Reader, namespace: String) -> Option<String> {
    let resource = R::Kind::plural(&());
    let is_allowed = reader.lack("list", &resource, &namespace, "").await.is_none();
    is_allowed.then_some(namespace)
}
