//! What a request must be before anything reads it: one check for agents' calls and for readers' requests.
//!
//! Modelled: a page of another site that is open in a browser on this machine. It can send to loopback whatever
//! a form or a `fetch` can send, and it can make a name of its own mean 127.0.0.1. So a request that comes from a
//! page (`Origin`, `Sec-Fetch-Site`) must come from a page of ours; where the token is the controller's own, the host
//! must be an address; and a call of an agent must be gRPC over HTTP/2, which no browser speaks.
//! Ignored: other programs on this machine. Tokens keep them out.
//! Checked: rule by rule below; by raw sockets and in Chromium against a real controller.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::json;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Paths of agents' and nodes' calls.
const CALLS: &str = "/lightloom.";

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It names a host, and an address is asked for; or two hosts.
    Host,
    /// It comes from a page of another site.
    Origin,
    /// An agent's call is not over HTTP/2.
    HttpVersion,
    /// An agent's call is not a POST.
    Method,
    /// An agent's call is not gRPC.
    ContentType,
    /// Too much is asked.
    Rate,
    /// There are too many connections of an address on which nobody is known.
    Connections,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 7] = [
        Refusal::Host,
        Refusal::Origin,
        Refusal::HttpVersion,
        Refusal::Method,
        Refusal::ContentType,
        Refusal::Rate,
        Refusal::Connections,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Host => "host",
            Refusal::Origin => "origin",
            Refusal::HttpVersion => "http-version",
            Refusal::Method => "method",
            Refusal::ContentType => "content-type",
            Refusal::Rate => "rate",
            Refusal::Connections => "connections",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Refusal::Host | Refusal::Origin => StatusCode::FORBIDDEN,
            Refusal::HttpVersion => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::Rate | Refusal::Connections => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Refusal::Host => {
                "a controller without [[token]] is called by one address, not by a name"
            }
            Refusal::Origin => "pages of other sites may ask nothing here",
            Refusal::HttpVersion => "agents' calls are over HTTP/2 only",
            Refusal::Method => "agents' calls are POSTs",
            Refusal::ContentType => "agents' calls are of type application/grpc",
            Refusal::Rate => "too many requests: come again in a second",
            Refusal::Connections => "too many connections on which nobody has shown a token",
        })
    }
}

/// How many requests were refused, by reason.
#[derive(Debug, Default)]
pub struct Refused([AtomicU64; Refusal::ALL.len()]);

impl Refused {
    /// One more.
    pub fn count(&self, refusal: Refusal) {
        self.0[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// So many for this reason.
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.0[refusal as usize].load(Ordering::Relaxed)
    }
}

/// What the check goes by.
#[derive(Clone, Debug)]
pub struct Border {
    /// Whether the host must be an address: of one that has no `[[token]]`.
    pub by_address: bool,
    /// Where refusals are counted.
    pub refused: Arc<Refused>,
}

impl Border {
    /// All these routes behind the check. Add none to what this gives: it would not be checked.
    pub fn around(self, routes: Router) -> Router {
        routes.layer(from_fn_with_state(self, pass))
    }

    /// Whether a request may pass.
    ///
    /// # Errors
    /// Why not.
    pub fn check(
        &self,
        (method, uri, version): (&Method, &Uri, Version),
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let host = host(uri, headers)?;
        if self.by_address && !is_address(host) {
            return Err(Refusal::Host);
        }
        let call = uri.path().starts_with(CALLS);
        if is_foreign(method, host, headers) || call && is_browser(headers) {
            return Err(Refusal::Origin);
        }
        if !call {
            return Ok(());
        }
        let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
        match kind {
            _ if version != Version::HTTP_2 => Err(Refusal::HttpVersion),
            _ if method != Method::POST => Err(Refusal::Method),
            Some(b"application/grpc" | b"application/grpc+proto") => Ok(()),
            _ => Err(Refusal::ContentType),
        }
    }
}

async fn pass(State(border): State<Border>, request: Request, next: Next) -> Response {
    let line = (request.method(), request.uri(), request.version());
    match border.check(line, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            border.refused.count(why);
            tracing::debug!(reason = why.name(), path = request.uri().path(), "refused");
            why.into_response()
        }
    }
}

impl IntoResponse for Refusal {
    /// For clients of HTTP a status and JSON, for those of gRPC a code and words.
    fn into_response(self) -> Response {
        let words = self.to_string();
        let mut response = (self.status(), Json(json!({ "error": words }))).into_response();
        let code = match self {
            Refusal::Rate | Refusal::Connections => "8", // resource exhausted
            _ => "7",                                    // permission denied
        };
        let code = HeaderValue::from_static(code);
        response.headers_mut().insert("grpc-status", code);
        if let Ok(words) = HeaderValue::from_str(&words) {
            response.headers_mut().insert("grpc-message", words);
        }
        response
    }
}

/// The host that is called, with its port if one is named. There is one.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a str, Refusal> {
    let named = headers.get_all(header::HOST).iter().map(|host| host.to_str().ok());
    let mut all =
        uri.authority().map(|authority| Some(authority.as_str())).into_iter().chain(named);
    let first = all.next().flatten().ok_or(Refusal::Host)?;
    let same = |other: Option<&str>| other.is_some_and(|other| other.eq_ignore_ascii_case(first));
    if all.all(same) { Ok(first) } else { Err(Refusal::Host) }
}

