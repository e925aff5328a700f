//! What a policy orders: flows in phases, phases in tracks, and patches of optical switches. Buffers
//! are flat and are used again, so that a policy allocates nothing per transfer.

use lightloom_fabric::LinkId;
use lightloom_units::{Bytes, Time};
use std::ops::Range;

/// One flow: so many bytes over a path of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOrder {
    /// What is sent.
    pub bytes: Bytes,
    lanes: (u32, u32),
}

impl FlowOrder {
    /// What a fluid puts on one of its lanes: as much as on any other.
    fn share(&self, lane: u32) -> Bytes {
        let (lanes, bytes) = (u64::from(self.lanes.1 - self.lanes.0), self.bytes.get());
        Bytes::new(bytes / lanes + u64::from(u64::from(lane - self.lanes.0) < bytes % lanes))
    }
}

/// Circuits that are set, then flows that start together; the phase ends `latency` after the last of
/// them has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    flows: (u32, u32),
    circuits: (u32, u32),
    /// If they are [claimed](Orders::claim): whether those that stand are kept.
    pub(crate) claims: Option<bool>,
    /// How long the ports of the phase's circuits are dark from its beginning on.
    pub dark: Time,
    /// Time that passes after the last byte: the steps of a ring, or a whole collective in closed
    /// form where nothing can contend with it.
    pub latency: Time,
}

/// The orders for one transfer.
///
/// ```
/// use lightloom_engine::Orders;
/// use lightloom_fabric::LinkId;
/// use lightloom_units::{Bytes, Time};
/// let mut orders = Orders::default();
/// orders.path().extend([LinkId(0), LinkId(3)]);
/// orders.flow(Bytes::new(1_000));
/// orders.end_phase(Time::ZERO);
/// assert_eq!(orders.phases().len(), 1);
/// let flow = orders.flows(0)[0];
/// assert_eq!(orders.links(&flow), &[LinkId(0), LinkId(3)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Orders {
    links: Vec<LinkId>,
    /// Where each lane's links end.
    lanes: Vec<u32>,
    flows: Vec<FlowOrder>,
    phases: Vec<Phase>,
    circuits: Vec<Patch>,
    /// Where each track's phases end, but for the last one's.
    tracks: Vec<u32>,
    /// Lanes whose flows have been moved elsewhere.
    diverted: Vec<(u32, Vec<LinkId>)>,
    open_lane: usize,
    open_phase: usize,
    open_circuits: usize,
    dark: Time,
    claims: Option<bool>,
    /// Circuits to patch at once, before any flow starts.
    pub patches: Patches,
}

