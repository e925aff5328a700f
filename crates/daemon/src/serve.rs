//! One port for agents and operators: gRPC and HTTP on the same listener, with TLS or without.
//!
//! Modelled: connections are bounded in number, and those that say nothing, in time. How much each may ask is
//! bounded, too: see [`crate::limits`].

use crate::border::Border;
use crate::config::Config;
use crate::controller::{Parts, Task};
use crate::failure::Failure;
use crate::hub::Hub;
use crate::journal::{Journal, JournalError};
use crate::limits::{Limits, STAY, Seat};
use crate::own_token::OwnToken;
use crate::reload::{Reload, Shared};
use crate::show::say;
use crate::trail::{self, Peer, Trail};
use crate::wire::{self, Timing};
use crate::{gateway, grpc};
use axum::Router;
use axum::http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

/// Connections at once: agents of the largest region, and as many readers.
const CONNECTIONS: usize = 8192;
/// A connection has shaken hands by then, and sent the head of a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// A connection over HTTP/2 is asked so often whether someone is there.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How a controller's thread has ended.
type Ended = oneshot::Receiver<Result<(), String>>;

/// A controller that listens.
pub struct Server {
    listener: TcpListener,
    shared: Shared,
    router: Router,
    limits: Arc<Limits>,
    hub: Hub,
    /// The token that it has made, if its file has none.
    own: Option<OwnToken>,
    /// The controller's thread ends when this is dropped,
    stop: oneshot::Sender<()>,
    /// and says how it ended.
    ended: Ended,
}

impl Server {
    /// Starts the controller of a region, within a Tokio runtime.
    ///
    /// # Errors
    /// A port or a journal that is taken, a journal that is not of this region or not readable; no safe place for a
    /// token of its own.
    pub async fn start(config: Config) -> Result<Self, Failure> {
        let wiring = config.wiring();
        let (journal, memory) = Journal::open(&config.journal, &config.names.region, &wiring)
            .map_err(|why| match why {
                JournalError::Foreign { .. } | JournalError::Later(..) => {
                    Failure::Input(why.to_string())
                }
                _ => Failure::Run(why.to_string()),
            })?;
        let file = trail::beside(&config.journal);
        let trail =
            Trail::open(&file).map_err(|why| Failure::Run(format!("{}: {why}", file.display())))?;
        let listener = TcpListener::bind(config.address)
            .await
            .map_err(|why| Failure::Run(format!("{}: {why}", config.address)))?;
        // Nobody is answered before it is there.
        let own = OwnToken::unless(&config.tokens, &listener, config.token_file.as_deref())?;
        let reconnect = Duration::from_nanos(config.settings.reconnect.ps() / 1000);
        let patience = Duration::from_nanos(config.settings.patience.ps() / 1000);
        let timing = Timing::new(reconnect, patience);
        let switches = config.switches.into_iter().enumerate();
        let switches = switches
            .map(|(at, mut switch)| {
                memory
                    .terms
                    .get(&(at as u16))
                    .into_iter()
                    .for_each(|&term| switch.driver.hold(term));
                wire::spawn(at, switch.endpoint, switch.driver, timing)
            })
            .collect();
        let (ports, lease) = (config.region.degree(), config.settings.lease);
        let (task, hub) = Task::new(Parts {
            region: config.region,
            settings: config.settings,
            decider: config.decider,
            journal,
            memory,
            switches,
            names: config.names,
        });
        let (stop, ended) = on_a_thread(task)?;
        let tokens = Arc::new(config.tokens);
        let service = grpc::service(hub.clone(), tokens.clone(), ports, lease);
        let border = Border { by_address: own.is_some(), refused: hub.refused.clone() };
        let routes =
            gateway::router(hub.clone(), tokens.clone()).route_service(grpc::PATH, service);
        let router = border.around(routes);
        let router = trail.around(router, tokens.clone());
        let limits = Limits::new(tokens.clone(), hub.refused.clone(), hub.names.servers.len());
        let router = limits.around(router);
        *hub.expiry.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = config.expiry;
        let shared = Shared::new(tokens, config.tls);
        Ok(Server { listener, shared, router, limits, hub, own, stop, ended })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> Result<SocketAddr, Failure> {
        self.listener.local_addr().map_err(|why| Failure::Run(why.to_string()))
    }

    /// Where the token is that it has made, if its file has none.
    pub fn token_file(&self) -> Option<&Path> {
        self.own.as_ref().map(OwnToken::path)
    }

    /// What the controller publishes.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Serves until the controller fails.
    ///
    /// # Errors
    /// A journal that cannot be written.
    pub async fn run(self) -> Result<(), Failure> {
        let listens = pin!(listen(self.listener, self.shared, self.router, self.limits));
        // Its file goes before the port is free for another.
        let mut own = self.own;
        let ended = tokio::select! {
            () = listens => Ok(()),
            () = OwnToken::stay(&mut own) => Ok(()),
            ended = self.ended => ended.unwrap_or_else(|_| Err("the controller is gone".into())),
        };
        drop(self.stop);
        ended.map_err(Failure::Run)
    }
}

/// Runs the controller of a region until it fails; prints where it listens.
///
/// # Errors
/// A file that is wrong; as [`Server::start`] and [`Server::run`].
pub async fn controller(file: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|why| Failure::Input(format!("{}: {why}", file.display())))?;
    let server = Server::start(Config::read(file, &text)?).await?;
    let address = server.address()?;
    tracing::info!(%address, tls = server.shared.acceptor().is_some(), "listening");
    let (shared, has_own) = (server.shared.clone(), server.own.is_some());
    let reload = Reload::new(file.into(), &text, shared, has_own, server.hub.clone())?;
    say(&listening(address, server.token_file()));
    tokio::spawn(reload.run());
    server.run().await
}

