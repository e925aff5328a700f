//! What operators read and ask over HTTP: JSON, metrics, health, a page to look at.
//!
//! The page and the description of the interface are open to all, and say nothing of the region. All
//! else goes by [`Access`](crate::auth::Access). What is asked for is taken off the last snapshot that the controller
//! published: no number of readers slows it.
//!
//! Who may ask from where is not decided here, but at the [border](crate::border), for agents too.

mod answer;
mod metrics;
mod routes;
mod state;
mod view;

pub use metrics::{Metrics, PHASES};
pub use view::{
    AlarmAnswer, CircuitsAnswer, DemandAnswer, EventsAnswer, NamesAnswer, ServerName, StatusAnswer,
    TenantName,
};

use crate::auth::{Tokens, Unknown};
use crate::hub::Hub;
use answer::{Problem, html, script, typed};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use state::Gateway;
use std::sync::Arc;

/// All routes. It has a fallback of its own: add other services to it, not it to others. Call it within
/// a Tokio runtime.
pub fn router(hub: Hub, tokens: Arc<Tokens>) -> Router {
    let gateway = Gateway { metrics: Metrics::watch(&hub), hub, tokens };
    let guarded = Router::new()
        .route("/v1/status", get(routes::status))
        .route("/v1/names", get(routes::names))
        .route("/v1/circuits", get(routes::circuits))
        .route("/v1/demand", get(routes::demand))
        .route("/v1/events", get(routes::events))
        .route("/v1/unblock", post(routes::unblock))
        .route("/v1/audit", post(routes::audit))
        .route("/metrics", get(routes::metrics))
        .route_layer(from_fn_with_state(gateway.clone(), admit));
    Router::new()
        .merge(guarded)
        .route("/healthz", get(routes::healthz))
        .route("/readyz", get(routes::readyz))
        .route("/openapi.json", get(routes::openapi))
        .route("/", get(|| async { html(include_str!("../../web/index.html")) }))
        .route("/page.js", get(|| async { script(include_str!("../../web/page.js")) }))
        .route("/docs", get(|| async { html(include_str!("../../web/docs.html")) }))
        .route("/docs.js", get(|| async { script(include_str!("../../web/docs.js")) }))
        .route(
            "/style.css",
            get(|| async { typed("text/css", include_str!("../../web/style.css")) }),
        )
        .method_not_allowed_fallback(|| async {
            Problem(StatusCode::METHOD_NOT_ALLOWED, "not with this method: see /docs".into())
        })
        .fallback(|| async { Problem(StatusCode::NOT_FOUND, "no such page: see /docs".into()) })
        .layer(DefaultBodyLimit::max(1 << 16))
        .layer(from_fn(harden))
        .with_state(gateway)
}

/// Lets in who may come in, and notes what they may do.
async fn admit(State(gateway): State<Gateway>, mut request: Request, next: Next) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION);
    // What is not text is no token.
    let shown = shown.map(|value| value.to_str().map_err(|_| Unknown::Wrong)).transpose();
    match shown.and_then(|shown| gateway.tokens.access(shown)) {
        Ok(access) => {
            request.extensions_mut().insert(access);
            next.run(request).await
        }
        Err(why) => Problem(StatusCode::UNAUTHORIZED, why.to_string()).into_response(),
    }
}

/// Keeps our pages to themselves.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let policy = "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
