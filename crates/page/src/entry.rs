//! Authenticates callers: by the URL that `sparkctl page` prints, by the header of an authenticating proxy, or by a
//! login form for a token.
//!
//! A browser does not send a cookie with SameSite=Strict if the caller follows a link from another site. The answer is
//! then a page that leads to the same URL again, this time with the cookie.

use super::{
    Caller, CallerId, Credentials, Page, Query, Refusal, Result, Share, Shares, address, bearer, hidden, now,
    page, trouble, with_header,
};
use axum::{
    body::Bytes,
    extract::{FromRequestParts, Path, RawQuery, State},
    http::{
        HeaderMap, HeaderName, Method, StatusCode,
        header::{AUTHORIZATION, COOKIE, SET_COOKIE},
        request::Parts,
    },
    response::{IntoResponse, Redirect, Response},
};
use jiff::SignedDuration;
use kube::Client;
use maud::{Markup, html};
use std::sync::Arc;

/// The lifetime of a cookie.
const LASTS: SignedDuration = SignedDuration::from_hours(12);
/// The maximum length of a token in a cookie, in bytes: browsers accept cookies of up to 4 KiB, and encryption and
/// encoding add a third.
const LONGEST_COOKIE: usize = 2_900;
/// The content of the local user's cookie, and the text that is signed for the URL by which the local user logs in.
const OWN: &str = "own";
/// The maximum number of requests in progress: an application with its pods and events may take several megabytes of
/// memory until its page is complete, and a party may send any number of requests.
static AT_ONCE: Shares = Shares::new(32);
/// The request headers in which a browser says which site has caused the request, and whether it is a navigation.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";

/// A request of an authenticated caller.
pub(crate) struct Session {
    pub page: Arc<Page>,
    pub caller: Arc<Caller>,
    pub can_log_out: bool,
    /// The query of the URL.
    pub query: Query,
    _place: Share<'static>,
}

/// The pages in the navigation bar.
const PLACES: [(&str, &str); 4] = [
    ("/", "Overview"),
    ("/applications", "Applications"),
    ("/schedules", "Schedules"),
    ("/connects", "Spark Connect"),
];

impl Session {
    /// Returns a whole page for an authenticated caller. A page that `is_live` is refreshed while it is visible.
    pub(crate) fn document(&self, title: &str, is_live: bool, content: &Markup) -> Response {
        let header = html! {
            nav aria-label="Pages" {
                @for (path, name) in PLACES {
                    a href=(path) aria-current=[(name == title).then_some("page")] { (name) }
                }
            }
            span { (self.caller.name) }
            @if self.can_log_out {
                form method="post" action="/logout" { (self.hidden()) button { "Log out" } }
            }
        };
        page(Some(&header), title, is_live, content)
    }

    /// Returns the hidden field with the signature that proves that this page has created a form for this caller.
    pub(crate) fn hidden(&self) -> Markup {
        hidden(&self.page.secrets.form(&self.caller.id))
    }

    /// Checks that this page has created a form for this caller.
    ///
    /// # Errors
    ///
    /// If it has not, or if the caller has logged in with another token since.
    pub(crate) fn check(&self, form: &Query) -> Result<()> {
        if self.page.secrets.is_form(&self.caller.id, form.get("form")) {
            return Ok(());
        }
        let words = "This form has expired or belongs to another session. Nothing was changed. Go back, reload the page and submit again.";
        Err(Refusal::forbidden(words))
    }
}

impl FromRequestParts<Arc<Page>> for Session {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, page: &Arc<Page>) -> Result<Self, Response> {
        let headers = &parts.headers;
        if is_foreign(&parts.method, headers) {
            let words = "A page of another site has sent this request. Nothing was changed.";
            return Err(Refusal::forbidden(words).into_response());
        }
        let Some((id, client)) = page.credentials_of(headers) else {
            return Err(outside(page, parts));
        };
        let is_given = token_of(headers).is_some();
        let caller = page.callers.caller(id, client).await;
        let caller = caller.map_err(|refusal| match refusal.status {
            StatusCode::UNAUTHORIZED if !is_given && matches!(page.credentials, Credentials::Tokens(_)) => {
                outside(page, parts)
            }
            // The login form does not help if the token of the proxy or of the kubeconfig has expired.
            _ => refusal.into_response(),
        })?;
        let place = AT_ONCE.one(&caller.reader.party).ok_or_else(|| {
            let words = "You have too many requests at once. This page retries by itself.";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, words).into_response()
        })?;
        let can_log_out = headers.contains_key(COOKIE) && !is_given;
        let query = Query::of(parts.uri.query().unwrap_or_default().as_bytes());
        Ok(Self { page: Arc::clone(page), caller, can_log_out, query, _place: place })
    }
}

