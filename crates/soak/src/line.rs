//! One optical switch and the streams to it, byte by byte.
//!
//! The stream's two ends learn at different times that it broke. Of the bytes that were on their way
//! to the switch then, some first part may yet arrive; what it makes the switch do is over within
//! [`Settings::lifetime`] of the break.

use crate::chance::Chance;
use crate::protocol::Protocol;
use crate::server::Server;
use lightloom_control::ocs::{Device, Switch, SwitchError};
use lightloom_control::{Driver, Patch, Region, Settings};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use std::collections::VecDeque;

/// One stream, while the controller's end of it is open.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub number: u64,
    session: u64,
    /// Bytes on their way, and when the last of them arrive.
    up: VecDeque<Vec<u8>>,
    up_by: Time,
    down: VecDeque<Vec<u8>>,
    down_by: Time,
    /// It broke, and the controller's end has not heard of it.
    pub broken: bool,
}

/// How the switch and its streams misbehave now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mood {
    /// Each order takes longer by up to so much.
    pub slow: Time,
    /// It says nothing.
    pub silent: bool,
    /// It says that it did not do what it did.
    pub denies: bool,
    /// It takes nobody's password.
    pub locked: bool,
    /// No stream opens.
    pub away: bool,
}

/// What became of a stream that was to open.
pub(crate) enum Opened {
    Open,
    Not,
    /// The switch ends it.
    Refused {
        stream: u64,
    },
}

/// Something that will come out at one end.
pub(crate) enum Carried {
    ToSwitch { stream: u64, at: Time },
    ToDriver { stream: u64, at: Time },
}

/// The switch and what leads to it.
pub(crate) struct Line {
    pub protocol: Protocol,
    pub driver: Box<dyn Driver>,
    pub server: Box<dyn Server>,
    pub stream: Option<Stream>,
    pub mood: Mood,
    /// The controller is about to open a stream.
    pub connecting: bool,
    /// The number of the switch.
    at: usize,
    slice: Vec<u16>,
    delay: Time,
    latency: Time,
    streams: u64,
}

impl Line {
    pub fn new(
        chance: &mut Chance,
        region: &Region,
        at: usize,
        settings: &Settings,
    ) -> Result<Self, SwitchError> {
        // A change that is begun late must be over within the lifetime, and any within the patience.
        let most = settings.lifetime.min(settings.patience);
        let delay = chance.up_to(Time::from_ps(most.ps() / 3));
        let device = Device {
            name: "soak".into(),
            ports: region.switch_ports(at),
            delay: ReconfigurationDelay::Fixed { ps: delay },
        };
        let slice = region.slice(at);
        let protocol = Protocol::draw(chance);
        let switch = Switch::new(device, chance.below(u64::MAX))?;
        let latency = Time::from_us(chance.between(1, 5_000));
        Ok(Line {
            protocol,
            driver: protocol.driver(&slice, region.switch_ports(at)),
            server: protocol.server(switch, &slice),
            stream: None,
            mood: Mood::default(),
            connecting: false,
            at,
            slice,
            delay,
            latency,
            streams: 0,
        })
    }

    /// Another life of the controller begins.
    pub fn renew(&mut self) {
        self.driver = self.protocol.driver(&self.slice, self.switch().ports());
    }

    /// Opens a stream, if that can be done. If nobody is let in, it may end at once.
    pub fn open(&mut self, now: Time) -> Opened {
        if self.mood.away {
            return Opened::Not;
        }
        self.streams += 1;
        self.stream = Some(Stream {
            number: self.streams,
            session: self.server.open(),
            up: VecDeque::new(),
            up_by: now,
            down: VecDeque::new(),
            down_by: now,
            broken: false,
        });
        self.driver.connected(now);
        if self.mood.locked && !self.protocol.has_login() {
            return Opened::Refused { stream: self.streams };
        }
        Opened::Open
    }

    /// The stream breaks for the switch. Returns what of the bytes on their way yet arrives, and when:
    /// for [`Line::late`].
    pub fn cut(
        &mut self,
        now: Time,
        chance: &mut Chance,
        settings: &Settings,
    ) -> Option<(Time, u64, Vec<u8>)> {
        let stream = self.stream.as_mut().filter(|stream| !stream.broken)?;
        stream.broken = true;
        let mut bytes: Vec<u8> = stream.up.drain(..).flatten().collect();
        stream.down.clear();
        match chance.below(3) {
            0 => bytes.clear(),
            1 => bytes.truncate(chance.below(bytes.len() as u64 + 1) as usize),
            _ => {}
        }
        let most = settings.lifetime.saturating_sub(self.delay + Time::from_us(1));
        Some((now + chance.up_to(most), stream.session, bytes))
    }

