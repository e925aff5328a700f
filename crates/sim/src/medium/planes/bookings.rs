//! What the ports of planes are booked for, transfer by transfer, and what of it is not sent when ports
//! are lost or work again.
//!
//! Modelled: bookings that have begun stand, but for those over a port that is lost; all others are void,
//! and their transfers are booked anew over the ports that work, one transfer after the other, as they
//! began ([`Ports`]). What has begun and what was sent is not looked up in the bookings' times: the engine
//! says it.

use lightloom_swot::alltoall::{Entry, Hold, Ports};
use lightloom_units::{Bytes, Time};
use std::collections::BTreeMap;

/// Bytes of a transfer that a circuit was to carry.
pub(super) struct Unsent {
    pub plane: u32,
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
}

pub(super) struct Bookings {
    ports: Ports,
    /// What follows is kept only where ports fail.
    fails: bool,
    /// The ports as those left them that are not in `transfers`, or were there when ports last failed.
    begun: Ports,
    /// By task, in order of transmitter and time.
    transfers: BTreeMap<u32, Vec<Hold>>,
    unsent: BTreeMap<u32, Vec<Unsent>>,
}

impl Bookings {
    /// All ports dark. Whether any of them `fails` in this run.
    pub fn new(servers: u32, planes: u32, fails: bool) -> Self {
        let ports = Ports::dark(servers, planes);
        let (transfers, unsent) = (BTreeMap::new(), BTreeMap::new());
        Bookings { begun: ports.clone(), ports, fails, transfers, unsent }
    }

    /// As [`Ports::book_ahead`], from a time on and to carry from another on.
    ///
    /// # Errors
    /// If no plane joins two servers any more.
    pub fn book(
        &mut self,
        task: u32,
        demand: &[Entry],
        (now, ready): (Time, Time),
        planes: &lightloom_swot::Planes,
    ) -> Result<Vec<Hold>, String> {
        if let Some((from, to, _)) = demand.iter().find(|(a, b, _)| !self.ports.joins(*a, *b)) {
            return Err(format!("no plane is left from server {from} to server {to}"));
        }
        let holds = self.ports.book_ahead(demand, now, ready, planes);
        if self.fails {
            self.transfers.retain(|_, holds| {
                let over = holds.iter().all(|hold| hold.end_ps <= now);
                holds.iter().filter(|_| over).for_each(|hold| self.begun.keep(hold));
                !over
            });
            let booked = self.transfers.entry(task).or_default();
            booked.extend(&holds);
            booked.sort_unstable_by_key(|hold| (hold.from, hold.plane, hold.dark_ps));
        }
        Ok(holds)
    }

    /// Whether all these circuits stand, and nobody has booked their ports since.
    pub fn go_on(&self, holds: &[Hold], now: Time) -> bool {
        holds.iter().all(|hold| self.ports.goes_on(hold, now))
    }

    /// As [`Ports::set_ahead`]; nothing where a plane that joins two servers is lost.
    pub fn set_ahead(
        &mut self,
        demand: &[Entry],
        (now, ready): (Time, Time),
        planes: &lightloom_swot::Planes,
    ) -> Vec<Hold> {
        if !demand.iter().all(|(a, b, _)| self.ports.joins(*a, *b)) {
            return vec![];
        }
        let set = self.ports.set_ahead(demand, now, ready, planes);
        if self.fails {
            set.iter().for_each(|hold| self.begun.keep(hold));
        }
        set
    }

    /// A circuit does not carry these bytes, either because it has not begun, and is booked no more, or
    /// because it was cut.
    pub fn unsent(&mut self, task: u32, unsent: Unsent) {
        if let Some(holds) = self.transfers.get_mut(&task) {
            let (port, bytes) = ((unsent.from, unsent.plane), Bytes::new(unsent.bytes));
            let end = holds.partition_point(|hold| (hold.from, hold.plane) <= port);
            let start = holds.partition_point(|hold| (hold.from, hold.plane) < port);
            let same = |hold: &Hold| (hold.to, hold.bytes) == (unsent.to, bytes);
            if let Some(last) = holds[start..end].iter().rposition(same) {
                holds.remove(start + last);
            }
        }
        self.unsent.entry(task).or_default().push(unsent);
    }

    /// Ports are lost, or work again: what has begun over others stands.
    pub fn change(&mut self, changes: impl Iterator<Item = (u32, u32, bool)>, now: Time) {
        for holds in self.transfers.values() {
            holds.iter().for_each(|hold| self.begun.keep(hold));
        }
        for (server, plane, lost) in changes {
            self.begun.lose(server, plane, lost);
            for holds in self.transfers.values_mut() {
                holds.retain(|hold| {
                    let on = hold.plane == plane && [hold.from, hold.to].contains(&server);
                    let cut = lost && on && hold.end_ps > now;
                    if cut {
                        self.begun.cut(hold, now);
                    }
                    !cut
                });
            }
        }
        self.ports = self.begun.clone();
    }

    /// What of a transfer is to be booked anew.
    pub fn left(&mut self, task: u32) -> Vec<Unsent> {
        self.unsent.remove(&task).unwrap_or_default()
    }
}
