//! Whom the listeners let in: strangers are few, and peers get past them.
//!
//! A connection is of a stranger until its hello is over. Those that have said nothing yet have few places, by address
//! and in all; one more takes the place of the oldest, not the other way round. A peer says hello as soon as its
//! connection is there, before anybody could push it out, but whoever sits and says nothing would hold a
//! place for the whole of the settings' `handshake`. Those that have said whom they want, with a proof to come, have
//! places of their own. Addresses of peers come first: a connection from elsewhere never takes a place from
//! them. An address of no peer may open only so many connections a second; more are closed as they come.
//!
//! Ignored: a stranger at a peer's address who is faster than the peer; he shares the address's places with it.

use crate::exchange::ConnectionId;
use lightloom_units::Time;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// An address of no peer may have so many that have said nothing.
const OF_AN_ADDRESS: usize = 8;
/// One of a peer so many, or twice as many as it has lanes here, if that is more.
const OF_A_PEER: usize = 32;
/// So many may have said nothing; the exchange allows so many.
const SILENT: usize = 64;
/// Those of them that come from no peer's address.
const SILENT_ELSEWHERE: usize = 32;
/// So many may have said whom they want.
const GREETED: usize = 256;
/// An address of no peer opens so many connections at once, and then one in each `EACH`.
const BURST: u64 = 32;
const EACH: Time = Time::from_ms(50);
/// So many addresses of no peer are remembered.
const REMEMBERED: usize = 1024;

/// A connection whose hello is not over.
#[derive(Clone, Copy, Debug)]
struct Stranger {
    connection: ConnectionId,
    from: IpAddr,
    of_peer: bool,
    /// It has said nothing that makes sense.
    silent: bool,
}

/// Whether there is a place for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Free,
    /// Once this connection is closed.
    Of(ConnectionId),
    /// There is none.
    None,
}

/// Keeps count of strangers.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// Addresses of peers, and the lanes that each has here.
    peers: HashMap<IpAddr, usize>,
    /// In the order in which they came.
    strangers: Vec<Stranger>,
    /// By address of no peer: when it would have spent nothing of its burst.
    spent: HashMap<IpAddr, Time>,
}

impl Gate {
    /// A gate for peers that have these addresses, one for each lane.
    pub fn new(lanes: impl Iterator<Item = IpAddr>) -> Self {
        let mut peers = HashMap::new();
        lanes.for_each(|address| *peers.entry(network(address)).or_default() += 1);
        Gate { peers, strangers: Vec::new(), spent: HashMap::new() }
    }

    /// Whether somebody who has opened a connection is let in.
    pub fn admits(&mut self, now: Time, from: IpAddr) -> bool {
        let from = network(from);
        if self.peers.contains_key(&from) {
            return true;
        }
        if self.spent.len() >= REMEMBERED && !self.spent.contains_key(&from) {
            self.spent.retain(|_, free| *free > now);
            if self.spent.len() >= REMEMBERED {
                return false;
            }
        }
        let free = self.spent.entry(from).or_insert(now);
        let next = (*free).max(now).saturating_add(EACH);
        let admitted = next.saturating_sub(now).ps() <= EACH.ps() * BURST;
        if admitted {
            *free = next;
        }
        admitted
    }

    /// Whether there is a place for somebody from there. To be asked again once somebody has gone for him.
    pub fn place(&self, from: IpAddr) -> Place {
        let from = network(from);
        let lanes = self.peers.get(&from).copied();
        let most = lanes.map_or(OF_AN_ADDRESS, |lanes| OF_A_PEER.max(2 * lanes));
        let elsewhere = |it: &Stranger| it.silent && !it.of_peer;
        let silent = self.strangers.iter().filter(|it| it.silent).count();
        let over = self.oldest(|it| it.silent && it.from == from, most);
        if let Some(oldest) = over.or_else(|| self.oldest(|it| !it.silent, GREETED)) {
            return Place::Of(oldest);
        }
        match (lanes, self.oldest(elsewhere, 1)) {
            (None, Some(oldest)) if self.oldest(elsewhere, SILENT_ELSEWHERE).is_some() => {
                Place::Of(oldest)
            }
            _ if silent < SILENT => Place::Free,
            (_, Some(oldest)) => Place::Of(oldest),
            (None, None) => Place::None,
            (Some(_), None) => self.oldest(|it| it.silent, 1).map_or(Place::None, Place::Of),
        }
    }

    /// The oldest of some strangers, if they are at least so many.
    fn oldest(&self, of: impl Fn(&Stranger) -> bool, least: usize) -> Option<ConnectionId> {
        let mut those = self.strangers.iter().filter(|it| of(it));
        let first = those.next()?.connection;
        (1 + those.count() >= least).then_some(first)
    }

    /// Somebody was let in.
    pub fn enter(&mut self, connection: ConnectionId, from: IpAddr) {
        let from = network(from);
        let of_peer = self.peers.contains_key(&from);
        self.strangers.push(Stranger { connection, from, of_peer, silent: true });
    }

    /// He has said who he wants to be.
    pub fn spoke(&mut self, connection: ConnectionId) {
        if let Some(it) = self.strangers.iter_mut().find(|it| it.connection == connection) {
            it.silent = false;
        }
    }

