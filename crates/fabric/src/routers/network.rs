//! Routers, channels, terminals.

/// What a channel is made of; only reports and prices read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChannelKind {
    /// Inside a package or a board.
    Short,
    /// A cable or a fibre.
    Long,
}

/// One end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// Index of the router.
    pub router: u32,
    /// Index of the port at that router.
    pub port: u16,
}

/// A channel in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The sending end.
    pub from: End,
    /// The receiving end.
    pub to: End,
    /// Flits a cycle.
    pub width: u16,
    /// Cycles on the wire.
    pub delay: u16,
    /// What it is made of.
    pub kind: ChannelKind,
}

/// Routers, the channels between them, and the router of every terminal.
///
/// A port has at most one channel out and one in, and they need not lead to the same router.
///
/// ```
/// use lightloom_fabric::routers::{ChannelKind, Network};
/// let mut network = Network::new("pair", 2);
/// network.duplex(0, 1, 1, 10, ChannelKind::Long);
/// network.terminal(0);
/// network.terminal(1);
/// assert_eq!(network.channels().len(), 2);
/// assert_eq!(network.out(0, 0).unwrap().to.router, 1);
/// assert_eq!(network.ports(1), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    name: String,
    channels: Vec<Channel>,
    /// By router, by port: the channel out and the channel in.
    ports: Vec<Vec<(u32, u32)>>,
    terminals: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Network {
    /// Routers without channels.
    pub fn new(name: &str, routers: u32) -> Self {
        Network {
            name: name.into(),
            channels: Vec::new(),
            ports: vec![Vec::new(); routers as usize],
            terminals: Vec::new(),
        }
    }
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// How many routers.
    pub fn routers(&self) -> u32 {
        self.ports.len() as u32
    }
    /// How many ports a router has.
    pub fn ports(&self, router: u32) -> u16 {
        self.ports[router as usize].len() as u16
    }
    /// The routers of the terminals.
    pub fn terminals(&self) -> &[u32] {
        &self.terminals
    }
    /// All channels, by their number.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }
    /// The channel that leaves by a port.
    pub fn out(&self, router: u32, port: u16) -> Option<&Channel> {
        let index = self.out_index(router, port)?;
        Some(&self.channels[index as usize])
    }
    /// The channel that enters by a port.
    pub fn into(&self, router: u32, port: u16) -> Option<&Channel> {
        let &(_, into) = self.ports[router as usize].get(port as usize)?;
        (into != NONE).then(|| &self.channels[into as usize])
    }
    /// The index of the channel that leaves by a port.
    pub fn out_index(&self, router: u32, port: u16) -> Option<u32> {
        let &(out, _) = self.ports[router as usize].get(port as usize)?;
        (out != NONE).then_some(out)
    }
    /// Adds a terminal at a router; its number is returned.
    pub fn terminal(&mut self, router: u32) -> u32 {
        self.terminals.push(router);
        self.terminals.len() as u32 - 1
    }
    /// Adds a new port at either router and a channel each way between them; returns the two ports.
    pub fn duplex(
        &mut self,
        a: u32,
        b: u32,
        width: u16,
        delay: u16,
        kind: ChannelKind,
    ) -> (u16, u16) {
        let from = End { router: a, port: self.add_port(a, (NONE, NONE)) };
        let to = End { router: b, port: self.add_port(b, (NONE, NONE)) };
        self.join(from, to, width, delay, kind);
        (from.port, to.port)
    }
    /// Adds ports without channels to a router.
    pub fn dark_ports(&mut self, router: u32, ports: u16) {
        let held = &mut self.ports[router as usize];
        held.resize(held.len() + usize::from(ports), (NONE, NONE));
    }
    /// Adds a channel each way between two ports that have none.
    pub fn join(&mut self, a: End, b: End, width: u16, delay: u16, kind: ChannelKind) {
        let at = self.channels.len() as u32;
        self.channels.push(Channel { from: a, to: b, width, delay, kind });
        self.channels.push(Channel { from: b, to: a, width, delay, kind });
        for (end, channels) in [(a, (at, at + 1)), (b, (at + 1, at))] {
            let port = &mut self.ports[end.router as usize][usize::from(end.port)];
            debug_assert_eq!(*port, (NONE, NONE), "a port has one channel each way");
            *port = channels;
        }
    }
    /// Adds a new port at either router and a channel from the first to the second; returns the two
    /// ports.
    pub fn simplex(
        &mut self,
        a: u32,
        b: u32,
        width: u16,
        delay: u16,
        kind: ChannelKind,
    ) -> (u16, u16) {
        let at = self.channels.len() as u32;
        let from = End { router: a, port: self.add_port(a, (at, NONE)) };
        let to = End { router: b, port: self.add_port(b, (NONE, at)) };
        self.channels.push(Channel { from, to, width, delay, kind });
        (from.port, to.port)
    }

    fn add_port(&mut self, router: u32, channels: (u32, u32)) -> u16 {
        let ports = &mut self.ports[router as usize];
        ports.push(channels);
        ports.len() as u16 - 1
    }
}
