//! Suspends, resumes, reruns, triggers and deletes objects, by forms and with the caller's rights.

use super::{Named, Query, Refusal, Result, Session, now, reads};
use api::{Identity, names::annotation};
use axum::{
    body::Bytes,
    extract::Path,
    http::{StatusCode, Uri},
    response::{IntoResponse, Redirect, Response},
};
use futures::future::join;
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::Request,
};
use maud::{Markup, html};
use serde_json::{Value, json};

api::words! {
    /// The action of a button, with its value in the form.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Action {
        Suspend = "suspend",
        Resume = "resume",
        Rerun = "rerun",
        Trigger = "trigger",
        Delete = "delete",
    }
}

impl Action {
    /// Returns the title of the button, and the same patch of the object as `sparkctl` sends. `None` if the object is
    /// deleted. The operator acts once for each new value of an annotation.
    fn title_and_patch(self) -> (&'static str, Option<Value>) {
        let asked = |annotation: &str| json!({"metadata": {"annotations": {annotation: now().to_string()}}});
        match self {
            Self::Suspend => ("Suspend", Some(json!({"spec": {"suspend": true}}))),
            Self::Resume => ("Resume", Some(json!({"spec": {"suspend": false}}))),
            Self::Rerun => ("Run again", Some(asked(annotation::RERUN))),
            Self::Trigger => ("Run now", Some(asked(annotation::TRIGGER))),
            Self::Delete => ("Delete", None),
        }
    }
}

/// Returns the buttons for `object`: suspend, or resume if it `is_suspended`; the `other` action; and delete, which
/// applies only to the object with this uid. A button without the caller's right is disabled and says which right is
/// missing.
pub(crate) async fn buttons<K: Resource<DynamicType = ()>>(
    session: &Session,
    object: &K,
    is_suspended: bool,
    other: Option<Action>,
) -> Markup {
    if !session.page.settings.allows_actions {
        return Markup::default();
    }
    let (reader, resource) = (&session.caller.reader, K::plural(&()));
    let (namespace, name) = (object.own_namespace(), object.name_any());
    let lack = |verb| reader.lack(verb, &resource, namespace, &name);
    let (patch, delete) = join(lack("patch"), lack("delete")).await;
    let pause = if is_suspended { Action::Resume } else { Action::Suspend };
    html! {
        form method="post" {
            (session.hidden())
            @for action in [Some(pause), other].into_iter().flatten() { (button(action, patch.as_deref())) }
        }
        details #delete {
            summary { "Delete" }
            form method="post" {
                (session.hidden())
                input type="hidden" name="uid" value=(object.own_uid());
                span { "Delete " strong { (name) } " and all that belongs to it? " }
                (button(Action::Delete, delete.as_deref()))
            }
        }
    }
}

fn button(action: Action, missing: Option<&str>) -> Markup {
    html! {
        button name="action" value=(action.as_str()) disabled[missing.is_some()] { (action.title_and_patch().0) }
        @if let Some(missing) = missing { " " small { (missing) } }
    }
}

/// Carries out the action of a form on the page of an object of the kind `K`.
pub(crate) async fn act<K: Resource<DynamicType = ()>>(
    session: Session,
    uri: Uri,
    Path((namespace, name)): Named,
    body: Bytes,
) -> Result<Response> {
    let form = Query::of(&body);
    session.check(&form)?;
    session.page.check_actions()?;
    reads::named(&namespace, &name)?;
    let action = Action::ALL.into_iter().find(|action| action.as_str() == form.get("action"));
    let action = action.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "There is no such action."))?;
    let objects = Request::new(K::url_path(&(), Some(&namespace)));
    let request = match action.title_and_patch().1 {
        Some(patch) => objects.patch(&name, &PatchParams::default(), &Patch::Merge(patch)),
        None => {
            // Another object may have got the name since the page was shown.
            let uid = form.given("uid").map(str::to_owned);
            let only = Preconditions { uid, resource_version: None };
            objects.delete(&name, &DeleteParams::default().preconditions(only))
        }
    };
    session.caller.reader.send(request.map_err(kube::Error::BuildRequest)?).await?;
    // After a deletion, the browser is redirected to the list of the kind: the path without namespace and name.
    let list = uri.path().rsplitn(3, '/').last().filter(|_| action == Action::Delete);
    Ok(Redirect::to(list.unwrap_or(uri.path())).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_without_the_right_is_disabled_and_says_why() {
        assert_eq!(
            button(Action::Delete, Some("You lack it.")).into_string(),
            r#"<button name="action" value="delete" disabled>Delete</button> <small>You lack it.</small>"#
        );
        let free = button(Action::Rerun, None).into_string();
        assert_eq!(free, r#"<button name="action" value="rerun">Run again</button>"#);
    }

    #[test]
    fn an_action_is_the_same_patch_as_that_of_sparkctl() {
        assert_eq!(Action::Suspend.title_and_patch().1, Some(json!({"spec": {"suspend": true}})));
        assert!(
            Action::Rerun.title_and_patch().1.unwrap()["metadata"]["annotations"][annotation::RERUN]
                .is_string()
        );
        assert_eq!(Action::Delete.title_and_patch().1, None);
    }
}
