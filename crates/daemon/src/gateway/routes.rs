//! One function a route.

use super::answer::{Problem, typed};
use super::state::Gateway;
use super::view::Seen;
use crate::auth::Access;
use crate::exposition;
use crate::hub::Command;
use crate::trail::Asked as AskedFor;
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use lightloom_control::PortId;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::sync::oneshot;

/// A controller that does not take a command within this time is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many events are answered at most, unless fewer are asked for.
const EVENTS: usize = 1024;

type Asked = (State<Gateway>, Extension<Access>);

pub(super) async fn status((State(gateway), Extension(access)): Asked) -> Response {
    Json(Seen { hub: &gateway.hub, access: &access }.status()).into_response()
}

pub(super) async fn names((State(gateway), Extension(access)): Asked) -> Response {
    Json(Seen { hub: &gateway.hub, access: &access }.names_answer()).into_response()
}

pub(super) async fn circuits((State(gateway), Extension(access)): Asked) -> Response {
    Json(Seen { hub: &gateway.hub, access: &access }.circuits()).into_response()
}

pub(super) async fn demand((State(gateway), Extension(access)): Asked) -> Response {
    Json(Seen { hub: &gateway.hub, access: &access }.demand()).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    #[serde(default)]
    since: u64,
    limit: Option<usize>,
}

pub(super) async fn events(
    (State(gateway), Extension(access)): Asked,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(which) = which.map_err(|why| bad(&why.body_text()))?;
    let limit = which.limit.unwrap_or(EVENTS);
    Ok(Json(Seen { hub: &gateway.hub, access: &access }.events(which.since, limit)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unblock {
    #[serde(default)]
    ports: Vec<PortId>,
}

pub(super) async fn unblock(
    (State(gateway), Extension(access)): Asked,
    body: Result<Json<Unblock>, JsonRejection>,
) -> Result<Response, Problem> {
    operator(&access)?;
    let Json(Unblock { ports }) = body.map_err(rejected)?;
    let snapshot = gateway.hub.snapshot.borrow().clone();
    for &(server, port) in &ports {
        let view = snapshot.status.servers.get(usize::from(server));
        if view.is_none_or(|view| usize::from(port) >= view.blocked.len()) {
            let (servers, all) = (&snapshot.status.servers, "server and port, both from 0");
            let (n, degree) = (servers.len(), servers.first().map_or(0, |s| s.blocked.len()));
            let why =
                format!("ports: [{server}, {port}]: must be {all}, of {n} servers x {degree}");
            return Err(bad(&why));
        }
    }
    let asked = if ports.is_empty() { "all".into() } else { json!(ports) };
    let (done, finished) = oneshot::channel();
    tell(&gateway, Command::Unblock { ports, done }, finished).await?;
    let mut answer = Json(json!({ "unblocked": asked })).into_response();
    answer.extensions_mut().insert(AskedFor(asked));
    Ok(answer)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

pub(super) async fn audit(
    (State(gateway), Extension(access)): Asked,
    body: Result<Json<Nothing>, JsonRejection>,
) -> Result<Response, Problem> {
    operator(&access)?;
    let Json(Nothing {}) = body.map_err(rejected)?;
    let (done, finished) = oneshot::channel();
    tell(&gateway, Command::Audit { done }, finished).await?;
    let mut answer = Json(json!({ "audit": "asked for" })).into_response();
    answer.extensions_mut().insert(AskedFor(json!({})));
    Ok(answer)
}

pub(super) async fn metrics(
    (State(gateway), Extension(access)): Asked,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !access.sees_all() {
        let why = "metrics are of the whole region: not for a tenant's token";
        return Err(Problem(StatusCode::FORBIDDEN, why.into()));
    }
    let text = gateway.metrics.text(&gateway.hub);
    let text = text.map_err(|why| Problem(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()))?;
    Ok(exposition::answer(text, &headers))
}

/// The process answers.
pub(super) async fn healthz() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// The controller knows a switch and speaks to agents.
pub(super) async fn readyz(State(gateway): State<Gateway>) -> Response {
    let snapshot = gateway.hub.snapshot.borrow().clone();
    let status = &snapshot.status;
    let known = status.switches.iter().any(|switch| switch.up && switch.read);
    let ready = known && status.phase != "starting";
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(json!({ "status": if ready { "ready" } else { "not ready" } }))).into_response()
}

pub(super) async fn openapi() -> Response {
    typed("application/json", include_str!("../../web/openapi.json"))
}

async fn tell(
    gateway: &Gateway,
    command: Command,
    finished: oneshot::Receiver<()>,
) -> Result<(), Problem> {
    let asked = async {
        gateway.hub.commands.send(command).await.ok()?;
        finished.await.ok()
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Some(())) => Ok(()),
        _ => Err(Problem(StatusCode::SERVICE_UNAVAILABLE, "the controller does not answer".into())),
    }
}

fn operator(access: &Access) -> Result<(), Problem> {
    let why = "an operator's token is needed";
    access.operates().then_some(()).ok_or_else(|| Problem(StatusCode::FORBIDDEN, why.into()))
}

fn bad(why: &str) -> Problem {
    Problem(StatusCode::BAD_REQUEST, why.to_string())
}

fn rejected(why: JsonRejection) -> Problem {
    Problem(why.status(), why.body_text())
}
