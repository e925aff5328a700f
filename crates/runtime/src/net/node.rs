//! A node: an endpoint that runs, and the handle of its owner.

use super::clock::Clock;
use super::command::{Command, Done, Post, Posted};
use super::config::{Config, Event, JoinFailure, OpenError, PostFailure};
use super::listening::Listening;
use super::memory::Memory;
use super::reactor::Reactor;
use super::transport::Transport;
use crate::exchange::{Endpoint, Exchange, Plan, Transfer};
use lightloom_control::Use;
use lightloom_units::Time;
use mio::Waker;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// An endpoint that runs: its sockets, its clock and its thread. The [module](super) has an example.
///
/// Any thread may call it. Calls without an answer are carried out in the order in which one thread makes them.
/// [`Node::join`] and [`Node::ask`] wait for the node's thread, so they must not be called on it, which is where
/// `events` and `done` run; there they answer as if the endpoint had ended.
pub struct Node {
    addresses: Vec<SocketAddr>,
    clock: Clock,
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    /// Opens an endpoint. It dials its lanes, and lets in who has dialed since it listens. `events` is called on its
    /// thread: it must be short, and must not panic.
    ///
    /// # Errors
    /// Settings, lanes or NICs that do not fit; no file or thread left.
    pub fn open<T: Transport>(
        config: Config,
        listening: Listening<T>,
        events: impl FnMut(Event) + Send + 'static,
    ) -> Result<Node, OpenError> {
        let (addresses, clock) = (listening.addresses.clone(), config.clock);
        let name = format!("lightloom-net-{}", config.settings.endpoint);
        let (commands, receiver) = channel();
        let (reactor, waker) = Reactor::new(config, listening, Box::new(events), receiver)?;
        let spawned = thread::Builder::new().name(name).spawn(move || reactor.run());
        let thread =
            spawned.map_err(|why| OpenError::System { what: "cannot start a thread", why })?;
        Ok(Node { addresses, clock, commands, waker, thread: Some(thread) })
    }

    /// Where each NIC listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The clock of the endpoint; the end of what [`Node::told`] tells is in its time.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// As [`Exchange::join`]. Waits for the endpoint's thread.
    ///
    /// # Errors
    /// Why it was refused, or that the endpoint has ended.
    pub fn join(&self, group: u32, members: Vec<(Endpoint, u64)>) -> Result<(), JoinFailure> {
        let answer = self.query(move |exchange, now| exchange.join(now, group, &members));
        Ok(answer.ok_or(JoinFailure::Ended)??)
    }

    /// As [`Exchange::leave`].
    pub fn leave(&self, group: u32) {
        self.call(move |exchange, now| exchange.leave(now, group));
    }

    /// As [`Exchange::abort`].
    pub fn abort(&self, group: u32) {
        self.call(move |exchange, now| exchange.abort(now, group));
    }

    /// Begins an operation, as [`Exchange::post`]. `plan` makes its plan on the node's thread, from the lanes that may
    /// be used then. The memory is the endpoint's until `done` is called, which is once, on the node's thread:
    /// with the memory once all has come and all was acknowledged, or with the reason of a failure, when the
    /// memory was dropped. `done` must be short, and must not panic.
    #[allow(clippy::too_many_arguments)] // each is another thing
    pub fn post<P: Into<Plan>>(
        &self,
        group: u32,
        number: u64,
        sends: Vec<Transfer>,
        receives: Vec<Transfer>,
        plan: impl FnOnce(&Exchange) -> P + Send + 'static,
        memory: Memory,
        done: impl FnOnce(Result<Memory, PostFailure>) + Send + 'static,
    ) {
        let posted = Posted { memory, done: Done::new(Box::new(done)) };
        let plan = Box::new(|exchange: &Exchange| plan(exchange).into());
        self.tell(Command::Post(Post { group, number, sends, receives, plan, posted }));
    }

    /// As [`Exchange::told`].
    pub fn told(&self, told: Use) {
        self.call(move |exchange, now| exchange.told(now, told));
    }

    /// As [`Exchange::drain`].
    pub fn drain(&self, token: u64, ports: Vec<u16>) {
        self.call(move |exchange, now| exchange.drain(now, token, &ports));
    }

    /// As [`Exchange::forsaken`].
    pub fn forsaken(&self) {
        self.call(|exchange, now| exchange.forsaken(now));
    }

    /// As [`Exchange::lost`].
    pub fn lost(&self, endpoint: Endpoint) {
        self.call(move |exchange, now| exchange.lost(now, endpoint));
    }

    /// Asks the machine something; `None` if the endpoint has ended. Waits for the endpoint's thread.
    pub fn ask<A: Send + 'static>(
        &self,
        question: impl FnOnce(&Exchange) -> A + Send + 'static,
    ) -> Option<A> {
        self.query(move |exchange, _| question(exchange))
    }

    fn query<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Exchange, Time) -> A + Send + 'static,
    ) -> Option<A> {
        if self.is_own_thread() {
            return None;
        }
        let (answer, answers) = sync_channel(1);
        self.call(move |exchange, now| {
            let _ = answer.send(question(exchange, now)); // whoever has asked waits
        });
        answers.recv().ok()
    }

    fn call(&self, call: impl FnOnce(&mut Exchange, Time) + Send + 'static) {
        self.tell(Command::Call(Box::new(call)));
    }

    /// If the thread has ended, the command is dropped, and whoever waits for it hears that.
    fn tell(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            let _ = self.waker.wake(); // it fails only if the thread has ended
        }
    }

    fn is_own_thread(&self) -> bool {
        let own = self.thread.as_ref().map(|it| it.thread().id());
        own == Some(thread::current().id())
    }
}

/// Gives up groups with operations under way, at all members; says what peers wait for, for a short time; closes
/// everything and ends the thread.
impl Drop for Node {
    fn drop(&mut self) {
        self.tell(Command::End);
        if self.is_own_thread() {
            return; // it ends after what it does now
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic was told when it happened
        }
    }
}
