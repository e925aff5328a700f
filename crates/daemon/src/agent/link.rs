//! An agent's stream to its controller, opened anew when it breaks.

use crate::failure::Failure;
use crate::proto::wire::control_client::ControlClient;
use crate::proto::wire::{DescribeRequest, Description};
use crate::proto::{read_directive, report, version};
use lightloom_control::{Directive, Report};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

/// A controller is reached by then, or tried anew,
const PATIENCE: Duration = Duration::from_secs(3);
/// after this, doubled each time,
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// up to this.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Where a controller is, and who we are to it.
#[derive(Clone, Debug, clap::Args)]
pub struct Controller {
    /// Address of the controller
    #[arg(long = "controller", default_value = "http://127.0.0.1:8470", value_name = "URL")]
    pub url: String,
    /// A file with our token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A file with the authority of its certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// What a link has to tell.
pub(super) enum News {
    /// The controller is there; this is the region.
    Up(Description),
    Directive(Directive),
    /// It is not there, in words. It is being tried anew.
    Down(String),
    /// It will have nothing of us.
    Over(String),
}

/// The stream's task; it ends with this.
pub(super) struct Link {
    news: mpsc::Receiver<News>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    pub fn open(
        controller: &Controller,
        server: &str,
        reports: watch::Receiver<Option<Report>>,
    ) -> Result<Self, Failure> {
        let endpoint = controller.endpoint()?;
        let token = controller.token()?;
        let (tell, news) = mpsc::channel(16);
        let mut line =
            Line { endpoint, token, server: server.into(), reports, tell, reached: false };
        let task = tokio::spawn(async move { line.run().await });
        Ok(Link { news, task })
    }

    pub async fn next(&mut self) -> News {
        self.news.recv().await.unwrap_or_else(|| News::Over("the agent's stream is gone".into()))
    }
}

impl Controller {
    /// That a stream to it could be opened, but for its answer.
    ///
    /// # Errors
    /// If the address, the token or the authority cannot be used.
    pub fn check(&self) -> Result<(), Failure> {
        self.token().and_then(|_| self.endpoint()).map(drop)
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::Input(format!("--controller: {}: {why}", self.url))
        };
        let tls = match self.url.split_once("://") {
            Some(("http", _)) => false,
            Some(("https", _)) => true,
            _ => return Err(wrong(&"must begin with http:// or https://")),
        };
        let endpoint = Endpoint::from_shared(self.url.clone()).map_err(|why| wrong(&why))?;
        let endpoint = endpoint
            .connect_timeout(PATIENCE)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(2))
            .keep_alive_timeout(PATIENCE);
        let Some(ca) = &self.ca else {
            return if tls { Err(wrong(&"needs --ca, whom to trust")) } else { Ok(endpoint) };
        };
        if !tls {
            return Err(wrong(&"--ca is for https://"));
        }
        let pem = std::fs::read(ca)
            .map_err(|why| Failure::Input(format!("--ca: {}: {why}", ca.display())))?;
        let trust = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
        endpoint.tls_config(trust).map_err(|why| wrong(&why))
    }

    /// A token goes over TLS, or stays on this machine.
    fn may_tell(&self) -> Result<(), Failure> {
        // What is no address is said elsewhere.
        let Ok(endpoint) = Endpoint::from_shared(self.url.clone()) else { return Ok(()) };
        let uri = endpoint.uri();
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let here = host.eq_ignore_ascii_case("localhost")
            || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        if here || uri.scheme_str() == Some("https") {
            return Ok(());
        }
        let url = &self.url;
        Err(Failure::Input(format!(
            "--controller: {url}: a token goes over https:// off this machine"
        )))
    }

    pub(crate) fn token(&self) -> Result<Option<MetadataValue<Ascii>>, Failure> {
        let Some(file) = &self.token_file else { return Ok(None) };
        self.may_tell()?;
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::Input(format!("--token-file: {}: {why}", file.display()))
        };
        let token = std::fs::read_to_string(file).map_err(|why| wrong(&why))?;
        let mut token: MetadataValue<Ascii> =
            format!("Bearer {}", token.trim()).parse().map_err(|_| wrong(&"not a token"))?;
        token.set_sensitive(true);
        Ok(Some(token))
    }
}

struct Line {
    endpoint: Endpoint,
    token: Option<MetadataValue<Ascii>>,
    server: String,
    reports: watch::Receiver<Option<Report>>,
    tell: mpsc::Sender<News>,
    /// The controller has let us in once.
    reached: bool,
}

/// Nobody listens any more.
struct Gone;

impl Line {
    async fn run(&mut self) {
        let mut wait = FIRST_WAIT;
        loop {
            let reached = std::mem::take(&mut self.reached);
            let Ok(why) = self.attend().await else { return };
            // One that is told to come later does.
            if self.reached && !matches!(why.code(), Code::Aborted | Code::ResourceExhausted) {
                wait = FIRST_WAIT;
            }
            self.reached |= reached;
            let refused = matches!(
                why.code(),
                Code::Unauthenticated
                    | Code::PermissionDenied
                    | Code::InvalidArgument
                    | Code::FailedPrecondition
            );
            let over = why.code() == Code::AlreadyExists || refused && !self.reached;
            let words = words(&why);
            if over {
                let _ = self.tell.send(News::Over(words)).await;
                return;
            }
            tracing::debug!(server = self.server, why = words, "no controller");
            if self.tell.send(News::Down(words)).await.is_err() {
                return;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LAST_WAIT);
        }
    }

    /// One stream, until it ends; with why.
    async fn attend(&mut self) -> Result<Status, Gone> {
        let mut client = match timeout(PATIENCE, self.meet()).await {
            Err(_) => return Ok(Status::unavailable("it does not answer")),
            Ok(Err(why)) => return Ok(why),
            Ok(Ok((client, description))) => {
                self.reached = true;
                self.tell.send(News::Up(description)).await.map_err(|_| Gone)?;
                client
            }
        };
        let name = self.server.clone();
        let said = WatchStream::from_changes(self.reports.clone());
        let said = said.filter_map(move |said| said.map(|said| report(&name, &said)));
        // The service answers once it has read a report, which the agent now has for it.
        let directives = client.attend(self.with_token(said)).await;
        let mut directives = match directives {
            Ok(directives) => directives.into_inner(),
            Err(why) => return Ok(why),
        };
        loop {
            match directives.message().await {
                Ok(Some(directive)) => match read_directive(directive) {
                    Ok(directive) => {
                        self.tell.send(News::Directive(directive)).await.map_err(|_| Gone)?;
                    }
                    Err(why) => return Ok(Status::internal(why.to_string())),
                },
                Ok(None) => return Ok(Status::unavailable("it ended the stream")),
                Err(why) => return Ok(why),
            }
        }
    }

    async fn meet(&self) -> Result<(ControlClient<Channel>, Description), Status> {
        let channel = self.endpoint.connect().await;
        let channel = channel.map_err(|why| Status::unavailable(root(&why)))?;
        let mut client = ControlClient::new(channel);
        let request = DescribeRequest { server: self.server.clone(), version: version::VERSION };
        let description = client.describe(self.with_token(request)).await?.into_inner();
        version::speaks(description.version)
            .map_err(|why| Status::failed_precondition(why.to_string()))?;
        Ok((client, description))
    }

    fn with_token<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }
}

/// What is at the bottom of an error: the layers above only say that there is one.
fn root(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(below) = at.source() {
        at = below;
    }
    at.to_string()
}

fn words(status: &Status) -> String {
    match status.message() {
        "" => format!("{:?}", status.code()),
        words => words.into(),
    }
}
