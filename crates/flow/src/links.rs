//! The fabric's links, as the engine sees them.

use lightloom_engine::Incident;
use lightloom_fabric::{Fabric, LinkClass, LinkId};
use lightloom_units::Time;

pub(crate) struct Links {
    binds: Vec<bool>,
    /// Bytes per picosecond; zero while dark.
    pub capacity: Vec<f64>,
    delay: Vec<Time>,
}

impl Links {
    pub fn new(fabric: &Fabric, incidents: &[Incident]) -> Self {
        let links = fabric.links();
        let mut binds: Vec<bool> =
            (0..links.len() as u32).map(|l| !fabric.never_binds(LinkId(l))).collect();
        // What may break must be seen on the paths that it is on.
        for incident in incidents {
            let slower = incident.rates.iter().map(|(link, _)| link);
            incident.down.iter().chain(slower).for_each(|link| binds[link.index()] = true);
        }
        if !incidents.is_empty() {
            let optical = links.iter().zip(&mut binds);
            optical.for_each(|(link, binds)| *binds |= link.class == LinkClass::Circuit);
        }
        Links {
            binds,
            capacity: links.iter().map(|l| l.rate.bytes_per_ps()).collect(),
            delay: links.iter().map(|l| l.delay).collect(),
        }
    }

    /// Adds a link as fast as several together.
    pub fn bundle(&mut self, links: &[LinkId]) -> LinkId {
        let of = || links.iter().map(|link| link.index());
        self.capacity.push(of().map(|link| self.capacity[link]).sum());
        self.delay.push(of().map(|link| self.delay[link]).max().unwrap_or(Time::ZERO));
        self.binds.push(true);
        LinkId(self.binds.len() as u32 - 1)
    }

    pub fn len(&self) -> usize {
        self.binds.len()
    }

    /// The links of a path that may hold a flow back: all that bind, or the narrowest if none does,
    /// for something must bound the rate.
    #[inline]
    pub fn binding(&self, path: &[LinkId]) -> impl Iterator<Item = u32> {
        let binds = |link: &LinkId| self.binds[link.index()];
        let narrowest = || {
            let rate = |link: &&LinkId| self.capacity[link.index()];
            path.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)))
        };
        let other = if path.iter().any(binds) { None } else { narrowest() };
        path.iter().filter(move |link| binds(link)).chain(other).map(|link| link.0)
    }

    /// Sum of the delays of a path.
    #[inline]
    pub fn delay(&self, path: &[LinkId]) -> Time {
        path.iter().map(|link| self.delay[link.index()]).sum()
    }
}