impl Page {
    /// Returns the caller's id, and a function that builds the caller's client. `None` if the caller is not
    /// authenticated.
    fn credentials_of(&self, headers: &HeaderMap) -> Option<(CallerId, impl FnOnce() -> Client + use<>)> {
        let cookie = || {
            let mut named = cookies(headers).filter(|(name, _)| *name == self.cookie);
            self.secrets.open(named.next()?.1, now())
        };
        let (client, header, id) = match &self.credentials {
            Credentials::Own(client) => {
                (client, None, self.secrets.caller(&cookie().filter(|content| content == OWN)?))
            }
            Credentials::Tokens(client) => {
                let token = token_of(headers).map(str::to_owned).or_else(cookie)?;
                (client, Some(bearer(&token)?), self.secrets.caller(&token))
            }
        };
        let client = client.clone();
        Some((id, move || header.map_or_else(|| client.clone(), |header| with_header(&client, header))))
    }

    /// Returns the header that sets the cookie to `content`, or deletes it.
    fn set_cookie(&self, content: Option<&str>) -> (HeaderName, String) {
        let secure = if matches!(self.credentials, Credentials::Own(_)) { "" } else { "; Secure" };
        let value = content.map(|content| self.secrets.seal(content, now() + LASTS)).unwrap_or_default();
        let age = if content.is_some() { LASTS.as_secs() } else { 0 };
        let cookie = &self.cookie;
        let text = format!("{cookie}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
        (SET_COOKIE, text)
    }

    /// Checks that the settings of the page allow actions.
    ///
    /// # Errors
    ///
    /// If they do not.
    pub(crate) fn check_actions(&self) -> Result<()> {
        let words = "This page is read-only: the admin has not allowed actions (--allow-actions).";
        if self.settings.allows_actions { Ok(()) } else { Err(Refusal::forbidden(words)) }
    }

    /// Returns the path by which the local user logs in.
    pub fn entrance(&self) -> String {
        format!("/enter/{}", self.secrets.form(OWN.as_bytes()))
    }
}

/// Returns the bearer token that an authenticating proxy, or a program, has sent.
fn token_of(headers: &HeaderMap) -> Option<&str> {
    header(headers, AUTHORIZATION.as_str())?.strip_prefix("Bearer ")
}

/// Returns the names and values of all cookies.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let all = headers.get_all(COOKIE).into_iter().filter_map(|header| header.to_str().ok());
    all.flat_map(|header| header.split(';')).filter_map(|cookie| cookie.trim().split_once('='))
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a page of another site has sent the request, except by a link.
fn is_foreign(method: &Method, headers: &HeaderMap) -> bool {
    let is_ours = matches!(header(headers, FETCH_SITE), None | Some("same-origin" | "none"));
    !is_ours && (method != Method::GET || header(headers, FETCH_MODE) != Some("navigate"))
}

/// Whether a page of this server loads the answer as a subresource: a script, a style or a picture. Requests of a
/// sandboxed frame are not: the document of the frame is a navigation, and its subresources are cross-site because it
/// has no origin.
pub(crate) fn is_part(headers: &HeaderMap) -> bool {
    header(headers, FETCH_SITE) == Some("same-origin") && header(headers, FETCH_MODE) != Some("navigate")
}

/// Returns the answer to a caller who is not authenticated.
fn outside(state: &Page, parts: &Parts) -> Response {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    if !matches!(header(&parts.headers, FETCH_SITE), None | Some("same-origin" | "none")) {
        return led(local(path));
    }
    match state.credentials {
        Credentials::Own(_) => {
            let words = "Open the URL that sparkctl page has printed: it logs you in.";
            Refusal::new(StatusCode::UNAUTHORIZED, words).into_response()
        }
        Credentials::Tokens(_) => {
            let to = if parts.method == Method::GET { path } else { "/" };
            Redirect::to(&address("/login", [("to", to)])).into_response()
        }
    }
}

/// Returns a page that loads the URL `to` by itself. After a redirect, the request would still count as cross-site, and
/// the browser would not send the cookie.
fn led(to: &str) -> Response {
    let content =
        html! { p { a href=(to) { "Enter" } } meta http-equiv="refresh" content={ "0;url=" (to) }; };
    page(None, "Spark", false, &content)
}

/// Logs the local user in.
pub(crate) async fn enter(State(state): State<Arc<Page>>, Path(key): Path<String>) -> Response {
    if matches!(state.credentials, Credentials::Own(_)) && state.secrets.is_form(OWN.as_bytes(), &key) {
        return ([state.set_cookie(Some(OWN))], led("/")).into_response();
    }
    Refusal::not_found("This URL belongs to another sparkctl page, which may have ended.").into_response()
}

/// Shows the login form for a token.
pub(crate) async fn login(State(state): State<Arc<Page>>, RawQuery(query): RawQuery) -> Response {
    let query = Query::of(query.unwrap_or_default().as_bytes());
    form(&state, query.get("to"), None)
}

fn form(state: &Page, to: &str, wrong: Option<&str>) -> Response {
    if matches!(state.credentials, Credentials::Own(_)) {
        return Redirect::to("/").into_response();
    }
    let content = html! {
        (trouble(wrong))
        form.login method="post" action="/login" {
            input type="hidden" name="to" value=(to);
            p {
                label for="token" { "Your token for the cluster" } br;
                input #token type="password" name="token" autocomplete="off" required autofocus;
            }
            p { button { "Log in" } }
        }
        p {
            "The page has no rights of its own: you see and do what this token allows. For a service account: "
            code { "kubectl create token NAME" } "."
        }
    };
    page(None, "Log in", false, &content)
}

/// Logs the caller in with the token of the form, if the API server accepts it.
pub(crate) async fn log_in(State(state): State<Arc<Page>>, headers: HeaderMap, body: Bytes) -> Response {
    let query = Query::of(&body);
    let (token, to) = (query.get("token").trim(), query.get("to"));
    let Credentials::Tokens(client) = &state.credentials else { return Redirect::to("/").into_response() };
    if is_foreign(&Method::POST, &headers) {
        return form(&state, to, Some("A page of another site has sent a token. Type in your own."));
    }
    let Some(value) = bearer(token).filter(|_| !token.is_empty() && token.len() <= LONGEST_COOKIE) else {
        let words = format!(
            "That is no token, or it has more than the {LONGEST_COOKIE} bytes that a cookie can hold."
        );
        return form(&state, to, Some(&words));
    };
    match state.callers.caller(state.secrets.caller(token), || with_header(client, value)).await {
        Ok(_) => ([state.set_cookie(Some(token))], Redirect::to(local(to))).into_response(),
        Err(refusal) => form(&state, to, Some(&refusal.words)),
    }
}

/// Returns the URL if it is on this server, else `/`.
fn local(to: &str) -> &str {
    let is_odd = |letter: char| letter == '\\' || letter.is_control();
    let is_local = to.starts_with('/') && !to.starts_with("//") && !to.contains(is_odd);
    if is_local { to } else { "/" }
}

/// Logs the caller out: deletes the cookie, and drops the caller's lists and windows.
pub(crate) async fn log_out(session: Session, body: Bytes) -> Result<Response> {
    session.check(&Query::of(&body))?;
    session.page.callers.forget(&session.caller.id);
    session.page.windows.close(&session.caller.id);
    Ok(([session.page.set_cookie(None)], Redirect::to("/")).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_site_requests_are_distinguished_from_links() {
        let is_foreign = |method: Method, site: Option<&str>, mode: &str| {
            let mut headers = HeaderMap::new();
            if let Some(site) = site {
                headers.insert(FETCH_SITE, site.parse().unwrap());
                headers.insert(FETCH_MODE, mode.parse().unwrap());
            }
            is_foreign(&method, &headers)
        };
        assert!(!is_foreign(Method::GET, None, ""));
        assert!(!is_foreign(Method::POST, Some("same-origin"), "navigate"));
        assert!(!is_foreign(Method::GET, Some("cross-site"), "navigate"));
        assert!(is_foreign(Method::GET, Some("same-site"), "no-cors"));
        assert!(is_foreign(Method::POST, Some("cross-site"), "navigate"));
    }

    #[test]
    fn subresources_of_a_page_are_distinguished_from_requests_of_a_frame() {
        let is_part = |site: &str, mode: &str| {
            let headers = [(FETCH_SITE, site), (FETCH_MODE, mode)];
            let headers =
                headers.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            is_part(&headers.into_iter().collect())
        };
        assert!(is_part("same-origin", "no-cors") && is_part("same-origin", "cors"));
        assert!(!is_part("same-origin", "navigate"), "the frame");
        assert!(!is_part("cross-site", "no-cors") && !is_part("none", "navigate"));
    }

    #[test]
    fn a_login_redirects_to_this_server_only() {
        assert_eq!(local("/applications?state=FAILED"), "/applications?state=FAILED");
        for odd in
            ["", "//evil", "https://evil", "/\\evil", "/\t/evil", "/\r\nset-cookie: a=b", "/\0", "/\u{7f}"]
        {
            assert_eq!(local(odd), "/", "{odd}");
        }
    }
}
