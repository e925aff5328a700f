//! What the gateway answers besides JSON: pages, and problems.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A status code and why.
pub(super) struct Problem(pub StatusCode, pub String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = axum::Json(serde_json::json!({ "error": self.1 }));
        let mut response = (self.0, body).into_response();
        if self.0 == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

pub(super) fn typed(kind: &'static str, body: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

pub(super) fn html(body: &'static str) -> Response {
    typed("text/html; charset=utf-8", body)
}

pub(super) fn script(body: &'static str) -> Response {
    typed("text/javascript; charset=utf-8", body)
}
