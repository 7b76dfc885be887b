//! Shows the list of a kind that the caller may see: that of all namespaces, else that of the namespace in the query. A
//! caller who may see neither can choose among the namespaces in which the list is allowed.

use super::{Key, List, Reader, Result, Row, Session, address, trouble, wide};
use api::{Lenient, is_segment};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, future, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt, api::ListParams, core::PartialObjectMeta};
use maud::{Markup, html};
use std::sync::Arc;

/// The maximum number of namespaces for which the caller's right is checked, and of such requests in flight.
const MOST: usize = 200;
const AT_ONCE: usize = 8;
/// The maximum number of rows of a list that is not divided into pages. For other rows, the user chooses a namespace.
const ROWS: usize = 500;

/// Returns the list of a kind that the caller may see: that of all namespaces, else that of `namespace`.
///
/// # Errors
///
/// If the caller may see neither, or if the list cannot be read in time.
pub(crate) async fn list<R: Row>(session: &Session, namespace: Option<&str>) -> Result<Arc<List<R>>> {
    // A caller who has a list of one namespace was not allowed to see that of all, so that one is not requested again.
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

/// Shows the page `title` with the `content` for the rows of the caller's list, without other namespaces than that of
/// the query, if there is one. A caller who may see no list gets the page on which a namespace is chosen.
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

/// Shows a list as a table: name and namespace of each object, then the `cells` of its row.
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

/// Returns the namespace of the query, if it is a valid name.
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
                @if *is_cut { p { "Only the first " (MOST) " namespaces were checked: there may be others." } }
                @else if names.is_empty() { p { "There is no namespace in which you may list them." } }
            },
            Err(_) => p { "You may not list namespaces either: type the name of one." },
        }
        (chooser(path, ""))
    };
    session.document("Choose a namespace", false, &content)
}

/// Returns the form in which a namespace is typed.
fn chooser(path: &str, namespace: &str) -> Markup {
    html! {
        form action=(path) role="search" {
            label for="namespace" { "Namespace" } " "
            input #namespace name="namespace" value=(namespace);
            " " button { "Show" }
        }
    }
}

/// Returns the namespaces in which the caller may list the kind, and whether there are more namespaces than were
/// checked.
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

/// Returns the namespace if the caller may list the kind in it.
async fn listable<R: Row>(reader: Reader, namespace: String) -> Option<String> {
    let resource = R::Kind::plural(&());
    let is_allowed = reader.lack("list", &resource, &namespace, "").await.is_none();
    is_allowed.then_some(namespace)
}
