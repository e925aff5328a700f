//! Connections begin, say hello, take the place of others, and end.

use super::connection::{Connection, Phase, Reader, Writer};
use super::failure::LaneError;
use super::fields::{HEADER, part};
use super::hello::{HELLO, Hello, HelloError, Side, TAG, proves, tag};
use super::lane::{Dial, Item};
use super::machine::Exchange;
use super::name::{ConnectionId, LaneId, Nic, Tunnel};
use super::output::Output;
use crate::planted::Planted;
use lightloom_units::Time;

/// So many connections may have yet to say hello. Those that a peer accepts count too.
const STRANGERS: usize = 64;

impl Exchange {
    /// The caller has begun to open a connection for a lane, as [`Output::Dial`] asked. If that fails, it calls
    /// [`Exchange::closed`]. `nonce` is drawn at random.
    ///
    /// # Errors
    /// The lane is not to be dialed now; the caller closes what it has opened.
    pub fn dialed(
        &mut self,
        now: Time,
        lane: LaneId,
        nonce: [u8; 16],
    ) -> Result<ConnectionId, LaneError> {
        self.advance(now);
        let asked = self.lanes.get(lane.at()).filter(|it| it.dial == Dial::Asked);
        let Some(spec) = asked.map(|it| it.spec) else { return Err(LaneError::Closed) };
        let mine = self.hello(lane, nonce).encode();
        let patience = self.lanes[lane.at()].patience;
        let connection =
            self.open((spec.nic, nonce), Phase::Dials { lane, mine }, HELLO + TAG, patience);
        let it = &mut self.lanes[lane.at()];
        it.dial = Dial::Hello(connection);
        it.patience = patience.saturating_add(patience).min(self.settings.handshake);
        if let Some(it) = self.connections.get_mut(connection.0) {
            it.writer.push(&mine);
        }
        self.wake(connection);
        Ok(connection)
    }

    /// The caller has accepted a connection at a NIC. `nonce` is drawn at random.
    ///
    /// # Errors
    /// Too many have yet to say hello; the caller closes it.
    pub fn accepted(
        &mut self,
        now: Time,
        nic: Nic,
        nonce: [u8; 16],
    ) -> Result<ConnectionId, LaneError> {
        self.advance(now);
        let strangers = self.connections.iter();
        let strangers = strangers.filter(|(_, it)| it.lane().is_none() && it.via.is_none()).count();
        if strangers >= STRANGERS {
            return Err(LaneError::Strangers { most: STRANGERS });
        }
        Ok(self.open((nic, nonce), Phase::Accepts { nonce }, HELLO, self.settings.handshake))
    }

    /// A connection was closed by the other end or by what is between, or could not be opened.
    pub fn closed(&mut self, now: Time, connection: ConnectionId) {
        self.advance(now);
        self.end(connection, LaneError::Closed);
    }

    /// Asks the caller to dial a lane, if it is time.
    pub(crate) fn dial(&mut self, lane: LaneId) {
        let it = &self.lanes[lane.at()];
        let Dial::Idle(at) = it.dial else { return };
        if !it.dials || it.connection.is_some() || !self.allowed(lane) || !self.is_wanted(lane) {
            return;
        }
        if self.now < at {
            return self.schedule(at);
        }
        if it.needs_relay() {
            return self.dig(lane);
        }
        self.lanes[lane.at()].dial = Dial::Asked;
        self.outputs.push_back(Output::Dial { lane });
    }

    /// What this endpoint says of itself on a lane.
    pub(crate) fn hello(&self, lane: LaneId, nonce: [u8; 16]) -> Hello {
        let spec = self.lanes[lane.at()].spec;
        Hello {
            from: self.settings.endpoint,
            nic: spec.nic,
            to: spec.peer,
            to_nic: spec.peer_nic,
            way: spec.way,
            job: self.settings.job,
            life: self.settings.life,
            allowance: self.settings.allowance,
            nonce,
        }
    }

