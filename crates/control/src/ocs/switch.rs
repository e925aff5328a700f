//! An optical switch: patches, light, shutters, power, and the time that a change takes.
//!
//! Modelled: unidirectional patches from ingress to egress; a change is one act, all or nothing; it
//! takes a delay drawn by the number of port pairs that it joins (MixNet, Appendix C, and as the
//! simulator draws it), in which only the ports that change are dark; other ports may change
//! meanwhile, these may not. A change that only ends patches takes no time: light is gone at once and
//! nothing has to settle. Every port has a shutter. Ignored: crosstalk, attenuators, colour.
//! Checked: every state against a set of patches, at random, in the tests below.

use super::cross::{Cross, SwitchError};
use super::delay;
use crate::driver::Patch;
use lightloom_fabric::{MOST_PORTS, ReconfigurationDelay};
use lightloom_units::Time;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::collections::VecDeque;

/// Events that nobody asked for are forgotten beyond so many.
const MOST_EVENTS: usize = 1024;

/// The make of an optical switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// What the switch calls itself.
    pub name: String,
    /// Its duplex ports, 1 to 4096: so many ingresses and as many egresses.
    pub ports: u16,
    /// How long a change takes, by the number of port pairs that it joins.
    pub delay: ReconfigurationDelay,
}

/// What happens in a switch.
#[derive(Clone, Debug, PartialEq)]
pub enum SwitchEvent {
    /// A change is done, or the switch believes so.
    Changed {
        /// Patches that it ended.
        ended: Vec<Patch>,
        /// Patches that it set.
        set: Vec<Patch>,
    },
    /// Light came to a port of the outside, or left it.
    Power {
        /// The ingress or egress.
        port: u16,
        /// What is there now \[dBm\], if anything.
        dbm: Option<f64>,
    },
}

/// An optical switch.
///
/// ```
/// use lightloom_control::{Patch, ocs::{Device, Switch}};
/// use lightloom_fabric::ReconfigurationDelay;
/// use lightloom_units::Time;
/// let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
/// let mut switch = Switch::new(Device { name: "polatis".into(), ports: 8, delay }, 1).unwrap();
/// let done = switch.apply(Time::ZERO, &[], &Patch::pair(8, 3, 5)).unwrap();
/// assert_eq!(done, Time::from_ms(25));
/// assert_eq!(switch.live_egress(Time::ZERO, 3), None, "dark while it moves");
/// assert_eq!(switch.live_egress(done, 3), Some(13));
/// let used = switch.apply(done, &[], &[Patch::new(3, 14)]).unwrap_err();
/// assert_eq!(used.to_string(), "port 3 is in use");
/// ```
#[derive(Clone, Debug)]
pub struct Switch {
    device: Device,
    random: ChaCha8Rng,
    cross: Cross,
    /// By port - 1, as are the next two: it moves until then.
    still: Vec<Time>,
    closed: Vec<bool>,
    stuck: Vec<bool>,
    any_stuck: bool,
    /// By ingress - 1 \[dBm\].
    light: Vec<Option<f64>>,
    /// Changes under way: when done, ended, set.
    changes: Vec<(Time, Vec<Patch>, Vec<Patch>)>,
    events: VecDeque<SwitchEvent>,
}

impl Switch {
    /// What a patch takes from the light \[dB\]: chosen, in the middle of what makers of large
    /// switches state (1 to 2.5 dB).
    pub const INSERTION_LOSS_DB: f64 = 1.5;
    /// Less is no light \[dBm\]: chosen, well below the sensitivity of any receiver.
    pub const FLOOR_DBM: f64 = -50.0;

