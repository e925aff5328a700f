//! What a run does about circuits and links: ports that change go dark and carry light again later,
//! links break and heal, and flows whose path is gone go on over another.
//!
//! A flow that moves starts afresh there, as a new queue pair would, and at once sends again what has
//! not arrived: its sender knows that it moved. What waits for a link that breaks is lost; what is on
//! the wire arrives.
//! Circuits that are claimed wait until nothing is on their ports. What a receiver answers over a NIC whose
//! port leads elsewhere does not wait while that is dark.
//! A balancer's paths that are not whole are replaced by others that are, each by the same one as long as
//! nothing more breaks; a flow that may have packets on one starts again too.

use crate::balancer::plug::{Paths, pick};
use crate::common::Common;
use crate::conn::Inbound;
use crate::halves::{Path, Sender};
use crate::link::State;
use crate::packet::NONE;
use crate::run::Run;
use crate::shard::Shard;
use lightloom_engine::{EngineError, LinkChanges, Patches};
use lightloom_fabric::{LinkId, NicId};
use lightloom_units::Time;
use lightloom_units::mix;

impl Run<'_> {
    pub(crate) fn reconfigure(
        &mut self,
        task: Option<u32>,
        patches: &Patches,
        now: Time,
    ) -> Result<(), EngineError> {
        let mut links = Vec::with_capacity(patches.patches.len() * 2);
        let mut displaces = false;
        for patch in &patches.patches {
            let touched = self.ledger.circuits.touched(patch);
            let used = |link: &LinkId| self.users[link.0 as usize] > 0;
            // Flows stay on a circuit that only goes dark for a while.
            let changes = self.ledger.circuits.leads_to(patch.tx) != patch.rx;
            displaces |= changes && touched.iter().flatten().any(used);
            links.extend(touched.into_iter().flatten());
            self.ledger.circuits.join(patch);
        }
        for link in &links {
            if let Some(link) = self.link(link.0).filter(|link| link.state == State::Up) {
                link.state = State::Dark;
            }
        }
        let wake = self.ledger.darkened(task, patches, links, now);
        self.wake(wake);
        if displaces { self.displace(&[], now) } else { Ok(()) }
    }

    /// Whether a patch that waits for its ports says where a link leads.
    pub(crate) fn is_awaited(&self, tx: LinkId) -> bool {
        self.awaited.iter().any(|(_, patches)| patches.patches.iter().any(|patch| patch.tx == tx))
    }

    /// Makes patches whose ports nothing is on any more, and starts what was postponed for them. What was
    /// ordered first has its ports first.
    pub(crate) fn patch_what_is_free(&mut self, now: Time) -> Result<(), EngineError> {
        let (mut at, mut wanted) = (0, Vec::new());
        while at < self.awaited.len() {
            let circuits = &self.ledger.circuits;
            let (task, patches) = &mut self.awaited[at];
            let task = *task;
            patches.patches.retain(|patch| circuits.leads_to(patch.tx) != patch.rx);
            let touched = patches.patches.iter().flat_map(|patch| circuits.touched(patch));
            let touched: Vec<LinkId> = touched.flatten().collect();
            let busy = |link: &LinkId| self.users[link.index()] > 0 || wanted.contains(link);
            if touched.iter().any(busy) {
                wanted.extend(touched);
                at += 1;
                continue;
            }
            let (_, patches) = self.awaited.remove(at);
            if !patches.patches.is_empty() {
                self.reconfigure(Some(task), &patches, now)?;
            }
            // Before anything else takes the ports again.
            for (track, ordered) in std::mem::take(&mut self.postponed) {
                let sending = self.ledger.resume(track, now)?;
                self.launch(sending, ordered, now)?;
            }
        }
        Ok(())
    }

    pub(crate) fn incident(&mut self, changes: &LinkChanges, now: Time) -> Result<(), EngineError> {
        for link_name in &changes.down {
            let link = link_name;
            if let Some(link) = self.link(link.0) {
                link.state = State::Down;
                self.lose_queue(link_name.0, now.ps());
            }
        }
        if !changes.patches.patches.is_empty() {
            self.reconfigure(None, &changes.patches, now)?;
        }
        self.displace(&changes.down, now)?;
        self.set_ready(&changes.up, now);
        changes.rates.iter().for_each(|&(link, rate)| self.set_rate(link, rate));
        Ok(())
    }

    pub(crate) fn set_ready(&mut self, links: &[LinkId], now: Time) {
        for link in links {
            let place = self.layout.places[link.index()];
            let Some(link) = self.link(link.0) else { continue };
            link.state = State::Up;
            let (shards, common) = self.split();
            shards[place.shard()].kick(&common, place.at(), now.ps());
        }
    }

    fn lose_queue(&mut self, link: u32, now: u64) {
        let place = self.layout.places[link as usize];
        let (shards, common) = self.split();
        let (shard, at) = (&mut shards[place.shard()], place.at());
        while let Some(id) = shard.links[at as usize].control.pop(&shard.pool.packets) {
            shard.drop_packet(&common, at, id);
        }
        while let Some(id) = shard.unqueue(&common, at, now) {
            shard.drop_packet(&common, at, id);
        }
    }

    /// Whether packets of a connection may be on an alternative of which one of these links is part.
    fn is_cut(&self, sender: &Sender, broke: &[LinkId]) -> bool {
        let Path { source, destination, alternatives, .. } = sender.path;
        if broke.is_empty() || alternatives < 2 {
            return false;
        }
        let mut path = Vec::new();
        let mut over = |index: u16| {
            path.clear();
            let ends = (NicId(source), NicId(destination));
            self.scenario.fabric.nic_path(ends.0, ends.1, index.into(), &mut path);
            path.iter().any(|link| broke.contains(link))
        };
        match self.spec.balancer.kind().capabilities.paths {
            Paths::EveryPacket | Paths::EveryHop => (0..alternatives).any(over),
            Paths::One | Paths::Route => over(sender.taken),
        }
    }

    /// Moves flows whose paths are not whole to where the policy says; those of which packets may have
    /// been lost with other paths start again.
    fn displace(&mut self, broke: &[LinkId], now: Time) -> Result<(), EngineError> {
        let mut path = Vec::new();
        for id in 0..self.conns.len() as u32 {
            let conn = self.conns[id as usize];
            if conn.done {
                continue;
            }
            let sender = self.sender(id);
            path.clear();
            path.extend(sender.links.iter().map(|&link| LinkId(link)));
            if self.ledger.circuits.is_whole(&path) {
                if sender.in_flight > 0 && self.is_cut(sender, broke) {
                    self.move_to(id, &path, now)?;
                }
                continue;
            }
            let track = self.flows[conn.flow as usize].track;
            self.ledger.divert(track, conn.lane, now)?;
            path.clear();
            path.extend_from_slice(self.ledger.lane(track, conn.lane));
            self.move_to(id, &path, now)?;
        }
        Ok(())
    }

    /// Whether one of the equal paths of two NICs is whole.
    pub(crate) fn any_whole(&self, from: NicId, to: NicId, alternatives: u32) -> bool {
        let mut path = Vec::new();
        !self.ledger.circuits.ever_broke()
            || (0..alternatives).any(|index| {
                path.clear();
                self.scenario.fabric.nic_path(from, to, index, &mut path);
                self.ledger.circuits.is_whole(&path)
            })
    }

    /// Gives a connection another path. It leaves the ring of its first link for that of the new one.
    fn move_to(&mut self, id: u32, lane: &[LinkId], now: Time) -> Result<(), EngineError> {
        self.count_on_circuits(id, false);
        let conn = self.conns[id as usize];
        let ((here, sender), (there, receiver)) = (conn.sender, conn.receiver);
        let ends = |links: &[LinkId]| {
            let last = links[links.len() - 1].0 ^ 1;
            (self.layout.units[links[0].index()], self.layout.units[last as usize])
        };
        let old: Vec<LinkId> = self.sender(id).links.iter().map(|&link| LinkId(link)).collect();
        if ends(lane) != ends(&old) {
            let task = self.ledger.task_of(self.flows[conn.flow as usize].track);
            let reason = "a flow moved to a path between other servers".into();
            return Err(EngineError::Policy { task, reason });
        }
        self.shards[here].leave(sender);
        let mtu = u64::from(self.sender(id).mtu);
        let route = self.route(conn.flow, lane, mtu, now);
        let first_link = self.layout.places[route.links[usize::from(route.fetched_over)] as usize];
        let mut moved = self.sender(id).clone();
        let message = moved.message as usize;
        moved.count_in_flight(&mut self.shards[here].messages[message], 0);
        moved.change(route, first_link.at());
        let of = &mut self.shards[there].receivers[receiver as usize];
        if self.settings.go_back_n {
            moved.next_seq = moved.unacked;
        } else {
            moved.send_missing_again(of);
        }
        of.follow(&moved);
        self.shards[here].senders[sender as usize] = moved;
        let control = self.control(id, now);
        let inbound = self.shards[there].receivers[receiver as usize].inbound as usize;
        let Inbound { bytes, received, .. } = self.shards[there].inbounds[inbound];
        self.shards[there].inbounds[inbound].to_grant =
            self.to_grant(&control, (bytes - received).div_ceil(mtu));
        self.shards[here].messages[message].control = control;
        if let Some(outside) = &mut self.shards[here].outside {
            outside.begins(sender);
        }
        let ideal = self.ideal(id, self.flows[conn.flow as usize].bytes);
        let known = &mut self.flows[conn.flow as usize].ideal;
        *known = ideal.min(*known);
        self.count_on_circuits(id, true);
        let (shards, common) = self.split();
        shards[here].ready(&common, sender, now.ps());
        Ok(())
    }
}

