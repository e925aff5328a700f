//! The runtime of a server: the thread that ranks, the network and the agent speak to.

use super::agent::{FromAgent, ToAgent};
use super::counters::Counters;
use super::heard::Heard;
use super::job::{Job, by_ends};
use super::line;
use super::watch::Watch;
use super::work::Work;
use crate::exchange::Endpoint;
use crate::net::{Clock, Config, Event, Listening, Node, OpenError};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use thiserror::Error;

/// Why a runtime cannot begin.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The job does not fit together.
    #[error("{0}")]
    Job(String),
    /// The job has no such server.
    #[error("no server of the job is called {0:?}")]
    Server(String),
    /// The endpoint cannot be opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// Ranks cannot be listened to.
    #[error("{}: {why}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
}

/// A runtime under way.
pub struct Service {
    heard: Sender<Heard>,
    listener: Arc<UnixListener>,
    socket: PathBuf,
    clock: Clock,
    last: Arc<Mutex<Counters>>,
    work: Option<JoinHandle<Result<(), String>>>,
}

impl Service {
    /// Starts the runtime of a server: it listens at its NICs for other servers and at `socket` for its ranks. What it
    /// has to say to the agent is given to `agent`, which must not wait; without one, no circuit is used.
    ///
    /// # Errors
    /// A job or a server that does not fit; addresses or a path that cannot be listened at.
    pub fn start(
        job: Job,
        server: &str,
        socket: &Path,
        agent: Option<Box<dyn FnMut(ToAgent) + Send>>,
    ) -> Result<Self, ServiceError> {
        job.check().map_err(ServiceError::Job)?;
        let me: Endpoint = job.server(server).ok_or_else(|| ServiceError::Server(server.into()))?;
        let settings = job.settings(me).map_err(|why| ServiceError::Job(why.to_string()))?;
        let listening = Listening::bind_over(job.transport(), job.nics(me))?;
        let lanes = job.lanes(me);
        let ends = by_ends(&lanes);
        let (heard, hears) = channel();
        let events = heard.clone();
        let told = move |event: Event| {
            let _ = events.send(Heard::Net(event));
        };
        let node = Node::open(Config::new(settings, lanes), listening, told)?;
        let clock = node.clock();
        let wrong = |why| ServiceError::Socket { path: socket.into(), why };
        let listener = Arc::new(UnixListener::bind(socket).map_err(wrong)?);
        let last = Arc::default();
        let work = Work::new(job, me, node, ends, heard.clone(), agent, Arc::clone(&last));
        let named = |name: &str| thread::Builder::new().name(name.into());
        let work = named("lightloom-work").spawn(move || work.run(&hears)).map_err(wrong)?;
        let (ranks, to) = (listener.clone(), heard.clone());
        named("lightloom-ranks").spawn(move || line::accept(&ranks, &to)).map_err(wrong)?;
        let socket = socket.into();
        Ok(Service { heard, listener, socket, clock, last, work: Some(work) })
    }

    /// The time of what the agent says.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// For whoever wants to know what was counted.
    pub fn watch(&self) -> Watch {
        Watch { heard: self.heard.clone(), last: self.last.clone() }
    }

    /// For whoever reads what the agent says.
    pub fn agent(&self) -> impl Fn(FromAgent) + Send + use<> {
        let heard = self.heard.clone();
        move |said| {
            let _ = heard.send(Heard::Agent(said));
        }
    }

    /// For whoever wants it to end before its ranks are done.
    pub fn ends(&self) -> impl Fn() + Send + use<> {
        let heard = self.heard.clone();
        move || {
            let _ = heard.send(Heard::End);
        }
    }

    /// Waits until all ranks have come and gone.
    ///
    /// # Errors
    /// A rank has ended before it was done.
    pub fn wait(mut self) -> Result<(), String> {
        let done = self.work.take().map(JoinHandle::join);
        done.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| Err("the runtime has panicked".into()))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.heard.send(Heard::End);
        if let Some(work) = self.work.take() {
            let _ = work.join();
        }
        // Whoever waits for the next rank ends.
        let _ = rustix::net::shutdown(self.listener.as_fd(), rustix::net::Shutdown::Both);
        let _ = std::fs::remove_file(&self.socket);
    }
}
