//! Where a runtime's metrics are read: an HTTP listener of its own, on loopback or at a Unix socket.
//!
//! Modelled: nobody is asked for a token, so it is off loopback only if it was told so. Connections are bounded in
//! number and in time. Pages of other sites are refused as at the controller's [border](crate::border).
//! Checked: `tests/test_runtime_metrics.py`.

use super::counted::Counted;
use crate::border::Border;
use crate::exposition;
use crate::failure::Failure;
use crate::serve::http;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lightloom_runtime::ranks::Watch;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Connections at once, and how long one may stay.
const CONNECTIONS: usize = 64;
const STAY: Duration = Duration::from_secs(60);

/// Where metrics are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address of TCP.
    Tcp(SocketAddr),
    /// A path that is not there yet.
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    /// ```
    /// use lightloom_daemon::runtime::Place;
    /// assert_eq!("unix:/run/x".parse(), Ok(Place::Unix("/run/x".into())));
    /// assert!("127.0.0.1:9464".parse::<Place>().is_ok());
    /// assert!("9464".parse::<Place>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "must be an address and a port, such as 127.0.0.1:9464, or unix:PATH";
        match text.strip_prefix("unix:") {
            Some("") => Err(allowed.into()),
            Some(path) => Ok(Place::Unix(path.into())),
            None => text.parse().map(Place::Tcp).map_err(|_| allowed.into()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) => write!(f, "http://{address}/metrics"),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Whose metrics they are.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub watch: Watch,
    pub server: String,
    pub sha256: String,
    pub started: f64,
}

/// A listener that is there.
enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Metrics that can be asked for; a Unix socket's path is removed at the end.
pub(super) struct Metrics {
    pub place: Place,
    bound: Option<Bound>,
}

impl Metrics {
    /// Listens, off loopback only if `anywhere`.
    ///
    /// # Errors
    /// An address or a path that is taken or not there; an address off loopback.
    pub async fn bind(place: &Place, anywhere: bool) -> Result<Self, Failure> {
        let wrong = |why: std::io::Error| Failure::Input(format!("--metrics: {place}: {why}"));
        match place {
            Place::Tcp(address) if !address.ip().is_loopback() && !anywhere => {
                Err(Failure::Input(format!(
                    "--metrics: {address}: is not loopback, and everybody there could read them: \
                     --metrics-anywhere permits it"
                )))
            }
            Place::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(wrong)?;
                let place = Place::Tcp(listener.local_addr().map_err(wrong)?);
                Ok(Metrics { place, bound: Some(Bound::Tcp(listener)) })
            }
            Place::Unix(path) => {
                let listener = UnixListener::bind(path).map_err(wrong)?;
                Ok(Metrics { place: place.clone(), bound: Some(Bound::Unix(listener)) })
            }
        }
    }

    /// Answers whoever comes.
    pub async fn serve(&mut self, source: Source) {
        let by_address = !matches!(self.place, Place::Tcp(address) if !address.ip().is_loopback());
        let routes = Router::new().route("/metrics", get(metrics)).with_state(source);
        let router = Border { by_address, refused: Arc::default() }.around(routes);
        match self.bound.take() {
            Some(Bound::Tcp(listener)) => listen(listener, router).await,
            Some(Bound::Unix(listener)) => listen(listener, router).await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        if let Place::Unix(path) = &self.place {
            remove(path);
        }
    }
}

fn remove(path: &Path) {
    if let Err(why) = std::fs::remove_file(path) {
        tracing::debug!(path = %path.display(), %why, "not removed");
    }
}

async fn listen<L: Listener>(mut listener: L, router: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let (stream, _) = listener.accept().await;
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let http = http();
            let served = timeout(STAY, http.serve_connection(TokioIo::new(stream), service));
            if let Ok(Err(why)) = served.await {
                tracing::debug!(%why, "connection ended");
            }
            drop(place);
        });
    }
}

async fn metrics(State(source): State<Source>, headers: HeaderMap) -> Response {
    let Source { watch, server, sha256, started } = source;
    // It waits for the runtime's thread.
    let counters = tokio::task::spawn_blocking(move || watch.counters()).await;
    let text = counters
        .ok()
        .and_then(|counters| Counted { counters, server, sha256, started }.text().ok());
    match text {
        Some(text) => exposition::answer(text, &headers),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
