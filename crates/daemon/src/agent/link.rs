//! An agent's stream to its controller, opened anew when it breaks.

use super::controller::{Bearer, Controller, PATIENCE};
use crate::failure::Failure;
use crate::proto::wire::control_client::ControlClient;
use crate::proto::wire::{DescribeRequest, Description};
use crate::proto::{read_directive, report, version};
use lightloom_control::{Directive, Report};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A controller is tried anew after this, doubled each time,
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// up to this.
const LAST_WAIT: Duration = Duration::from_secs(1);

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
        let bearer = Bearer::new(controller)?;
        let (tell, news) = mpsc::channel(16);
        let mut line =
            Line { endpoint, bearer, server: server.into(), reports, tell, reached: false };
        let task = tokio::spawn(async move { line.run().await });
        Ok(Link { news, task })
    }

    pub async fn next(&mut self) -> News {
        self.news.recv().await.unwrap_or_else(|| News::Over("the agent's stream is gone".into()))
    }
}

struct Line {
    endpoint: Endpoint,
    bearer: Bearer,
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
            let outdated = self.bearer.is_outdated(&why).await;
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
            let over = why.code() == Code::AlreadyExists || refused && !self.reached && !outdated;
            let words = self.bearer.words(&why);
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
            self.bearer.renew().await;
        }
    }

    /// One stream, until it ends; with why.
    async fn attend(&mut self) -> Result<Status, Gone> {
        let mut client = match timeout(PATIENCE, self.meet()).await {
            Err(_) => return Ok(Status::unavailable("it does not answer")),
            Ok(Err(why)) => return Ok(why),
            Ok(Ok((client, description))) => {
                self.reached = true;
                // What was meant for the last stream may leave out what this one must be told.
                self.reports.mark_unchanged();
                self.tell.send(News::Up(description)).await.map_err(|_| Gone)?;
                client
            }
        };
        let name = self.server.clone();
        let said = WatchStream::from_changes(self.reports.clone());
        let said = said.filter_map(move |said| said.map(|said| report(&name, &said)));
        // The service answers once it has read a report, which the agent now has for it.
        let directives = client.attend(self.bearer.with(said)).await;
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
        let description = client.describe(self.bearer.with(request)).await?.into_inner();
        version::speaks(description.version)
            .map_err(|why| Status::failed_precondition(why.to_string()))?;
        Ok((client, description))
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
