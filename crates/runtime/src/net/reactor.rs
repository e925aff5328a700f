//! The thread of a node: it waits for what happens, and gives connections their turns.
//!
//! A round is: what the owner wants, what is due, who has dialed, a turn for each connection that has something
//! to do, then a look at what has happened. A turn moves a bounded number of bytes, so no connection keeps others
//! waiting. The kernel tells once that a socket can be read or written again (edge-triggered), so a socket counts as
//! ready until a call says that it is not.

use super::clock::Clock;
use super::command::{Command, Posted};
use super::config::{Config, Event, NicConfig, OpenError, PostFailure};
use super::gate::Gate;
use super::listening::Listening;
use super::sockets::Sockets;
use super::transport::{Stream, Transport};
use crate::exchange::{Exchange, LaneId, LaneSpec, OperationId};
use lightloom_units::Time;
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// So much may be read beyond its place, to be copied there: a header and what is small cost no call of their own
/// \[B\].
const AHEAD: usize = 512;

/// So many commands in a round.
const COMMANDS: usize = 64;
/// So many events at once.
const EVENTS: usize = 256;
/// Nothing waits for longer; what is due later is looked at then.
const LONGEST: Duration = Duration::from_secs(3600);

const WAKER: Token = Token(0);

/// A listener.
pub(super) struct Door<L> {
    pub listener: L,
    /// Somebody may have dialed.
    pub knocks: bool,
}

/// What the thread has.
pub(super) struct Reactor<T: Transport> {
    pub exchange: Exchange,
    pub clock: Clock,
    pub transport: T,
    pub nics: Vec<NicConfig>,
    pub lanes: Vec<(LaneSpec, SocketAddr)>,
    pub poll: Poll,
    pub doors: Vec<Door<T::Listener>>,
    /// Nobody is let in before: there are no files left.
    pub shut: Time,
    pub gate: Gate,
    pub sockets: Sockets<T::Stream>,
    pub dials: VecDeque<LaneId>,
    /// Why a lane could not be opened, as was told last.
    pub told: HashMap<LaneId, io::ErrorKind>,
    pub posted: HashMap<OperationId, (u32, Posted)>,
    pub events: Box<dyn FnMut(Event) + Send>,
    /// What is read into nothing.
    pub sink: Vec<u8>,
    /// What is read beyond its place.
    pub ahead: [u8; AHEAD],
    commands: Receiver<Command>,
    last_words: Time,
}

impl<T: Transport> Reactor<T> {
    pub fn new(
        config: Config,
        listening: Listening<T>,
        events: Box<dyn FnMut(Event) + Send>,
        commands: Receiver<Command>,
    ) -> Result<(Self, Waker), OpenError> {
        let Config { settings, lanes, clock, last_words } = config;
        let Listening { transport, nics, listeners, .. } = listening;
        for (lane, (spec, _)) in lanes.iter().enumerate() {
            let (found, nics) = (spec.nic, nics.len());
            if usize::from(found) >= nics {
                return Err(OpenError::Nic { lane, found, nics });
            }
        }
        let system = |what| move |why| OpenError::System { what, why };
        let poll = Poll::new().map_err(system("cannot open an epoll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(system("cannot open an eventfd"))?;
        let mut doors = Vec::new();
        for (at, mut listener) in listeners.into_iter().enumerate() {
            let register = poll.registry().register(
                &mut listener,
                Token(WAKER.0 + 1 + at),
                Interest::READABLE,
            );
            register.map_err(system("cannot watch a listener"))?;
            doors.push(Door { listener, knocks: true });
        }
        let specs = lanes.iter().map(|lane| lane.0).collect();
        let me = settings.endpoint;
        let exchange = Exchange::new(settings, specs, clock.now())?;
        let dialers = lanes.iter().filter(|lane| lane.0.peer < me).map(|lane| lane.1.ip());
        let reactor = Reactor {
            exchange,
            clock,
            transport,
            nics,
            gate: Gate::new(dialers),
            lanes,
            poll,
            sockets: Sockets::new(WAKER.0 + 1 + doors.len()),
            doors,
            shut: Time::ZERO,
            dials: VecDeque::new(),
            told: HashMap::new(),
            posted: HashMap::new(),
            events,
            sink: Vec::new(),
            ahead: [0; AHEAD],
            commands,
            last_words,
        };
        Ok((reactor, waker))
    }

    /// Runs until its owner wants it to end.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut end = None;
        self.carry_out();
        loop {
            let more = match end {
                None => self.obey(&mut end),
                Some(_) => false,
            };
            let now = self.clock.now();
            if now >= self.exchange.next_timeout() {
                self.exchange.timeout(now);
                self.carry_out();
            }
            self.let_in();
            for _ in 0..self.sockets.round() {
                if let Some(id) = self.sockets.turn() {
                    self.read(id);
                    self.write(id);
                    self.sockets.queue(id);
                }
            }
            if end.is_some_and(|end| self.sockets.has_written() || self.clock.now() >= end) {
                break;
            }
            let wait = if more { Duration::ZERO } else { self.patience(end) };
            match self.poll.poll(&mut events, Some(wait)) {
                Ok(()) => events.iter().for_each(|event| self.happened(event)),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break, // this process has closed the epoll's file: nothing can be done
            }
        }
        self.end();
    }

    /// How long to wait if nothing happens.
    fn patience(&self, end: Option<Time>) -> Duration {
        if self.sockets.round() > 0 || self.is_knocked_at(self.shut) {
            return Duration::ZERO;
        }
        let mut due = self.exchange.next_timeout().min(end.unwrap_or(Time::MAX));
        if self.is_knocked_at(Time::ZERO) {
            due = due.min(self.shut);
        }
        let left = due.saturating_sub(self.clock.now());
        Duration::from_nanos(left.ps().div_ceil(1000)).min(LONGEST)
    }

    fn happened(&mut self, event: &mio::event::Event) {
        match event.token().0.checked_sub(WAKER.0 + 1) {
            None => {}
            Some(at) if at < self.doors.len() => self.doors[at].knocks = true,
            Some(_) => self.sockets.happened(event),
        }
    }

    /// Does what the owner wants. Says whether there may be more.
    fn obey(&mut self, end: &mut Option<Time>) -> bool {
        for _ in 0..COMMANDS {
            let now = self.clock.now();
            match self.commands.try_recv() {
                Ok(Command::Call(call)) => call(&mut self.exchange, now),
                Ok(Command::Post(post)) => self.post(post),
                Err(std::sync::mpsc::TryRecvError::Empty) => return false,
                Ok(Command::End) | Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    let groups: Vec<u32> = self.posted.values().map(|it| it.0).collect();
                    groups.into_iter().for_each(|group| self.exchange.abort(now, group));
                    *end = Some(now.saturating_add(self.last_words));
                    self.carry_out();
                    return false;
                }
            }
            self.carry_out();
        }
        true
    }

    /// Closes everything; whoever waits hears of it.
    fn end(mut self) {
        for id in self.sockets.ids() {
            if let Some(socket) = self.sockets.remove(id) {
                socket.stream.finish(self.poll.registry());
            }
        }
        self.posted.drain().for_each(|(_, (_, posted))| posted.over(Err(PostFailure::Ended)));
    }
}
