//! Lets callers in: by the address that `sparkctl page` prints, by the header of an authenticating proxy, or by a form for
//! a token.
//!
//! A browser sends a cookie with SameSite=Strict only if the page itself has led to the address. Whoever follows a link
//! from elsewhere gets a page that leads to the same address again.

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

/// The life of a cookie.
const LASTS: SignedDuration = SignedDuration::from_hours(12);
/// The longest token, in bytes: a browser keeps cookies of 4 KiB, and encrypted it is a third longer.
const LONGEST_COOKIE: usize = 2_900;
/// The content of the cookie of the user of this machine, for which the address to enter by is signed, too.
const OWN: &str = "own";
/// The requests that are answered at once: an application and what belongs to it may have several megabytes in memory until its
/// page is made, and a party may send any number of requests.
static AT_ONCE: Shares = Shares::new(32);
/// The headers by which a browser says from where a request comes, and whether a link has led to it.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";

/// A request of somebody who was let in.
pub(crate) struct Session {
    pub page: Arc<Page>,
    pub caller: Arc<Caller>,
    pub can_log_out: bool,
    /// The query of the address.
    pub query: Query,
    _place: Share<'static>,
}

/// The pages that each page leads to.
const PLACES: [(&str, &str); 4] = [
    ("/", "Overview"),
    ("/applications", "Applications"),
    ("/schedules", "Schedules"),
    ("/connects", "Spark Connect"),
];

impl Session {
    /// Returns a whole page for whoever was let in. One that is live is made anew as long as it is open.
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

    /// Returns the field by which a form proves that it is ours and of this caller.
    pub(crate) fn hidden(&self) -> Markup {
        hidden(&self.page.secrets.form(&self.caller.id))
    }

    /// Checks that a form was ours and of this caller.
    ///
    /// # Errors
    ///
    /// If it was not, or if the caller has another token by now.
    pub(crate) fn check(&self, form: &Query) -> Result<()> {
        if self.page.secrets.is_form(&self.caller.id, form.get("form")) {
            return Ok(());
        }
        let words = "This form is not of this session, so nothing was done: go back, load the page again and repeat it.";
        Err(Refusal::forbidden(words))
    }
}

impl FromRequestParts<Arc<Page>> for Session {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, page: &Arc<Page>) -> Result<Self, Response> {
        let headers = &parts.headers;
        if is_foreign(&parts.method, headers) {
            let words = "Another page has sent this request, so nothing was done.";
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
            // A form for a token is no help if that of the proxy or of the kubeconfig has expired.
            _ => refusal.into_response(),
        })?;
        let place = AT_ONCE.one(&caller.reader.party).ok_or_else(|| {
            let words = "You ask for too much at once. This page asks again.";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, words).into_response()
        })?;
        let can_log_out = headers.contains_key(COOKIE) && !is_given;
        let query = Query::of(parts.uri.query().unwrap_or_default().as_bytes());
        Ok(Self { page: Arc::clone(page), caller, can_log_out, query, _place: place })
    }
}

impl Page {
    /// Returns who the caller is, and what makes the caller's client; none of somebody who has to come in first.
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