impl Orders {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.links.clear();
        self.lanes.clear();
        self.flows.clear();
        self.phases.clear();
        self.circuits.clear();
        self.tracks.clear();
        self.diverted.clear();
        self.open_lane = 0;
        self.open_phase = 0;
        self.open_circuits = 0;
        self.dark = Time::ZERO;
        self.claims = None;
        self.patches.clear();
    }

    /// Makes room for so many more flows over so many links in all, where each has one lane.
    pub fn reserve(&mut self, flows: usize, links: usize) {
        self.flows.reserve(flows);
        self.lanes.reserve(flows);
        self.links.reserve(links);
    }

    /// Where the links of the next flow are appended, in order of travel.
    pub fn path(&mut self) -> &mut Vec<LinkId> {
        &mut self.links
    }

    /// Ends the path begun with [`Orders::path`] as one of several lanes of the next flow: its bytes
    /// may go over any of them. A lane over no link is left out.
    ///
    /// ```
    /// # use lightloom_engine::Orders;
    /// # use lightloom_fabric::LinkId;
    /// # use lightloom_units::{Bytes, Time};
    /// let mut orders = Orders::default();
    /// orders.path().push(LinkId(0));
    /// orders.lane();
    /// orders.path().push(LinkId(2));
    /// orders.flow(Bytes::new(1_000)); // over link 0 or link 2
    /// orders.end_phase(Time::ZERO);
    /// let flow = orders.flows(0)[0];
    /// let lanes: Vec<_> = orders.lanes(&flow).collect();
    /// assert_eq!(lanes, [&[LinkId(0)], &[LinkId(2)]]);
    /// ```
    pub fn lane(&mut self) {
        if self.links.len() > self.open_lane {
            self.open_lane = self.links.len();
            self.lanes.push(self.open_lane as u32);
        }
    }

    /// Ends the path begun with [`Orders::path`]: `bytes` go over it, or over the lanes ended before
    /// it. A flow of zero bytes or over no link is left out.
    pub fn flow(&mut self, bytes: Bytes) {
        self.lane();
        let first = self.flows.last().map_or(0, |flow| flow.lanes.1);
        let lanes = (first, self.lanes.len() as u32);
        if bytes == Bytes::ZERO || lanes.0 == lanes.1 {
            self.lanes.truncate(first as usize);
            self.open_lane = self.lanes.last().map_or(0, |&end| end as usize);
            self.links.truncate(self.open_lane);
            return;
        }
        self.flows.push(FlowOrder { bytes, lanes });
    }

    /// The next phase begins with this patch; its ports are dark for `dark` from then on. Of several
    /// patches the longest darkness holds for all.
    ///
    /// ```
    /// # use lightloom_engine::{Orders, Patch};
    /// # use lightloom_fabric::LinkId;
    /// # use lightloom_units::{Bytes, Time};
    /// let mut orders = Orders::default();
    /// orders.end_phase(Time::from_us(5)); // wait, then
    /// orders.patch(Patch { tx: LinkId(0), rx: Some(LinkId(3)) }, Time::from_us(10));
    /// orders.path().extend([LinkId(0), LinkId(3)]);
    /// orders.flow(Bytes::new(1_000)); // starts once the circuit is ready
    /// orders.end_phase(Time::ZERO);
    /// assert_eq!(orders.circuits(1).len(), 1);
    /// ```
    pub fn patch(&mut self, patch: Patch, dark: Time) {
        self.circuits.push(patch);
        self.dark = self.dark.max(dark);
    }

    /// As [`Orders::patch`], for a circuit that is booked by the clock: an engine whose flows may take longer
    /// than the clock says makes all claims of the phase, and only then starts its flows, once nothing is
    /// on their ports any more; see [`Patches::waits`]. With `keeps` nothing is done if it stands.
    pub fn claim(&mut self, patch: Patch, dark: Time, keeps: bool) {
        self.patch(patch, dark);
        self.claims = Some(keeps);
    }

    /// Ends a phase: its patches are made and its flows, those since the last phase, start together
    /// once the phase before is over. A phase without flows is a pause of `latency`.
    pub fn end_phase(&mut self, latency: Time) {
        let flows = (self.open_phase as u32, self.flows.len() as u32);
        let circuits = (self.open_circuits as u32, self.circuits.len() as u32);
        if flows.0 == flows.1 && circuits.0 == circuits.1 && latency == Time::ZERO {
            return;
        }
        let dark = std::mem::take(&mut self.dark);
        let claims = std::mem::take(&mut self.claims);
        self.phases.push(Phase { flows, circuits, claims, dark, latency });
        self.open_phase = self.flows.len();
        self.open_circuits = self.circuits.len();
    }

    /// Ends a track: its phases, those since the last track, follow one another beside the phases of
    /// other tracks. The transfer is over when every track is. A track without phases is left out.
    ///
    /// ```
    /// # use lightloom_engine::Orders;
    /// # use lightloom_units::Time;
    /// let mut orders = Orders::default();
    /// orders.end_phase(Time::from_us(5));
    /// orders.end_track();
    /// orders.end_phase(Time::from_us(7)); // beside it: 7 us in all
    /// assert_eq!((0..orders.tracks()).map(|i| orders.track(i)).collect::<Vec<_>>(), [0..1, 1..2]);
    /// ```
    pub fn end_track(&mut self) {
        if self.phases.len() > self.tracks.last().map_or(0, |&end| end as usize) {
            self.tracks.push(self.phases.len() as u32);
        }
    }

    /// How many tracks there are: one at least, perhaps without phases.
    pub fn tracks(&self) -> usize {
        let ended = self.tracks.last().map_or(0, |&end| end as usize);
        (self.tracks.len() + usize::from(self.phases.len() > ended)).max(1)
    }

    /// The phases of track `index`.
    pub fn track(&self, index: usize) -> Range<usize> {
        let end = |at: usize| self.tracks.get(at).map_or(self.phases.len(), |&end| end as usize);
        index.checked_sub(1).map_or(0, end)..end(index)
    }

    /// The phases so far.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The flows of phase `index`.
    pub fn flows(&self, index: usize) -> &[FlowOrder] {
        &self.flows[self.flow_range(index)]
    }

    /// What phase `index` patches when it begins.
    pub fn circuits(&self, index: usize) -> &[Patch] {
        let (from, to) = self.phases[index].circuits;
        &self.circuits[from as usize..to as usize]
    }

    /// Every flow, whatever its phase.
    pub fn all_flows(&self) -> &[FlowOrder] {
        &self.flows
    }

    /// The path of a flow; of one with several lanes, the first.
    pub fn links(&self, flow: &FlowOrder) -> &[LinkId] {
        self.lane_links(flow.lanes.0)
    }

    /// The paths of a flow, over any of which its bytes may go.
    pub fn lanes(&self, flow: &FlowOrder) -> impl ExactSizeIterator<Item = &[LinkId]> {
        (flow.lanes.0..flow.lanes.1).map(|lane| self.lane_links(lane))
    }

    /// The numbers of a flow's lanes, for [`Orders::lane_links`].
    pub fn lane_numbers(&self, flow: &FlowOrder) -> Range<u32> {
        flow.lanes.0..flow.lanes.1
    }

    /// The lanes of a phase, and what a fluid that takes all lanes of its flow puts on each; those that
    /// get nothing are left out.
    ///
    /// ```
    /// # use lightloom_engine::Orders;
    /// # use lightloom_fabric::LinkId;
    /// # use lightloom_units::{Bytes, Time};
    /// let mut orders = Orders::default();
    /// for link in 0..3 {
    ///     orders.path().push(LinkId(link));
    ///     orders.lane();
    /// }
    /// orders.flow(Bytes::new(2));
    /// orders.end_phase(Time::ZERO);
    /// assert_eq!(orders.shares(0).collect::<Vec<_>>(), [(0, Bytes::new(1)), (1, Bytes::new(1))]);
    /// assert_eq!(orders.share(2), Bytes::ZERO);
    /// ```
    pub fn shares(&self, index: usize) -> impl Iterator<Item = (u32, Bytes)> {
        let share = |flow: &FlowOrder| {
            let flow = *flow;
            (flow.lanes.0..flow.lanes.1).map(move |lane| (lane, flow.share(lane)))
        };
        self.flows(index).iter().flat_map(share).filter(|&(_, bytes)| bytes > Bytes::ZERO)
    }

    /// What a fluid puts on a lane, by its number.
    pub fn share(&self, lane: u32) -> Bytes {
        let own = self.flows.get(lane as usize).filter(|flow| flow.lanes.0 == lane);
        let searched = || &self.flows[self.flows.partition_point(|flow| flow.lanes.1 <= lane)];
        own.unwrap_or_else(searched).share(lane)
    }

    /// Moves a lane to other links.
    pub(crate) fn divert(&mut self, lane: u32, links: Vec<LinkId>) {
        match self.diverted.iter_mut().find(|(at, _)| *at == lane) {
            Some((_, old)) => *old = links,
            None => self.diverted.push((lane, links)),
        }
    }

    /// The links of a lane, by its number.
    pub fn lane_links(&self, lane: u32) -> &[LinkId] {
        if let Some((_, links)) = self.diverted.iter().find(|(at, _)| *at == lane) {
            return links;
        }
        let from = lane.checked_sub(1).map_or(0, |before| self.lanes[before as usize]);
        &self.links[from as usize..self.lanes[lane as usize] as usize]
    }

    fn flow_range(&self, index: usize) -> Range<usize> {
        let (from, to) = self.phases[index].flows;
        from as usize..to as usize
    }
}

/// One connection inside an optical switch: what enters by `tx` leaves by `rx`, or nowhere. What
/// either was joined to before is joined to nothing then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The link from a NIC into the switch.
    pub tx: LinkId,
    /// The link from the switch to a NIC.
    pub rx: Option<LinkId>,
}

/// Patches made together: all ports named are dark for `delay` from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patches {
    /// The connections that change.
    pub patches: Vec<Patch>,
    /// How long the changed ports carry nothing.
    pub delay: Time,
    /// What is on a port that changes is not asked to go elsewhere: the patches are made, all together, when
    /// it has arrived. Until then other transfers may use the ports. What is booked by the clock waits
    /// for nothing where flows take just their time.
    pub waits: bool,
    /// A circuit that stands is left as it is.
    pub keeps: bool,
}

impl Patches {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.patches.clear();
        self.delay = Time::ZERO;
        (self.waits, self.keeps) = (false, false);
    }
}