/// Whether a page of another site asks. A link there that leads here is no harm: it asks for a page.
fn is_foreign(method: &Method, host: &str, headers: &HeaderMap) -> bool {
    let own = |origin: &str| {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    if origins.any(|origin| !origin.to_str().is_ok_and(own)) {
        return true;
    }
    let says = |name: &str| headers.get(name).map(|value| value.as_bytes());
    let link = method == Method::GET && says("sec-fetch-mode") == Some(b"navigate");
    match says("sec-fetch-site") {
        None | Some(b"same-origin" | b"none") => false,
        Some(_) => !link,
    }
}

/// Whether a browser asks, from whatever page.
fn is_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

/// Whether a host, with or without a port, is this machine's own name or an address.
fn is_address(host: &str) -> bool {
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None if host.matches(':').count() == 1 => host.split(':').next().unwrap_or(host),
        None => host,
    };
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    const HERE: (&str, &str) = ("host", "127.0.0.1:8470");
    const GRPC: (&str, &str) = ("content-type", "application/grpc");

    fn check(
        by_address: bool,
        (method, path, version): (&str, &str, Version),
        headers: &[(&str, &str)],
    ) -> Result<(), Refusal> {
        let one = |&(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        };
        let mut map = HeaderMap::new();
        headers.iter().map(one).for_each(|(name, value)| {
            map.append(name, value);
        });
        let (method, uri): (Method, Uri) = (method.parse().unwrap(), path.parse().unwrap());
        Border { by_address, refused: Arc::default() }.check((&method, &uri, version), &map)
    }

    fn call(headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let path = "http://127.0.0.1:8470/lightloom.control.v1.Control/Attend";
        check(true, ("POST", path, Version::HTTP_2), headers)
    }

    fn read(by_address: bool, method: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        check(by_address, (method, "/v1/status", Version::HTTP_11), headers)
    }

    #[test]
    fn addresses_are_told_from_names() {
        for host in ["localhost", "LocalHost:8470", "127.0.0.1:8470", "10.0.0.7", "[::1]:1", "::1"]
        {
            assert!(is_address(host), "{host}");
        }
        for host in ["", "evil.example", "127.0.0.1.evil.example:8470", "localhost.evil.example"] {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn an_agents_call_is_grpc_over_http_2_and_from_no_page() {
        assert_eq!(call(&[GRPC]), Ok(()));
        assert_eq!(call(&[("content-type", "application/grpc+proto")]), Ok(()));
        for kind in ["text/plain", "application/json", "application/grpc-web", "application/grpcx"]
        {
            assert_eq!(call(&[("content-type", kind)]), Err(Refusal::ContentType), "{kind}");
        }
        assert_eq!(call(&[]), Err(Refusal::ContentType));
        for page in ["http://evil.example", "http://127.0.0.1:8470", "null"] {
            assert_eq!(call(&[GRPC, ("origin", page)]), Err(Refusal::Origin), "{page}");
        }
        assert_eq!(call(&[GRPC, ("sec-fetch-site", "same-origin")]), Err(Refusal::Origin));
        let path = "/lightloom.control.v1.Control/Attend";
        let old = check(true, ("POST", path, Version::HTTP_11), &[HERE, GRPC]);
        assert_eq!(old, Err(Refusal::HttpVersion));
        let got = check(true, ("GET", path, Version::HTTP_2), &[HERE, GRPC]);
        assert_eq!(got, Err(Refusal::Method));
    }

    #[test]
    fn with_a_token_of_its_own_one_address_is_called() {
        let name = ("host", "controller.example:8470");
        assert_eq!(read(true, "GET", &[HERE]), Ok(()));
        assert_eq!(read(true, "GET", &[name]), Err(Refusal::Host));
        assert_eq!(read(false, "GET", &[name]), Ok(()), "names are for others");
        for by_address in [true, false] {
            assert_eq!(read(by_address, "GET", &[]), Err(Refusal::Host));
            assert_eq!(read(by_address, "GET", &[HERE, ("host", "localhost")]), Err(Refusal::Host));
        }
        assert_eq!(call(&[GRPC, ("host", "evil.example")]), Err(Refusal::Host));
        let evil = "http://evil.example/lightloom.control.v1.Control/Attend";
        assert_eq!(check(true, ("POST", evil, Version::HTTP_2), &[GRPC]), Err(Refusal::Host));
    }

    #[test]
    fn pages_of_others_ask_nothing_and_ours_and_links_do() {
        for method in ["GET", "POST"] {
            for page in ["http://evil.example", "http://127.0.0.1:8471", "null", "127.0.0.1:8470"] {
                let asked = read(false, method, &[HERE, ("origin", page)]);
                assert_eq!(asked, Err(Refusal::Origin), "{method} {page}");
            }
            let own = ("origin", "http://127.0.0.1:8470");
            assert_eq!(read(false, method, &[HERE, own]), Ok(()));
            assert_eq!(read(false, method, &[HERE, ("sec-fetch-site", "same-origin")]), Ok(()));
            for site in ["cross-site", "same-site"] {
                let page = [HERE, ("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")];
                assert_eq!(read(false, method, &page), Err(Refusal::Origin), "{method} {site}");
            }
        }
        let link = [HERE, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(read(true, "GET", &link), Ok(()));
        assert_eq!(read(true, "POST", &link), Err(Refusal::Origin), "a form");
    }
}