impl Shard<'_> {
    /// A sender leaves the ring of its first link, if it is in it.
    fn leave(&mut self, id: u32) {
        let sender = &mut self.senders[id as usize];
        let at = sender.first_link;
        if !std::mem::take(&mut sender.in_ring) {
            return;
        }
        // Find the one before it; the ring holds the flows of one link.
        let mut before = id;
        while self.senders[before as usize].ready_next != id {
            before = self.senders[before as usize].ready_next;
        }
        self.senders[before as usize].ready_next = self.senders[id as usize].ready_next;
        let senders = &mut self.links[at as usize].senders;
        if *senders == id {
            *senders = if before == id { NONE } else { before };
        }
    }

    /// Replaces the alternative that the path of a packet ends with, if that is not whole, by another.
    pub(crate) fn keep_whole(&mut self, c: &Common<'_>, id: u32, alternative: u16) {
        let sender = &self.senders[id as usize];
        let Path { before, source, destination, alternatives, .. } = sender.path;
        let start = usize::from(before - sender.fetched_over);
        let key = mix(c.seed ^ u64::from(sender.conn) << 16 ^ u64::from(alternative));
        let tries = 4 * u64::from(alternatives);
        let drawn = (0..tries).map(|turn| pick(key.wrapping_add(turn), alternatives));
        for other in drawn.chain(0..alternatives) {
            if c.circuits.is_whole(&self.path[start..]) {
                return;
            }
            self.path.truncate(start);
            c.fabric.nic_path(NicId(source), NicId(destination), other.into(), &mut self.path);
        }
    }
}
