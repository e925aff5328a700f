//! A balancer from outside: whoever runs the engine chooses a path for each packet. What else the engine
//! expects of a balancer (lanes, whether a gap is a loss) stays that of the settings.

use super::plug::Heard;
use lightloom_fabric::{Fabric, LinkId, NicId};
use std::fmt::Debug;

/// What a balancer from outside is told of a packet that several paths can take.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// Now \[ps\].
    pub now: u64,
    /// The sub-flow: a new number for each, and for one that has to leave its path.
    pub flow: u64,
    /// The NIC that sends.
    pub source: NicId,
    /// The NIC that the paths lead to.
    pub destination: NicId,
    /// By path: what waits on it now, in all queues of its links \[B\]. No NIC knows this.
    pub queues: &'a [u64],
    /// Acknowledgements that came to the sub-flow since its last packet, in order.
    pub heard: &'a [Heard],
    /// Packets of the sub-flow in flight.
    pub in_flight: u32,
    /// Packets that the NIC has sent, of all flows, from a start of the NIC's own.
    pub turn: u32,
}

/// Chooses paths in place of the balancer of the settings.
pub trait PathChooser: Debug + Send + Sync {
    /// The path of a packet, an index into `choice.queues`; any other number ends the run.
    ///
    /// # Errors
    /// Ends the run, too.
    fn path(&self, choice: &Choice<'_>) -> Result<i64, String>;
}

/// A balancer from outside in a run.
#[derive(Debug)]
pub(crate) struct Outside<'a> {
    chooser: &'a dyn PathChooser,
    /// Sub-flows so far.
    flows: u64,
    /// By connection: its number as a sub-flow, and what it heard since its last packet.
    known: Vec<(u64, Vec<Heard>)>,
    queues: Vec<u64>,
    path: Vec<LinkId>,
    /// Why a packet got no path: the first one, after which nothing is asked.
    pub refused: Option<String>,
}

impl<'a> Outside<'a> {
    pub fn new(chooser: &'a dyn PathChooser) -> Self {
        let (queues, path) = (Vec::new(), Vec::new());
        Outside { chooser, flows: 0, known: Vec::new(), queues, path, refused: None }
    }

    /// A connection begins, or leaves its path for others.
    pub fn begins(&mut self, conn: u32) {
        let at = conn as usize;
        self.known.resize_with(self.known.len().max(at + 1), Default::default);
        self.known[at].0 = self.flows;
        self.known[at].1.clear();
        self.flows += 1;
    }

    pub fn heard(&mut self, conn: u32, heard: Heard) {
        self.known[conn as usize].1.push(heard);
    }

    /// The path of the next packet of a connection, unless one is refused.
    #[cold]
    pub fn path(
        &mut self,
        fabric: &Fabric,
        conn: u32,
        (source, destination, paths): (NicId, NicId, u16),
        (now, in_flight, turn): (u64, u32, u32),
        queued: impl Fn(LinkId) -> u64,
    ) -> Option<u16> {
        if self.refused.is_some() {
            return None;
        }
        self.queues.clear();
        for index in 0..paths {
            self.path.clear();
            fabric.nic_path(source, destination, u32::from(index), &mut self.path);
            self.queues.push(self.path.iter().map(|&link| queued(link)).sum());
        }
        let (flow, heard) = &mut self.known[conn as usize];
        let choice = Choice {
            now,
            flow: *flow,
            source,
            destination,
            queues: &self.queues,
            heard,
            in_flight,
            turn,
        };
        let answer = self.chooser.path(&choice);
        heard.clear();
        let last = i64::from(paths) - 1;
        let why = match answer {
            Ok(path) if (0..=last).contains(&path) => return Some(path as u16),
            Ok(path) => format!("{path} is no path; allowed: 0 to {last}"),
            Err(why) => why,
        };
        self.refused = Some(why);
        None
    }
}
