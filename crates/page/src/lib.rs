//! The page: what runs, what ran, why it failed, and Spark's own UI behind one door.
//!
//! The page has no rights. All that it shows and does, it does with the caller's own credentials, so RBAC is its only
//! policy. It is served in two ways: by `sparkctl page` for the user of one machine, and by `spark-operator page` for
//! everybody who has a token of the cluster.
//!
//! ```text
//!  browser ──► entry: who is it? ──► callers: a client and lists for each caller ──► API server
//!     ▲                                     │
//!     └── layout ◄── overview, applications, application, logs, schedules, …
//!
//!  a frame ──► windows: which driver, for whom? ──► port-forward ──► Spark's UI
//! ```
//!
//! Pages are complete without JavaScript. With it, a page that is open asks for a newer version of itself (`X-After`), and
//! the answer comes when there is one.

mod actions;
mod application;
mod applications;
mod assets;
mod callers;
mod entry;
mod found;
mod layout;
mod lists;
mod logs;
mod overview;
mod query;
mod reads;
mod refusal;
mod rights;
mod rows;
mod schedule;
mod schedules;
mod scope;
mod secrets;
mod spark_ui;
mod timeline;
mod windows;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware::map_response,
    routing::{any, get, post},
};
use callers::Callers;
use jiff::Timestamp;
use kube::Client;
use refusal::Refusal;
use secrets::Secrets;
use std::sync::Arc;
use windows::Windows;

/// With whose credentials requests are made.
#[derive(Clone)]
pub enum Credentials {
    /// With those of this client, for the user of this machine, who comes in by [`Page::entrance`].
    Own(Client),
    /// With the token of each caller. The client knows where the API server is, and has no credentials.
    Tokens(Client),
}

/// A page, with the callers that it knows.
pub struct Page {
    credentials: Credentials,
    callers: Callers,
    secrets: Secrets,
    windows: Windows,
    allows_actions: bool,
}

impl Page {
    /// Returns a page that knows nobody yet. Without `allows_actions` it only shows.
    #[must_use]
    pub fn new(credentials: Credentials, allows_actions: bool) -> Self {
        Self {
            credentials,
            callers: Callers::new(),
            secrets: Secrets::new(),
            windows: Windows::new(),
            allows_actions,
        }
    }

    /// Returns the routes of the page.
    #[must_use]
    pub fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/", get(overview::show))
            .route("/applications", get(applications::show))
            .route("/applications/{namespace}/{name}", get(application::show).post(actions::application))
            .route("/logs/{namespace}/{pod}", get(logs::show))
            .route("/logs/{namespace}/{pod}/tail", get(logs::tail))
            .route("/schedules", get(schedules::show))
            .route("/schedules/{namespace}/{name}", get(schedule::show).post(actions::schedule))
            .route("/ui/{namespace}/{name}/", get(spark_ui::show))
            .route("/spark/{key}/", any(spark_ui::root))
            .route("/spark/{key}/{*path}", any(spark_ui::window))
            .route("/enter/{key}", get(entry::enter))
            .route("/login", get(entry::login).post(entry::log_in))
            .route("/logout", post(entry::log_out))
            .route("/assets/{name}", get(assets::show))
            .route("/healthz", get(async || "ok\n"))
            .fallback(async || Refusal::not_found("There is no such page."))
            .layer(DefaultBodyLimit::max(query::LONGEST))
            .layer(map_response(layout::guarded))
            .with_state(self)
    }
}

#[expect(clippy::disallowed_methods, reason = "ages are told from the moment at which somebody asks")]
fn now() -> Timestamp {
    Timestamp::now()
}