    /// A switch without patches, all shutters open, no light. The seed is for its delays.
    ///
    /// # Errors
    /// If it has no port or more than [`MOST_PORTS`], or a delay without figures.
    pub fn new(device: Device, seed: u64) -> Result<Self, SwitchError> {
        let ports = device.ports;
        if !(1..=MOST_PORTS).contains(&u32::from(ports)) {
            return Err(SwitchError::Ports(ports));
        }
        if let ReconfigurationDelay::Lognormal { pairs, mean_ps, p99_ps } = &device.delay {
            let rising = pairs.windows(2).all(|pair| pair[0] < pair[1]);
            let equal = pairs.len() == mean_ps.len() && pairs.len() == p99_ps.len();
            let positive = mean_ps.iter().chain(p99_ps).all(|time| *time > Time::ZERO);
            if pairs.is_empty() || !(rising && equal && positive) {
                return Err(SwitchError::Delay);
            }
        }
        let both = 2 * usize::from(ports);
        Ok(Switch {
            device,
            random: ChaCha8Rng::seed_from_u64(seed),
            cross: Cross::new(ports),
            still: vec![Time::ZERO; both],
            closed: vec![false; both],
            stuck: vec![false; both],
            any_stuck: false,
            light: vec![None; usize::from(ports)],
            changes: Vec::new(),
            events: VecDeque::new(),
        })
    }

    /// Name, ports and delay.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its duplex ports.
    pub fn ports(&self) -> u16 {
        self.cross.ports()
    }

    /// Begins a change: ends patches and sets others, at once and all or nothing. Returns when it
    /// will be done; until then all ports named are dark.
    ///
    /// # Errors
    /// A port that the switch has not, one that still moves, a patch to end that does not stand, one
    /// to set on a port that is in another. Nothing has changed then.
    pub fn apply(&mut self, now: Time, end: &[Patch], set: &[Patch]) -> Result<Time, SwitchError> {
        let mut next = self.cross.clone();
        for patch in end.iter().chain(set) {
            next.known(*patch)?;
            if let Some(port) =
                [patch.ingress, patch.egress].into_iter().find(|p| self.moves(now, *p))
            {
                return Err(SwitchError::Busy(port));
            }
        }
        end.iter().try_for_each(|patch| next.end(*patch))?;
        set.iter().try_for_each(|patch| next.set(*patch))?;
        if self.any_stuck {
            next = self.hindered(end, set);
        }
        let done = match self.pairs(set) {
            0 => now,
            pairs => now.saturating_add(delay::draw(&self.device.delay, pairs, &mut self.random)),
        };
        self.cross = next;
        for patch in end.iter().chain(set) {
            for port in [patch.ingress, patch.egress] {
                self.still[usize::from(port - 1)] = done;
            }
        }
        self.changes.push((done, end.to_vec(), set.to_vec()));
        Ok(done)
    }