    /// A connection begins; this end has drawn `nonce` for its hello.
    pub(crate) fn open(
        &mut self,
        (nic, nonce): (Nic, [u8; 16]),
        phase: Phase,
        want: usize,
        patience: Time,
    ) -> ConnectionId {
        let due = self.now.saturating_add(patience);
        self.schedule(due);
        let (writer, reader) = (Writer::new(), Reader::new(want));
        let (asked, via) = (false, None);
        let opened = Connection { phase, nic, nonce, via, due, asked, writer, reader };
        ConnectionId(self.connections.insert(opened))
    }

    /// A part of hello has come as a whole.
    pub(crate) fn greeted(&mut self, id: ConnectionId) -> Result<(), LaneError> {
        let Some(it) = self.connections.get_mut(id.0) else { return Ok(()) };
        let phase = it.phase.clone();
        let read = it.reader.take(HEADER);
        let said: [u8; HELLO] = part(&read, 0);
        match phase {
            Phase::Dials { lane, mine } => {
                let hello = Hello::decode(&said, self.settings.job)?;
                let own = self.hello(lane, [0; 16]);
                let meant = (hello.from, hello.nic, hello.to, hello.to_nic, hello.way);
                if meant != (own.to, own.to_nic, own.from, own.nic, own.way) {
                    return Err(hello.misfit().into());
                }
                self.prove(Side::Accepts, &mine, &said, &read[HELLO..HELLO + TAG], hello.from)?;
                let proof = tag(&self.settings.secret, Side::Dials, &mine, &said);
                self.say(id, &proof);
                self.bind(lane, id, &hello)
            }
            Phase::Accepts { nonce } => self.answer(id, &said, nonce),
            Phase::Proves { lane, mine, theirs } => {
                let hello = Hello::decode(&theirs, self.settings.job)?;
                self.prove(Side::Dials, &theirs, &mine, &read[..TAG], hello.from)?;
                self.bind(lane, id, &hello)
            }
            Phase::Up { .. } => Ok(()),
        }
    }

    /// Somebody has dialed and said who it is.
    fn answer(
        &mut self,
        id: ConnectionId,
        theirs: &[u8; HELLO],
        nonce: [u8; 16],
    ) -> Result<(), LaneError> {
        let hello = Hello::decode(theirs, self.settings.job)?;
        let Some(it) = self.connections.get_mut(id.0) else { return Ok(()) };
        let lane = self.ends.get(&(hello.from, hello.nic, hello.to_nic, hello.way)).copied();
        let here = hello.to == self.settings.endpoint && hello.to_nic == it.nic;
        let lane = lane.filter(|lane| here && !self.lanes[lane.at()].dials);
        let lane = lane.ok_or_else(|| hello.misfit())?;
        let mine = self.hello(lane, nonce).encode();
        let proof = tag(&self.settings.secret, Side::Accepts, theirs, &mine);
        if let Some(it) = self.connections.get_mut(id.0) {
            it.phase = Phase::Proves { lane, mine, theirs: *theirs };
            it.reader.take(TAG);
        }
        self.lanes[lane.at()].statistics.stream_bytes_received += HELLO as u64;
        self.say(id, &mine);
        self.say(id, &proof);
        Ok(())
    }

    fn prove(
        &self,
        side: Side,
        dialer: &[u8; HELLO],
        accepter: &[u8; HELLO],
        tag: &[u8],
        from: super::name::Endpoint,
    ) -> Result<(), HelloError> {
        let proven = proves(&self.settings.secret, side, dialer, accepter, tag);
        let trusts = self.bug.is(Planted::TrustsStrangers);
        if proven || trusts { Ok(()) } else { Err(HelloError::Proof { from }) }
    }

    /// Writes a part of hello.
    pub(crate) fn say(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(it) = self.connections.get_mut(id.0) {
            it.writer.push(bytes);
        }
        self.wake(id);
    }

