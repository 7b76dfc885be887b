//! The files that pages load: a style sheet, an icon and two scripts, all of them in this binary.

use super::refusal::Refusal;
use axum::{
    extract::Path,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::{IntoResponse, Response},
};

pub(crate) async fn show(Path(name): Path<String>) -> Result<Response, Refusal> {
    let (kind, text) = match name.as_str() {
        "page.css" => ("text/css; charset=utf-8", include_str!("../assets/page.css")),
        "page.js" => ("text/javascript; charset=utf-8", include_str!("../assets/page.js")),
        "storage.js" => ("text/javascript; charset=utf-8", include_str!("../assets/storage.js")),
        "icon.svg" => ("image/svg+xml", include_str!("../assets/icon.svg")),
        _ => return Err(Refusal::not_found("There is no such file.")),
    };
    Ok(([(CONTENT_TYPE, kind), (CACHE_CONTROL, "max-age=300")], text).into_response())
}