    /// Time has passed: changes that are done by now become events.
    pub fn advance(&mut self, now: Time) {
        if self.next_timeout().is_none_or(|next| next > now) {
            return;
        }
        let (mut done, under_way): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.changes).into_iter().partition(|change| change.0 <= now);
        self.changes = under_way;
        done.sort_by_key(|change| change.0);
        done.into_iter().for_each(|(_, ended, set)| self.tell(SwitchEvent::Changed { ended, set }));
    }

    /// When the next change is done, if one is under way.
    pub fn next_timeout(&self) -> Option<Time> {
        self.changes.iter().map(|change| change.0).min()
    }

    /// What has happened, in order. Only the last 1024 are kept.
    pub fn event(&mut self) -> Option<SwitchEvent> {
        self.events.pop_front()
    }

    /// The patches, in force or being set, by rising ingress.
    pub fn patches(&self) -> impl Iterator<Item = Patch> + '_ {
        self.cross.patches()
    }

    /// The patch of an ingress or egress, in force or being set.
    pub fn patch_of(&self, port: u16) -> Option<Patch> {
        self.cross.of(port)
    }

    /// Where light from an ingress leaves: nowhere while its patch is being set, behind a shutter, or
    /// without a patch.
    pub fn live_egress(&self, now: Time, ingress: u16) -> Option<u16> {
        let patch = self.cross.of(ingress).filter(|patch| patch.ingress == ingress)?;
        let dark =
            [ingress, patch.egress].into_iter().any(|p| self.moves(now, p) || self.is_closed(p));
        (!dark).then_some(patch.egress)
    }

    /// Where light from an ingress will leave, and from when on, if nothing more is ordered.
    pub fn will_leave(&self, ingress: u16) -> Option<(u16, Time)> {
        let patch = self.cross.of(ingress).filter(|patch| patch.ingress == ingress)?;
        let ends = [ingress, patch.egress];
        let still = |port: u16| self.still[usize::from(port - 1)];
        let open = !ends.into_iter().any(|port| self.is_closed(port));
        open.then_some((patch.egress, still(ends[0]).max(still(ends[1]))))
    }

    /// Whether a port, ingress or egress, still moves. One that the switch has not does not.
    pub fn moves(&self, now: Time, port: u16) -> bool {
        port.checked_sub(1).and_then(|at| self.still.get(usize::from(at))).is_some_and(|t| *t > now)
    }

    /// Closes the shutter of a port, ingress or egress, or opens it. Unknown ports have none.
    pub fn shut(&mut self, port: u16, closed: bool) {
        if let Some(at) = port.checked_sub(1).and_then(|at| self.closed.get_mut(usize::from(at))) {
            *at = closed;
        }
    }

    /// Whether the shutter of a port is closed.
    pub fn is_closed(&self, port: u16) -> bool {
        port.checked_sub(1).and_then(|at| self.closed.get(usize::from(at))).is_some_and(|c| *c)
    }

    /// Light of so many dBm comes to an ingress from now on, or none.
    pub fn illuminate(&mut self, now: Time, ingress: u16, dbm: Option<f64>) {
        let dbm = dbm.filter(|dbm| *dbm >= Self::FLOOR_DBM);
        let Some(at) = ingress.checked_sub(1).map(usize::from).filter(|at| *at < self.light.len())
        else {
            return;
        };
        let was = std::mem::replace(&mut self.light[at], dbm);
        if was.is_some() != dbm.is_some() {
            self.tell(SwitchEvent::Power { port: ingress, dbm });
            if let Some(port) = self.live_egress(now, ingress) {
                self.tell(SwitchEvent::Power { port, dbm: self.power(now, port) });
            }
        }
    }

    /// The light at an ingress as it comes, or at an egress as it leaves \[dBm\], if there is any.
    pub fn power(&self, now: Time, port: u16) -> Option<f64> {
        if port <= self.ports() {
            return self.light.get(usize::from(port.checked_sub(1)?)).copied().flatten();
        }
        let ingress = self.cross.of(port)?.ingress;
        self.live_egress(now, ingress)?;
        let dbm = self.light[usize::from(ingress - 1)]? - Self::INSERTION_LOSS_DB;
        (dbm >= Self::FLOOR_DBM).then_some(dbm)
    }

    /// A fault: a port, ingress or egress, keeps the patch that it has, or has none, whatever it is
    /// ordered; the switch says that it did. With `false` it works again.
    pub fn stick(&mut self, port: u16, stuck: bool) {
        if let Some(at) = port.checked_sub(1).and_then(|at| self.stuck.get_mut(usize::from(at))) {
            *at = stuck;
        }
        self.any_stuck = self.stuck.contains(&true);
    }

    /// A fault: patches are ended and set by another hand, at once and without a word. What is not
    /// legal is left out, and what is in the way goes.
    pub fn tamper(&mut self, end: &[Patch], set: &[Patch]) {
        for patch in end {
            // One that does not stand needs no ending.
            let _ = self.cross.end(*patch);
        }
        for patch in set {
            if self.cross.known(*patch).is_ok() {
                self.cross.force(*patch);
            }
        }
    }

    /// Pairs of ports that a change joins: both directions of a circuit are one pair.
    fn pairs(&self, set: &[Patch]) -> u32 {
        let ends = |patch: &Patch| {
            let far = patch.egress - self.ports();
            (patch.ingress.min(far), patch.ingress.max(far))
        };
        let mut pairs: Vec<_> = set.iter().map(ends).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs.len() as u32
    }

    /// The state after a change in which stuck ports did not take part.
    fn hindered(&self, end: &[Patch], set: &[Patch]) -> Cross {
        let stuck = |patch: &&Patch| {
            [patch.ingress, patch.egress].iter().any(|p| self.stuck[usize::from(p - 1)])
        };
        let mut next = self.cross.clone();
        for patch in end.iter().filter(|patch| !stuck(patch)) {
            // It stood, as the lawful change has found.
            let _ = next.end(*patch);
        }
        for patch in set.iter().filter(|patch| !stuck(patch)) {
            // What collides with a patch that stayed does not come into being.
            let _ = next.set(*patch);
        }
        next
    }

    fn tell(&mut self, event: SwitchEvent) {
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}