    /// Returns the header that gives the browser a cookie with `content`, or takes it away.
    fn set_cookie(&self, content: Option<&str>) -> (HeaderName, String) {
        let secure = if matches!(self.credentials, Credentials::Own(_)) { "" } else { "; Secure" };
        let value = content.map(|content| self.secrets.seal(content, now() + LASTS)).unwrap_or_default();
        let age = if content.is_some() { LASTS.as_secs() } else { 0 };
        let cookie = &self.cookie;
        let text = format!("{cookie}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
        (SET_COOKIE, text)
    }

    /// Checks that the admin, or the user of this machine, allows actions.
    ///
    /// # Errors
    ///
    /// If not.
    pub(crate) fn check_actions(&self) -> Result<()> {
        let words = "This page only shows: the admin has not allowed actions (--allow-actions).";
        if self.settings.allows_actions { Ok(()) } else { Err(Refusal::forbidden(words)) }
    }

    /// Returns the path by which the user of this machine comes in.
    pub fn entrance(&self) -> String {
        format!("/enter/{}", self.secrets.form(OWN.as_bytes()))
    }
}

/// Returns the token that an authenticating proxy, or a program, has sent.
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

/// Whether the page of another site has sent the request, other than by a link.
fn is_foreign(method: &Method, headers: &HeaderMap) -> bool {
    let is_ours = matches!(header(headers, FETCH_SITE), None | Some("same-origin" | "none"));
    !is_ours && (method != Method::GET || header(headers, FETCH_MODE) != Some("navigate"))
}

/// Whether a page of this server loads the answer as a part of itself: a script, a style or a picture. What a document
/// without an origin loads comes from another site for the browser, and what a frame shows was navigated to.
pub(crate) fn is_part(headers: &HeaderMap) -> bool {
    header(headers, FETCH_SITE) == Some("same-origin") && header(headers, FETCH_MODE) != Some("navigate")
}

/// Returns the answer to somebody who has to come in first.
fn outside(state: &Page, parts: &Parts) -> Response {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    if !matches!(header(&parts.headers, FETCH_SITE), None | Some("same-origin" | "none")) {
        return led(local(path));
    }
    match state.credentials {
        Credentials::Own(_) => {
            let words = "Open the address that sparkctl page has printed: it lets you in.";
            Refusal::new(StatusCode::UNAUTHORIZED, words).into_response()
        }
        Credentials::Tokens(_) => {
            let to = if parts.method == Method::GET { path } else { "/" };
            Redirect::to(&address("/login", [("to", to)])).into_response()
        }
    }
}

/// Returns a page that leads to another one. A redirect would be part of the navigation from elsewhere, with which the browser sends
/// no cookie of ours.
fn led(to: &str) -> Response {
    let content =
        html! { p { a href=(to) { "Enter" } } meta http-equiv="refresh" content={ "0;url=" (to) }; };
    page(None, "Spark", false, &content)
}

/// Lets the user of this machine in.
pub(crate) async fn enter(State(state): State<Arc<Page>>, Path(key): Path<String>) -> Response {
    if matches!(state.credentials, Credentials::Own(_)) && state.secrets.is_form(OWN.as_bytes(), &key) {
        return ([state.set_cookie(Some(OWN))], led("/")).into_response();
    }
    Refusal::not_found("This address is of another sparkctl page, which has ended perhaps.").into_response()
}

/// Shows the form for a token.
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

/// Takes the token of the form, if the API server takes it.
pub(crate) async fn log_in(State(state): State<Arc<Page>>, headers: HeaderMap, body: Bytes) -> Response {
    let query = Query::of(&body);
    let (token, to) = (query.get("token").trim(), query.get("to"));
    let Credentials::Tokens(client) = &state.credentials else { return Redirect::to("/").into_response() };
    if is_foreign(&Method::POST, &headers) {
        return form(&state, to, Some("Another page has sent a token. Type in your own."));
    }
    let Some(value) = bearer(token).filter(|_| !token.is_empty() && token.len() <= LONGEST_COOKIE) else {
        let words = format!(
            "That is no token, or it has more than {LONGEST_COOKIE} bytes and no cookie can keep it."
        );
        return form(&state, to, Some(&words));
    };
    match state.callers.caller(state.secrets.caller(token), || with_header(client, value)).await {
        Ok(_) => ([state.set_cookie(Some(token))], Redirect::to(local(to))).into_response(),
        Err(refusal) => form(&state, to, Some(&refusal.words)),
    }
}

/// Returns the address if it is on this server.
fn local(to: &str) -> &str {
    let is_odd = |letter: char| letter == '\\' || letter.is_control();
    let is_local = to.starts_with('/') && !to.starts_with("//") && !to.contains(is_odd);
    if is_local { to } else { "/" }
}

/// Forgets the caller's cookie, lists and windows.
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
    fn requests_of_other_pages_are_told_from_links() {
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
    fn what_a_page_loads_is_told_from_what_a_frame_shows_and_loads() {
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
    fn a_login_leads_to_this_server_only() {
        assert_eq!(local("/applications?state=FAILED"), "/applications?state=FAILED");
        for odd in
            ["", "//evil", "https://evil", "/\\evil", "/\t/evil", "/\r\nset-cookie: a=b", "/\0", "/\u{7f}"]
        {
            assert_eq!(local(odd), "/", "{odd}");
        }
    }
}