    /// Hello is over: the connection is its lane's.
    fn bind(&mut self, lane: LaneId, id: ConnectionId, hello: &Hello) -> Result<(), LaneError> {
        let peer = self.lanes[lane.at()].peer;
        let (life, over) = (self.peers[peer].life, self.peers[peer].over);
        let ignores = self.bug.is(Planted::IgnoresLives);
        if (hello.life < life || hello.life <= over) && !ignores {
            let allowed = life.max(over.saturating_add(1));
            return Err(HelloError::Life { from: hello.from, found: hello.life, allowed }.into());
        }
        if hello.life > life && (!ignores || life == 0) {
            self.renew(peer, hello.life);
        }
        if let Some(old) = self.lanes[lane.at()].connection {
            self.shut(old, LaneError::Replaced);
        }
        let Some(it) = self.connections.get_mut(id.0) else { return Ok(()) };
        it.phase = Phase::Up { lane };
        let now = self.now;
        let it = &mut self.lanes[lane.at()];
        it.reset(now);
        (it.connection, it.progress, it.spoke) = (Some(id), now, now);
        let by_relay = it.needs_relay();
        let settings = &self.settings;
        it.patience = if by_relay { settings.relay_patience() } else { settings.first_patience() };
        it.asked = 0;
        self.peers[peer].heard = now;
        self.peers[peer].pledges.allowance = hello.allowance.into();
        self.schedule(now.saturating_add(self.settings.beat));
        self.outputs.push_back(Output::Up { lane });
        self.serve(peer);
        if !by_relay {
            self.spare_relay(peer);
        }
        Ok(())
    }

    /// Closes a connection, for a reason.
    pub(crate) fn shut(&mut self, connection: ConnectionId, error: LaneError) {
        let Some(it) = self.connections.get(connection.0) else { return };
        match it.via {
            None => self.outputs.push_back(Output::Close { connection, error }),
            Some(via) => self.say_of_tunnel((via.lane, via.carrier), Item::Shut(via.tunnel)),
        }
        self.end(connection, error);
    }

    /// A connection is gone: what was on it may be lost.
    pub(crate) fn end(&mut self, id: ConnectionId, error: LaneError) {
        let Some(it) = self.connections.remove(id.0) else { return };
        let next = self.now.saturating_add(self.settings.retry);
        if let Some(via) = it.via {
            let Tunnel { source, target, number } = via.tunnel;
            let peer = if source == self.settings.endpoint { target } else { source };
            if self.tunnels.get(&(peer, number)) == Some(&id) {
                self.tunnels.remove(&(peer, number));
            }
        }
        self.give_back(it.writer.lends);
        match it.phase {
            Phase::Up { lane } if self.lanes[lane.at()].connection == Some(id) => {
                self.down(lane, error, next);
            }
            Phase::Dials { lane, .. } if self.lanes[lane.at()].dial == Dial::Hello(id) => {
                // Whoever was waited for has had his time.
                let had_time = error == LaneError::Silent || it.via.is_some();
                let next = if had_time { self.now } else { next };
                self.lanes[lane.at()].dial = Dial::Idle(next);
                self.dial(lane);
            }
            _ => {}
        }
    }

    /// A lane is down: what was not acknowledged goes elsewhere, and the circuit has lost it for good.
    fn down(&mut self, lane: LaneId, error: LaneError, next: Time) {
        self.await_no_mark(lane);
        let it = &mut self.lanes[lane.at()];
        let (peer, port) = (it.peer, it.spec.port());
        let flying: Vec<Item> = it.flying.drain(..).collect();
        let queued = it.take_queue();
        let marks = it.control.drain(..).count(); // only marks are left
        it.reset(next);
        let by_relay = it.needs_relay();
        it.statistics.breaks += 1;
        self.outputs.push_back(Output::Down { lane, error });
        if let Some(port) = port {
            (0..flying.len() + marks).for_each(|_| self.runtime.landed(port));
        }
        for item in flying {
            let again = match item {
                Item::Chunk(chunk) => {
                    let alive = self.operations.get(chunk.operation.0).is_some();
                    self.lanes[lane.at()].statistics.resent += u64::from(alive);
                    !self.bug.is(Planted::ForgetsUnacknowledged)
                }
                Item::Ready { .. } | Item::Over { .. } | Item::Fail(_) => {
                    !self.bug.is(Planted::ForgetsControl)
                }
                Item::Mark | Item::Beat | Item::Open(_) | Item::Shut(_) | Item::Part => false,
            };
            if again {
                self.route(peer, item);
            }
        }
        queued.into_iter().for_each(|item| self.route(peer, item));
        if !by_relay {
            self.end_tunnels(lane);
            self.miss(peer);
        }
        self.say_runtime();
        self.dial(lane);
    }
}
