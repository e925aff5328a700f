//! Whoever dials is let in, or not.

use super::gate::Place;
use super::outputs::nonce;
use super::reactor::Reactor;
use super::transport::{Stream, Transport};
use lightloom_units::Time;
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// So many are let in, or not, at a NIC in one round.
const GUESTS: usize = 16;
/// If there are no files left, the next is let in after this.
const PAUSE: Time = Time::from_ms(50);

impl<T: Transport> Reactor<T> {
    /// Whether somebody may be waiting and may be let in, if nobody is before that time.
    pub fn is_knocked_at(&self, shut: Time) -> bool {
        shut <= self.clock.now() && self.doors.iter().any(|door| door.knocks)
    }

    /// Lets in who waits.
    pub fn let_in(&mut self) {
        if !self.is_knocked_at(self.shut) {
            return;
        }
        for at in 0..self.doors.len() {
            for _ in 0..GUESTS {
                if !self.doors[at].knocks {
                    break;
                }
                match self.transport.accept(&self.doors[at].listener) {
                    Ok((stream, from)) => self.welcome(at, stream, from),
                    Err(why) if why.kind() == ErrorKind::WouldBlock => {
                        self.doors[at].knocks = false;
                    }
                    Err(why) if is_full(&why) => {
                        self.shut = self.clock.now().saturating_add(PAUSE);
                        return;
                    }
                    Err(_) => {} // whoever that was is gone
                }
            }
        }
    }

    fn welcome(&mut self, at: usize, stream: T::Stream, from: SocketAddr) {
        if !self.gate.admits(self.clock.now(), from.ip()) {
            return stream.reset(self.poll.registry());
        }
        loop {
            match self.gate.place(from.ip()) {
                Place::Free => break,
                Place::Of(oldest) => self.closed(oldest, None),
                Place::None => return stream.reset(self.poll.registry()),
            }
        }
        let accepted = nonce()
            .ok()
            .and_then(|nonce| self.exchange.accepted(self.clock.now(), at as u16, nonce).ok());
        let Some(id) = accepted else { return stream.reset(self.poll.registry()) };
        self.gate.enter(id, from.ip());
        self.carry_out();
        if self.sockets.insert(self.poll.registry(), id, stream, None).is_err() {
            self.closed(id, None);
        }
    }
}

/// Whether an error says that there are no files, or no memory, left.
fn is_full(why: &io::Error) -> bool {
    let full = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    full.iter().any(|it| why.raw_os_error() == Some(it.raw_os_error()))
}
