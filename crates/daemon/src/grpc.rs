//! Agents' streams: from gRPC to the controller's task and back.
//!
//! Modelled: an agent says who it is by the name in every report, and by a token; a tenant's
//! token attends as its own servers only. Nothing waits for an agent that does not read: of
//! what there is to tell it, only the latest is kept. One that sends faster than the controller reads is
//! held up by its own stream, as is one that sends more than any needs.
//! Checked: by streams over loopback (`tests/all/controller`).

use crate::auth::{Access, Tokens};
use crate::hub::{AgentAnswer, Command, Hub};
use crate::limits::Pace;
use crate::proto::wire::control_server::{Control, ControlServer};
use crate::proto::wire::{DescribeRequest, Description, Directive, Report};
use crate::proto::{directive, read_report, version};
use lightloom_units::Time;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, WatchStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

/// No report is longer \[B\]: a demand among the most servers there can be takes 44 KiB.
const LONGEST: usize = 256 << 10;

/// Where the service is, for a router.
pub const PATH: &str = "/lightloom.control.v1.Control/{*method}";

/// The service of a region's controller.
pub fn service(hub: Hub, tokens: Arc<Tokens>, ports: usize, lease: Time) -> ControlServer<Service> {
    ControlServer::new(Service { hub, tokens, ports, lease }).max_decoding_message_size(LONGEST)
}

/// Agents' end of a controller.
pub struct Service {
    hub: Hub,
    tokens: Arc<Tokens>,
    ports: usize,
    lease: Time,
}

impl Service {
    // A status is what every answer may be, and not made often.
    #[allow(clippy::result_large_err)]
    fn access<T>(&self, request: &Request<T>) -> Result<Access, Status> {
        let header = request.metadata().get("authorization").and_then(|text| text.to_str().ok());
        self.tokens.access(header).map_err(|why| Status::unauthenticated(why.to_string()))
    }

    /// The number of a server that this one may speak for.
    #[allow(clippy::result_large_err)]
    fn server(&self, access: &Access, name: &str) -> Result<u16, Status> {
        let names = &self.hub.names;
        let number = names.servers.iter().position(|known| known == name);
        let tenant = |number: usize| &names.tenants[usize::from(names.tenant_of_server[number])];
        match number {
            Some(number) if access.speaks_for(tenant(number)) => Ok(number as u16),
            // A tenant learns nothing of the others' names.
            None if access.operates() => {
                let why = format!("{name:?} is no server of {}", names.region);
                Err(Status::invalid_argument(why))
            }
            _ => Err(Status::permission_denied(format!("this token is not of {name:?}"))),
        }
    }
}

type Directives = Pin<Box<dyn Stream<Item = Result<Directive, Status>> + Send>>;

#[tonic::async_trait]
impl Control for Service {
    async fn describe(
        &self,
        request: Request<DescribeRequest>,
    ) -> Result<Response<Description>, Status> {
        let access = self.access(&request)?;
        let number = self.server(&access, &request.get_ref().server)?;
        let version = version::agree(request.get_ref().version)
            .map_err(|why| Status::failed_precondition(why.to_string()))?;
        tracing::debug!(server = number, version, "described");
        let names = &self.hub.names;
        let of = |(name, tenant): (&String, &u16)| {
            let seen = access.sees(&names.tenants[usize::from(*tenant)]);
            if seen { name.clone() } else { String::new() }
        };
        Ok(Response::new(Description {
            region: names.region.clone(),
            number: number.into(),
            ports: self.ports as u32,
            servers: names.servers.iter().zip(&names.tenant_of_server).map(of).collect(),
            lease_ps: self.lease.ps(),
            version,
        }))
    }

    type AttendStream = Directives;

    async fn attend(
        &self,
        request: Request<Streaming<Report>>,
    ) -> Result<Response<Directives>, Status> {
        let access = self.access(&request)?;
        let mut reports = request.into_inner();
        let first = reports.message().await?;
        let first = first.ok_or_else(|| Status::invalid_argument("a report is missing"))?;
        let attendance = Attendance {
            number: self.server(&access, &first.server)?,
            name: first.server.clone(),
            ports: self.ports,
            hub: self.hub.clone(),
            answers: watch::Sender::default(),
        };
        tracing::debug!(server = attendance.name, who = access.name(), "attends");
        let answers = WatchStream::from_changes(attendance.answers.subscribe());
        let answers = answers.filter_map(|answer| match answer {
            AgentAnswer::Nothing => None,
            AgentAnswer::Directive(one) => Some(Ok(directive(&one))),
            AgentAnswer::Superseded => {
                Some(Err(Status::already_exists("this server has a later agent")))
            }
            AgentAnswer::Taken => {
                Some(Err(Status::aborted("this server has another agent, which speaks for it")))
            }
        });
        let (wrong, ends) = mpsc::channel(1);
        tokio::spawn(async move {
            let heard = attendance.hear(first, reports).await;
            attendance.leave().await;
            if let Err(why) = heard {
                // The alarm that is raised says it once.
                tracing::debug!(server = attendance.name, "{}", why.message());
                // Unless nobody listens any more.
                let _ = wrong.send(Err(why)).await;
            }
        });
        Ok(Response::new(Box::pin(answers.merge(ReceiverStream::new(ends)))))
    }
}

/// One agent's stream.
struct Attendance {
    number: u16,
    name: String,
    ports: usize,
    hub: Hub,
    answers: watch::Sender<AgentAnswer>,
}

impl Attendance {
    /// Hands on what the agent says until it ends, or nobody listens for it.
    async fn hear(&self, first: Report, mut reports: Streaming<Report>) -> Result<(), Status> {
        let mut next = Some(first);
        let mut pace = Pace::default();
        while let Some(sent) = next {
            pace.wait().await;
            if sent.server != self.name {
                let why = format!("a stream is of one server, this one of {:?}", self.name);
                return Err(Status::invalid_argument(why));
            }
            let servers = self.hub.names.servers.len();
            let report = match read_report(self.number, self.ports, servers, sent) {
                Ok(report) => report,
                Err(why) => return Err(self.senseless(why.to_string()).await),
            };
            let command = Command::Report { report, answers: self.answers.clone() };
            let sent = self.hub.commands.send(command).await;
            sent.map_err(|_| Status::unavailable("the controller ends"))?;
            next = tokio::select! {
                message = reports.message() => match message {
                    Ok(message) => message,
                    Err(why) if is_senseless(&why) => {
                        self.senseless(why.message().into()).await;
                        return Err(why);
                    }
                    // It is gone: its lease says the rest.
                    Err(_) => None,
                },
                () = self.answers.closed() => None,
            };
        }
        tracing::debug!(server = self.name, "its stream has ended");
        Ok(())
    }

    /// Notes that something came which is no report.
    async fn senseless(&self, why: String) -> Status {
        let command = Command::Senseless { server: self.number, why: why.clone() };
        // A controller that has ended needs to know nothing.
        let _ = self.hub.commands.send(command).await;
        Status::invalid_argument(why)
    }

    /// Nothing more comes over this stream.
    async fn leave(&self) {
        let command = Command::Left { server: self.number, answers: self.answers.clone() };
        let _ = self.hub.commands.send(command).await;
    }
}

/// Whether a stream broke because of what was sent over it.
fn is_senseless(why: &Status) -> bool {
    matches!(why.code(), Code::Internal | Code::InvalidArgument | Code::OutOfRange)
}