/// What is said when somebody can come: where, and where the token is that was made, if one was.
pub(crate) fn listening(address: SocketAddr, token_file: Option<&Path>) -> String {
    let mut line = serde_json::json!({ "listening": address.to_string() });
    if let Some(path) = token_file {
        line["token_file"] = path.display().to_string().into();
    }
    line.to_string()
}

/// Runs a task on a thread of its own until the sender is dropped; the receiver hears how it ended.
fn on_a_thread(task: Task) -> Result<(oneshot::Sender<()>, Ended), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|why| Failure::Run(why.to_string()))?;
    let (stop, stopped) = oneshot::channel();
    let (ends, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("controller".into())
        .spawn(move || {
            let done = runtime.block_on(task.run(stopped)).map_err(|why| why.to_string());
            // Nobody listens when all ends.
            let _ = ends.send(done);
        })
        .map_err(|why| Failure::Run(why.to_string()))?;
    Ok((stop, ended))
}

/// Serves whoever comes.
pub(crate) async fn listen(
    listener: TcpListener,
    shared: Shared,
    router: Router,
    limits: Arc<Limits>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(why) => {
                // Out of files, as a rule: others end meanwhile.
                tracing::warn!(%why, "no connection accepted");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(seat) = limits.enter(from) else {
            tracing::debug!(%from, "too many connections on which nobody is known");
            continue;
        };
        // Messages are small and somebody waits for each.
        let _ = stream.set_nodelay(true);
        let (tls, router) = (shared.acceptor(), router.clone());
        tokio::spawn(async move {
            match tls {
                None => converse(stream, router, seat, from).await,
                Some(tls) => match timeout(PATIENCE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => converse(stream, router, seat, from).await,
                    Ok(Err(why)) => tracing::debug!(%from, %why, "no TLS"),
                    Err(_) => tracing::debug!(%from, "no TLS in time"),
                },
            }
            drop(place);
        });
    }
}

/// HTTP of both kinds, with patience.
pub(crate) fn http() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .max_concurrent_streams(16);
    builder
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    seat: Arc<Seat>,
    from: SocketAddr,
) {
    let builder = http();
    let of = seat.clone();
    let service = TowerToHyperService::new(router.map_request(move |mut request: Request<_>| {
        request.extensions_mut().insert(of.clone());
        request.extensions_mut().insert(Peer(from));
        request
    }));
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let uninvited = async {
        sleep(STAY).await;
        if !seat.is_guest() {
            std::future::pending().await
        }
    };
    tokio::select! {
        served = served => if let Err(why) = served {
            tracing::debug!(%from, %why, "connection ended");
        },
        () = uninvited => tracing::debug!(%from, "nobody has shown a token"),
    }
}