    /// He is a stranger no more, or gone.
    pub fn leave(&mut self, connection: ConnectionId) {
        self.strangers.retain(|it| it.connection != connection);
    }
}

/// Whoever has one address of IPv6 has a network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from_bits(it.to_bits() >> 64 << 64)),
        it => it,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Exchange, LaneSpec, Medium, Settings};

    fn address(last: u16) -> IpAddr {
        IpAddr::from([10, 0, (last >> 8) as u8, last as u8])
    }

    /// Connections of an exchange.
    fn connections() -> impl FnMut() -> ConnectionId {
        let lane = LaneSpec { peer: 0, nic: 0, peer_nic: 0, medium: Medium::Packet, way: 0 };
        let settings = Settings::new(1, 1, 1, b"secret");
        let mut exchange = Exchange::new(settings, vec![lane], Time::ZERO).expect("it fits");
        move || {
            let id = exchange.accepted(Time::ZERO, 0, [0; 16]).expect("one at a time");
            exchange.closed(Time::ZERO, id);
            id
        }
    }

    /// Somebody comes; says who had to go, himself if there was no place.
    fn come(gate: &mut Gate, id: ConnectionId, from: IpAddr) -> Vec<ConnectionId> {
        let mut gone = Vec::new();
        loop {
            match gate.place(from) {
                Place::Free => {
                    gate.enter(id, from);
                    return gone;
                }
                Place::Of(connection) => {
                    gate.leave(connection);
                    gone.push(connection);
                }
                Place::None => return vec![id],
            }
        }
    }

    #[test]
    fn one_more_from_an_address_takes_the_place_of_its_oldest() {
        let (mut gate, mut next) = (Gate::new([address(1); 17].into_iter()), connections());
        let ids: Vec<_> = (0..20).map(|_| next()).collect();
        for (at, &id) in ids.iter().enumerate() {
            let gone = come(&mut gate, id, address(2));
            assert_eq!(gone, if at < 8 { vec![] } else { vec![ids[at - 8]] });
        }
        for _ in 0..34 {
            assert_eq!(come(&mut gate, next(), address(1)), [], "two for each lane");
        }
        assert_eq!(come(&mut gate, next(), address(1)).len(), 1);
        let last = next();
        gate.leave(ids[19]);
        assert_eq!(come(&mut gate, last, address(2)), [], "a place has become free");
    }

    #[test]
    fn strangers_take_no_place_from_peers() {
        let (mut gate, mut next) = (Gate::new([address(1); 99].into_iter()), connections());
        let peers: Vec<_> = (0..40).map(|_| next()).collect();
        peers.iter().for_each(|&id| assert_eq!(come(&mut gate, id, address(1)), []));
        let mut gone = Vec::new();
        for at in 0..100 {
            gone.extend(come(&mut gate, next(), address(100 + at)));
        }
        assert!(gone.iter().all(|id| !peers.contains(id)) && gone.len() == 76, "{}", gone.len());
        // A peer takes theirs, all of them if it must.
        let more: Vec<_> = (0..24).flat_map(|_| come(&mut gate, next(), address(1))).collect();
        assert!(more.iter().all(|id| !peers.contains(id)) && more.len() == 24);
        let (elsewhere, peer) = (next(), next());
        assert_eq!(come(&mut gate, elsewhere, address(9)), [elsewhere], "all places are of peers");
        assert_eq!(come(&mut gate, peer, address(1)), [peers[0]]);
        gate.spoke(peers[1]);
        assert_eq!(come(&mut gate, next(), address(1)), [], "one of them is silent no more");
        let all: Vec<_> = (0..300).map(|_| next()).collect();
        let mut gone = Vec::new();
        for &id in &all {
            gone.extend(come(&mut gate, id, address(1)));
            gate.spoke(id);
        }
        let greeted = gone.iter().filter(|id| all.contains(id)).count();
        assert_eq!(greeted, 300 + 1 - GREETED - 1, "the first is of before");
    }

    #[test]
    fn an_address_of_no_peer_is_slowed_down() {
        let mut gate = Gate::new([address(1)].into_iter());
        let mut admitted = |at: u64, from| {
            let now = Time::from_ms(at);
            (0..1000).filter(|_| gate.admits(now, from)).count()
        };
        assert_eq!(admitted(0, address(2)), 32);
        assert_eq!(admitted(100, address(2)), 2);
        assert_eq!(admitted(100, address(3)), 32);
        assert_eq!(admitted(100, address(1)), 1000, "a peer's");
        let v6 = |last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
        assert_eq!(admitted(0, v6(1)) + admitted(0, v6(2)), 32, "one network");
        assert_eq!(admitted(100_000, address(2)), 32);
    }

    #[test]
    fn only_so_many_addresses_are_remembered() {
        let mut gate = Gate::new([address(1)].into_iter());
        let come = |gate: &mut Gate, at| {
            (1000..11_000).filter(|&it| gate.admits(Time::from_ms(at), address(it))).count()
        };
        assert_eq!(come(&mut gate, 0), REMEMBERED);
        assert_eq!(come(&mut gate, 10), REMEMBERED, "those that are remembered");
        assert_eq!(come(&mut gate, 10_000), REMEMBERED, "others take their places");
        assert!(gate.admits(Time::ZERO, address(1)));
    }
}
