//! Nodes' streams: from gRPC to the runner and back.
//!
//! Modelled: a node has one stream, the latest. One that has begun a plan and starts anew is refused: what
//! it had sent is not known any more. Of what there is to tell a node, only the latest is kept.

use super::wire::generated::execution_server::{Execution, ExecutionServer};
use super::wire::generated::{NodeReport, NodeView};
use super::wire::read_report;
use crate::auth::Tokens;
use lightloom_control::execution as control;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, WatchStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// No report is longer \[B\].
const LONGEST: usize = 256 << 10;

/// Where the service is, for a router.
pub const PATH: &str = "/lightloom.execution.v1.Execution/{*method}";

/// What is to be told on a stream.
#[derive(Clone, Debug, Default)]
pub enum Told {
    /// Nothing yet.
    #[default]
    Nothing,
    /// What stands.
    View(NodeView),
    /// No more: another stream is the node's.
    Superseded,
    /// The node has begun the plan before.
    BegunBefore,
}

/// A report, and where its node listens.
pub struct Heard {
    /// The report.
    pub report: control::NodeReport,
    /// Whether it is the first of a node's life.
    pub first: bool,
    /// Where to answer.
    pub answers: watch::Sender<Told>,
}

/// The service of an execution.
pub fn service(
    run: u64,
    nodes: Vec<u32>,
    tokens: Arc<Tokens>,
    heard: mpsc::Sender<Heard>,
) -> ExecutionServer<Service> {
    ExecutionServer::new(Service { run, nodes, tokens, heard }).max_decoding_message_size(LONGEST)
}

/// Nodes' end of an execution.
pub struct Service {
    run: u64,
    /// The nodes that the maps know, rising.
    nodes: Vec<u32>,
    tokens: Arc<Tokens>,
    heard: mpsc::Sender<Heard>,
}

type Views = Pin<Box<dyn Stream<Item = Result<NodeView, Status>> + Send>>;

#[tonic::async_trait]
impl Execution for Service {
    type FollowStream = Views;

    async fn follow(
        &self,
        request: Request<Streaming<NodeReport>>,
    ) -> Result<Response<Views>, Status> {
        let header = request.metadata().get("authorization").and_then(|text| text.to_str().ok());
        let access = self.tokens.access(header);
        let access = access.map_err(|why| Status::unauthenticated(why.to_string()))?;
        if !access.operates() {
            return Err(Status::permission_denied("nodes need an operator's token"));
        }
        let mut reports = request.into_inner();
        let first = reports.message().await?;
        let first = first.ok_or_else(|| Status::invalid_argument("a report is missing"))?;
        if self.nodes.binary_search(&first.node).is_err() {
            let why = format!("node {}: the maps have no such node", first.node);
            return Err(Status::invalid_argument(why));
        }
        if first.run != 0 && first.run != self.run {
            return Err(Status::failed_precondition("that execution is over: this is another"));
        }
        let answers = watch::Sender::default();
        let told = WatchStream::from_changes(answers.subscribe());
        let told = told.filter_map(|told| match told {
            Told::Nothing => None,
            Told::View(view) => Some(Ok(view)),
            Told::Superseded => Some(Err(Status::already_exists("this node has another stream"))),
            Told::BegunBefore => Some(Err(Status::failed_precondition(
                "this node has begun the plan before: what it had sent is not known",
            ))),
        });
        let (wrong, ends) = mpsc::channel(1);
        let (heard, run) = (self.heard.clone(), self.run);
        tokio::spawn(async move {
            if let Err(why) = hear(run, first, reports, heard, answers).await {
                // Unless nobody listens any more.
                let _ = wrong.send(Err(why)).await;
            }
        });
        Ok(Response::new(Box::pin(told.merge(ReceiverStream::new(ends)))))
    }
}

/// Hands on what a node says until it ends, or nobody listens for it.
async fn hear(
    run: u64,
    first: NodeReport,
    mut reports: Streaming<NodeReport>,
    heard: mpsc::Sender<Heard>,
    answers: watch::Sender<Told>,
) -> Result<(), Status> {
    let (node, anew) = (first.node, first.run == 0);
    let mut next = Some((first, anew));
    while let Some((sent, first)) = next {
        if sent.node != node || !(sent.run == run || sent.run == 0 && anew) {
            return Err(Status::invalid_argument("a stream is of one node and one execution"));
        }
        let report = read_report(&sent).map_err(Status::invalid_argument)?;
        let one = Heard { report, first, answers: answers.clone() };
        heard.send(one).await.map_err(|_| Status::unavailable("the execution is over"))?;
        next = tokio::select! {
            message = reports.message() => message.ok().flatten().map(|sent| (sent, false)),
            () = answers.closed() => None,
        };
    }
    Ok(())
}
