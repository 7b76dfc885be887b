//! The layout of all pages, the headers of all answers, and small building blocks of pages.

use super::{Refusal, Result, now};
use api::State;
use axum::{
    extract::Path,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use spark_operator_client::summary::{self, Tone};

/// The Content-Security-Policy of pages: they load, send to and run only what this server serves, and no inline script.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The colour and the word for an object that cannot be read.
pub(crate) const UNREADABLE: (Tone, &str) = (Tone::Bad, "UNREADABLE");

/// Returns a whole page, with this header if the caller is logged in. A page that `is_live` is refreshed while it is
/// visible.
pub(crate) fn page(header: Option<&Markup>, title: &str, is_live: bool, content: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Spark" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/page.css";
                script type="module" src="/assets/page.js" {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    @if let Some(header) = header { (header) } @else { span { "Spark applications" } }
                }
                main #main tabindex="-1" data-live[is_live] {
                    h1 { (title) }
                    (content)
                }
                footer { p #news role="status" {} }
            }
        }
    };
    Html(page.into_string()).into_response()
}

/// Returns the hidden field with the signature that proves that this page has created a form.
pub(crate) fn hidden(form: &str) -> Markup {
    html! { input type="hidden" name="form" value=(form); }
}

impl IntoResponse for Refusal {
    /// Returns a page with the sentence. It is live, so it recovers by itself when the cause is gone.
    fn into_response(self) -> Response {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => "Not allowed",
            _ => "Not available now",
        };
        let content = html! {
            p.trouble role="alert" { (self.words) }
            p { a href="/" { "Overview" } }
        };
        (self.status, page(None, title, true, &content)).into_response()
    }
}

/// Adds the security headers that an answer does not have yet.
pub(crate) async fn guarded(mut answer: Response) -> Response {
    let common: [(HeaderName, &str); 5] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in common {
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

/// Serves the files that pages load: a style sheet, an icon and two scripts. They are compiled into the binary.
pub(crate) async fn asset(Path(name): Path<String>) -> Result<Response> {
    let (kind, text) = match name.as_str() {
        "page.css" => ("text/css; charset=utf-8", include_str!("../assets/page.css")),
        "page.js" => ("text/javascript; charset=utf-8", include_str!("../assets/page.js")),
        "storage.js" => ("text/javascript; charset=utf-8", include_str!("../assets/storage.js")),
        "icon.svg" => ("image/svg+xml", include_str!("../assets/icon.svg")),
        _ => return Err(Refusal::not_found("There is no such file.")),
    };
    Ok(([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "max-age=300")], text).into_response())
}

/// Returns a state as a word in the colour of its meaning.
pub(crate) fn word((tone, word): (Tone, &str)) -> Markup {
    html! { span class={ "state " (tone.as_str()) } { (word) } }
}

/// Returns the colour and the word for the state of an application; [`UNREADABLE`] for `None`.
pub(crate) fn state(state: Option<State>) -> (Tone, &'static str) {
    state.map_or(UNREADABLE, |state| (Tone::of(state), summary::state_name(state)))
}

/// Returns the age of `time`, or the time until then, with the timestamp as a tooltip.
pub(crate) fn ago(time: Option<Timestamp>) -> Markup {
    html! {
        @if let Some(time) = time {
            time datetime=(maud::display(time)) title=(maud::display(time)) {
                @if time > now() {
                    "in " (duration(now(), time))
                } @else {
                    (duration(time, now())) " ago"
                }
            }
        }
    }
}

/// Returns the time from `from` to `to` as text, such as `3m`.
pub(crate) fn duration(from: Timestamp, to: Timestamp) -> String {
    summary::short(to.duration_since(from).as_secs())
}

/// Returns a table with the cells of each row; nothing if there are no rows.
pub(crate) fn table(caption: &str, titles: &[&str], rows: impl IntoIterator<Item = Markup>) -> Markup {
    let mut rows = rows.into_iter().peekable();
    let headers = html! { @for title in titles { th scope="col" { (title) } } };
    if rows.peek().is_some() { wide(caption, &headers, rows) } else { Markup::default() }
}

/// Returns a table with these headers, which can be scrolled sideways in a narrow window.
pub(crate) fn wide(caption: &str, headers: &Markup, rows: impl IntoIterator<Item = Markup>) -> Markup {
    html! {
        div.wide tabindex="0" role="group" aria-label=(caption) { table {
            caption { (caption) }
            thead { tr { (headers) } }
            tbody { @for cells in rows { tr { (cells) } } }
        } }
    }
}

/// Returns a warning for the top of a list or form, if there is one.
pub(crate) fn trouble(words: Option<&str>) -> Markup {
    html! { @if let Some(words) = words { p.trouble role="alert" { (words) } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;

    #[tokio::test]
    async fn untrusted_text_is_escaped() {
        let hostile = "<script>alert(1)</script>\" onload=\"x";
        let refusal = Refusal::not_found(hostile).into_response();
        let body = to_bytes(guarded(refusal).await.into_body(), usize::MAX).await.unwrap();
        let page = String::from_utf8(body.to_vec()).unwrap();
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&quot;x"), "{page}");
        assert!(!page.contains("<script>alert"), "{page}");
    }

    #[tokio::test]
    async fn every_answer_has_the_security_headers() {
        let answer = guarded(StatusCode::OK.into_response()).await;
        let mut headers: Vec<_> = answer
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        headers.sort();
        let expected = [
            "cache-control: no-store".to_owned(),
            format!("content-security-policy: {POLICY}"),
            "cross-origin-opener-policy: same-origin".to_owned(),
            "referrer-policy: no-referrer".to_owned(),
            "x-content-type-options: nosniff".to_owned(),
        ];
        assert_eq!(headers, expected);
    }
}
