//! What joins what inside optical switches during a run, and which of their ports are dark. Indexed
//! by link; a link that no optical switch ends or begins is joined to nothing and never dark.

use crate::error::EngineError;
use crate::orders::Patch;
use lightloom_fabric::{Fabric, LinkId, NodeKind};
use lightloom_units::Time;

/// The circuits that stand.
///
/// ```
/// use lightloom_engine::{Circuits, Patch, conformance};
/// use lightloom_fabric::{LinkClass, LinkId};
/// let fabric = conformance::mixnet();
/// let optical = |l: &u32| fabric.link(LinkId(*l)).class == LinkClass::Circuit;
/// let ports: Vec<_> = (0..fabric.links().len() as u32).filter(optical).map(LinkId).collect();
/// let mut circuits = Circuits::new(&fabric, &[]);
/// let (tx, rx) = (
///     *ports.iter().find(|&&l| circuits.enters_switch(l)).unwrap(),
///     *ports.iter().find(|&&l| !circuits.enters_switch(l)).unwrap(),
/// );
/// circuits.join(&Patch { tx, rx: Some(rx) });
/// assert_eq!(circuits.leads_to(tx), Some(rx));
/// ```
#[derive(Clone, Debug)]
pub struct Circuits {
    /// By link into a switch: where it leads.
    to: Vec<Option<LinkId>>,
    /// By link out of one: where it comes from.
    from: Vec<Option<LinkId>>,
    enters: Vec<bool>,
    dark_until: Vec<Time>,
    any: bool,
    /// By link, empty while nothing has broken: whether it is down.
    down: Vec<bool>,
}

impl Circuits {
    /// The circuits of a fabric when a run begins.
    pub fn new(fabric: &Fabric, standing: &[Patch]) -> Self {
        let links = fabric.links();
        let is_switch = |l: &lightloom_fabric::Link| {
            matches!(fabric.nodes()[l.to.0 as usize].kind, NodeKind::Ocs { .. })
        };
        let enters: Vec<bool> = links.iter().map(is_switch).collect();
        let mut circuits = Circuits {
            to: vec![None; links.len()],
            from: vec![None; links.len()],
            any: enters.contains(&true),
            enters,
            dark_until: vec![Time::ZERO; links.len()],
            down: Vec::new(),
        };
        for patch in standing {
            circuits.join(patch);
        }
        circuits
    }

    /// Whether a link ends at an optical switch.
    #[inline]
    pub fn enters_switch(&self, link: LinkId) -> bool {
        self.enters[link.0 as usize]
    }

    /// The link that a circuit joins `tx` to.
    #[inline]
    pub fn leads_to(&self, tx: LinkId) -> Option<LinkId> {
        self.to[tx.0 as usize]
    }

    /// The links that a patch makes dark: the one into the switch, the one that it led to, the one
    /// that it will lead to.
    pub fn touched(&self, patch: &Patch) -> [Option<LinkId>; 3] {
        [Some(patch.tx), self.leads_to(patch.tx), patch.rx]
    }

    /// Makes a patch: what either end was joined to before is joined to nothing then.
    pub fn join(&mut self, patch: &Patch) {
        let Patch { tx, rx } = *patch;
        if let Some(old) = std::mem::replace(&mut self.to[tx.0 as usize], rx) {
            self.from[old.0 as usize] = None;
        }
        if let Some(rx) = rx
            && let Some(other) = self.from[rx.0 as usize].replace(tx)
        {
            self.to[other.0 as usize] = None;
        }
    }

    /// When all circuits of a path can carry data: `now` or later.
    ///
    /// # Errors
    /// [`EngineError::NoCircuit`] if no circuit joins two links of the path that meet at an optical
    /// switch.
    pub fn ready_along(&self, task: u32, path: &[LinkId], now: Time) -> Result<Time, EngineError> {
        if !self.any {
            return Ok(now);
        }
        let mut ready = now;
        for (hop, &tx) in path.iter().enumerate() {
            let next = path.get(hop + 1).copied();
            if self.enters_switch(tx) && (next.is_none() || self.leads_to(tx) != next) {
                let rx = next.unwrap_or(LinkId(u32::MAX));
                return Err(EngineError::NoCircuit { task, tx, rx });
            }
            ready = ready.max(self.dark_until[tx.0 as usize]);
        }
        Ok(ready)
    }

    /// Whether a link is broken.
    #[inline]
    pub fn is_down(&self, link: LinkId) -> bool {
        !self.down.is_empty() && self.down[link.0 as usize]
    }

    /// Whether any link has broken so far.
    #[inline]
    pub fn ever_broke(&self) -> bool {
        !self.down.is_empty()
    }

    /// Whether a flow may stay on a path: nothing of it is down, and circuits join, dark or not,
    /// what meets at optical switches.
    pub fn is_whole(&self, path: &[LinkId]) -> bool {
        path.iter().enumerate().all(|(hop, &link)| {
            let next = path.get(hop + 1).copied();
            !self.is_down(link)
                && (!self.enters_switch(link) || (next.is_some() && self.leads_to(link) == next))
        })
    }

    /// Takes over what others have changed since `before`, of links that have not changed here.
    pub(crate) fn absorb(&mut self, other: &Circuits, before: &Circuits) {
        for at in 0..self.to.len() {
            if other.to[at] != before.to[at] {
                self.to[at] = other.to[at];
            }
            if other.from[at] != before.from[at] {
                self.from[at] = other.from[at];
            }
            self.dark_until[at] = self.dark_until[at].max(other.dark_until[at]);
        }
    }

    /// Breaks and heals links.
    pub(crate) fn change(&mut self, down: &[LinkId], up: &[LinkId]) {
        self.down.resize(self.to.len(), false);
        for (links, is) in [(down, true), (up, false)] {
            for link in links {
                self.down[link.0 as usize] = is;
            }
        }
    }

    /// Links are dark until `ready`, or longer if they were already.
    pub(crate) fn darken(&mut self, links: &[LinkId], ready: Time) {
        for link in links {
            let until = &mut self.dark_until[link.0 as usize];
            *until = ready.max(*until);
        }
    }

    /// Whether a link carries light at `now`: it is neither dark nor down.
    pub(crate) fn carries(&self, link: LinkId, now: Time) -> bool {
        self.dark_until[link.0 as usize] <= now && !self.is_down(link)
    }
}
