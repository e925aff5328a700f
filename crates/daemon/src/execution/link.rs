//! A node's stream to an execution: what it says, the latest only, and what it hears.

use super::wire::generated::execution_client::ExecutionClient;
use super::wire::generated::{NodeReport, NodeView};
use super::wire::report;
use crate::agent::{Bearer, Controller};
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use tonic::Code;

/// Between two reports when nothing happens.
pub(super) const BEAT: Duration = Duration::from_millis(250);
/// Between two attempts to reach the execution.
const RETRY: Duration = Duration::from_millis(100);

/// Where a node says what it knows.
pub(super) type Said = watch::Sender<Option<lightloom_control::execution::NodeReport>>;

/// What a node hears.
pub(super) enum News {
    View(NodeView),
    /// It will have nothing of us, in words.
    Over(String),
    /// It is not there.
    Down(String),
}

/// Opens the stream of a node, the `at`th of this process.
///
/// # Errors
/// An address or a token that cannot be.
pub(super) fn link(
    controller: &Controller,
    at: usize,
    tell: mpsc::Sender<(usize, News)>,
) -> Result<Said, Failure> {
    let (says, said) = watch::channel(None);
    let link = Link {
        endpoint: controller.endpoint()?,
        bearer: Bearer::new(controller)?,
        said,
        run: Arc::new(AtomicU64::new(0)),
        at,
        tell,
    };
    tokio::spawn(link.run());
    Ok(says)
}

/// A node's stream, opened anew when it breaks.
struct Link {
    endpoint: tonic::transport::Endpoint,
    bearer: Bearer,
    said: watch::Receiver<Option<lightloom_control::execution::NodeReport>>,
    /// The execution that it follows.
    run: Arc<AtomicU64>,
    at: usize,
    tell: mpsc::Sender<(usize, News)>,
}

impl Link {
    async fn run(mut self) {
        loop {
            self.bearer.renew().await;
            let news = match self.follow().await {
                Ok(()) => News::Down("it ended the stream".into()),
                Err(why) if self.bearer.is_outdated(&why).await => continue,
                Err(why) => {
                    let over = matches!(
                        why.code(),
                        Code::Unauthenticated
                            | Code::PermissionDenied
                            | Code::InvalidArgument
                            | Code::FailedPrecondition
                            | Code::AlreadyExists
                    );
                    let words = self.bearer.words(&why);
                    if over { News::Over(words) } else { News::Down(words) }
                }
            };
            if self.tell.send((self.at, news)).await.is_err() {
                return;
            }
            sleep(RETRY).await;
        }
    }

    async fn follow(&self) -> Result<(), tonic::Status> {
        let channel = self.endpoint.connect().await;
        let channel = channel.map_err(|why| tonic::Status::unavailable(why.to_string()))?;
        let mut client = ExecutionClient::new(channel);
        let run = self.run.clone();
        let said = WatchStream::new(self.said.clone());
        let said = said.filter_map(move |said| {
            said.map(|said| -> NodeReport { report(run.load(Ordering::Relaxed), &said) })
        });
        let mut views = client.follow(self.bearer.with(said)).await?.into_inner();
        while let Some(view) = views.message().await? {
            self.run.store(view.run, Ordering::Relaxed);
            if self.tell.send((self.at, News::View(view))).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}