    /// What was on its way when the stream broke arrives; then the switch learns that it broke.
    pub fn late(&mut self, now: Time, session: u64, bytes: &[u8]) {
        self.server.receive(now, session, bytes);
        self.server.close(session);
    }

    /// Takes up what both ends have to send; the controller's may be stopped.
    pub fn carry(&mut self, now: Time, stopped: bool, chance: &mut Chance) -> Vec<Carried> {
        let mut carried = Vec::new();
        let sent = if stopped { None } else { self.driver.transmit() };
        if let (Some(mut bytes), Some(stream)) = (sent, &mut self.stream) {
            if self.mood.locked {
                bytes = self.protocol.with_wrong_password(&bytes);
            }
            while !bytes.is_empty() && !stream.broken {
                let piece = piece(&mut bytes, chance);
                let late = chance.up_to(self.latency) + chance.up_to(self.mood.slow);
                stream.up_by = stream.up_by.max(now + late);
                stream.up.push_back(piece);
                carried.push(Carried::ToSwitch { stream: stream.number, at: stream.up_by });
            }
        }
        for session in self.server.waiting() {
            let Some(mut bytes) = self.server.transmit(session) else { continue };
            let Some(stream) = &mut self.stream else { continue };
            if stream.session != session || stream.broken || self.mood.silent {
                continue;
            }
            if self.mood.denies && chance.hit(500) {
                bytes = self.protocol.denied(&bytes);
            }
            while !bytes.is_empty() {
                let piece = piece(&mut bytes, chance);
                let late = chance.up_to(self.latency) + chance.up_to(self.mood.slow);
                stream.down_by = stream.down_by.max(now + late);
                stream.down.push_back(piece);
                carried.push(Carried::ToDriver { stream: stream.number, at: stream.down_by });
            }
        }
        carried
    }

    /// The next bytes arrive at the switch.
    pub fn reaches_switch(&mut self, now: Time, number: u64) {
        if let Some(stream) = self.stream.as_mut().filter(|stream| stream.number == number)
            && let Some(bytes) = stream.up.pop_front()
        {
            self.server.receive(now, stream.session, &bytes);
        }
    }

    /// The next bytes arrive at the controller.
    pub fn reaches_driver(&mut self, now: Time, number: u64) {
        if let Some(stream) = self.stream.as_mut().filter(|stream| stream.number == number)
            && let Some(bytes) = stream.down.pop_front()
        {
            self.driver.receive(now, &bytes);
        }
    }

    pub fn switch(&self) -> &Switch {
        self.server.switch()
    }

    /// The patches that stand and touch the region, in rising order.
    pub fn patches(&self, region: &Region) -> Vec<Patch> {
        let ports = region.switch_ports(self.at);
        let ours = |patch: &Patch| {
            region.port_at(self.at, patch.ingress).is_some()
                || region.port_at(self.at, patch.egress - ports).is_some()
        };
        self.switch().patches().filter(ours).collect()
    }

    /// Another hand is at the switch. Returns the ports that are concerned.
    pub fn tamper(&mut self, change: impl FnOnce(&mut Switch)) -> Vec<u16> {
        let before: Vec<Patch> = self.switch().patches().collect();
        change(self.server.switch_mut());
        let after: Vec<Patch> = self.switch().patches().collect();
        let ports = self.switch().ports();
        let gone = before.iter().filter(|patch| after.binary_search(patch).is_err());
        let new = after.iter().filter(|patch| before.binary_search(patch).is_err());
        let ends = |patch: &Patch| [patch.ingress, patch.egress - ports];
        let mut touched: Vec<u16> = gone.chain(new).flat_map(ends).collect();
        touched.sort_unstable();
        touched.dedup();
        touched
    }
}

/// Takes the first of the pieces that these bytes travel in: mostly all of them.
fn piece(bytes: &mut Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    let cut = match chance.hit(900) {
        true => bytes.len(),
        false => 1 + chance.below(bytes.len() as u64) as usize,
    };
    let rest = bytes.split_off(cut.min(bytes.len()));
    std::mem::replace(bytes, rest)
}
