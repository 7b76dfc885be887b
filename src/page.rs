//! `spark-operator page`: serves the page to everybody who has a token of the cluster. The process has no rights.

use crate::{listen::listen, process, settings::PageSettings};
use ::page::{Credentials, Page, Settings};
use anyhow::Context;
use axum::http::{HeaderValue, Uri, header::USER_AGENT};
use kube::{Client, Config};
use std::{sync::Arc, time::Duration};
use webhook::{Closing, Limits};

/// A browser keeps six connections, and an authenticating proxy a few hundred.
const LIMITS: Limits = Limits { connections: 1024, head: Some(Duration::from_secs(60)) };

/// Serves the page until a signal arrives.
///
/// # Errors
///
/// When a setting cannot be used, or the port cannot be listened on.
pub async fn run(settings: &PageSettings) -> anyhow::Result<()> {
    let stop = process::begin(&settings.log, &[])?;
    // The pod's own service account is not used, even where there is one.
    let mut config = Config::new(settings.api_server.parse::<Uri>().context("--api-server is no URL")?);
    // The client rereads the file periodically. Without the empty list, it would need the system's CA certificates, and
    // the image has none.
    (config.root_cert, config.root_cert_file) =
        (Some(Vec::new()), Some(settings.certificate_authority.clone()));
    // What precedes the slash is the manager of the fields that somebody changes by a button, in `metadata.managedFields`.
    let agent = HeaderValue::from_static(concat!("spark-operator-page/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    let client = Client::try_from(config).with_context(|| {
        format!("--certificate-authority: {} cannot be used", settings.certificate_authority.display())
    })?;
    let shown = Settings {
        allows_actions: settings.allow_actions,
        history_server: settings.history_server.as_ref().map(|url| url.trim_end_matches('/').to_owned()),
        dashboard: settings.dashboard.clone(),
        render: None,
    };
    let page = Arc::new(Page::new(Credentials::Tokens(client), shown));
    let listener = listen("--bind-address", settings.bind_address)?;
    webhook::serve_routes(listener, None, page.router(), LIMITS, Closing::default(), stop).await?;
    Ok(())
}
