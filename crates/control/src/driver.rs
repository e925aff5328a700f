//! What a controller asks of an optical switch, whatever protocol it speaks.
//!
//! A [`Driver`] speaks one protocol over one byte stream and does no I/O: the caller opens the stream,
//! carries bytes either way, and says what time it is. Orders are answered in the order they were
//! given. An order whose answer never comes is the controller's to give up: it then has the stream
//! closed, since an answer that comes late could be taken for another's.
//!
//! A switch joins an *ingress* to an *egress*, one way; a circuit is two such patches. Ports are
//! numbered from 1; a switch of `n` ports has ingresses 1 to `n` and egresses `n + 1` to `2 n`, and the
//! fibre pair of port `p` is ingress `p` and egress `n + p`.
//!
//! A switch, or a gateway in front of it, may *fence*: it issues terms, each greater than any before, and refuses
//! changes by whoever has an older one. The driver sees to terms: it claims one when it has none, shows the one that it
//! has when a stream opens, and puts it on every change. It never claims a second one unless [`Driver::claim`] says so,
//! so two controllers do not fence each other in turn. Reading needs no term. Where a protocol knows none, nothing of
//! this happens.
//!
//! The interface is small enough for other kinds of switches: SONiC's SAI makes a cross-connect an
//! object with two ports, created and removed in bulk and listed by its type, so an [`Order::Apply`]
//! removes the objects of `end` and creates those of `set`, and an [`Order::Read`] lists them.

use lightloom_units::Time;
use serde::{Deserialize, Serialize};

/// Light from an ingress to an egress of an optical switch.
///
/// ```
/// use lightloom_control::Patch;
/// // Ports 3 and 5 of a switch of 8 ports, joined both ways.
/// assert_eq!(Patch::pair(8, 3, 5), [Patch::new(3, 13), Patch::new(5, 11)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Patch {
    /// Where light comes in, from 1.
    pub ingress: u16,
    /// Where it leaves, from the number of ports + 1.
    pub egress: u16,
}

impl Patch {
    /// From an ingress to an egress.
    pub const fn new(ingress: u16, egress: u16) -> Self {
        Patch { ingress, egress }
    }

    /// Both ways between ports `a` and `b` of a switch of `ports` ports.
    pub const fn pair(ports: u16, a: u16, b: u16) -> [Patch; 2] {
        [Patch::new(a, ports + b), Patch::new(b, ports + a)]
    }
}

/// What a switch is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Say which patches stand.
    Read,
    /// End patches, then set others.
    Apply {
        /// Patches that stand and shall not.
        end: Vec<Patch>,
        /// Patches that shall stand.
        set: Vec<Patch>,
    },
}

/// What a switch says to an [`Order`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It says that it is done: not yet that it is so.
    Done,
    /// The patches that stand and touch the driver's ports, in rising order.
    State(Vec<Patch>),
    /// It did not do it, or not all of it; with its own words.
    Refused(String),
    /// It did not do it: another controller has claimed the switch since. With its own words.
    Fenced(String),
}

/// What a driver has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverEvent {
    /// The switch lets us in. It is of this make, as it says, and has so many ports.
    Up {
        /// Its own name for itself.
        device: String,
        /// Its ports: so many ingresses and as many egresses.
        ports: u16,
    },
    /// It will not, or makes no sense: the stream should be closed and opened anew.
    Down(String),
    /// The switch has issued this term, and takes changes with no older one. To be kept for [`Driver::hold`].
    Term(u64),
    /// Another controller has claimed the switch since: changes are refused until [`Driver::claim`]. Why, in words.
    Fenced(String),
    /// The answer to the order of this number.
    Answer {
        /// As in [`Driver::order`].
        id: u64,
        /// What the switch answers.
        answer: Answer,
    },
    /// Something that it says of itself.
    Notice(String),
}

/// One protocol of an optical switch, over a byte stream.
///
/// After every call the caller sends all that [`Driver::transmit`] has and hears all that
/// [`Driver::event`] has, and sees to it that [`Driver::timeout`] is called when
/// [`Driver::next_timeout`] comes.
pub trait Driver {
    /// A stream to the switch is open. What was asked over the last one is forgotten.
    fn connected(&mut self, now: Time);

    /// The stream is closed: orders that were not answered never will be.
    fn disconnected(&mut self, now: Time);

    /// Asks something; only while the switch is up.
    fn order(&mut self, now: Time, id: u64, order: &Order);

    /// Bytes from the switch, in whatever pieces.
    fn receive(&mut self, now: Time, bytes: &[u8]);

    /// Bytes for the switch.
    fn transmit(&mut self) -> Option<Vec<u8>>;

    /// What there is to tell, in order.
    fn event(&mut self) -> Option<DriverEvent>;

    /// When [`Driver::timeout`] wants to be called, if ever.
    fn next_timeout(&self) -> Option<Time>;

    /// Time has passed.
    fn timeout(&mut self, now: Time);

    /// Before the first stream: the term that was issued to this controller last, if there is one. Without it one is
    /// claimed, which fences all others.
    fn hold(&mut self, _term: u64) {}

    /// An operator says that this controller is the only one: claims a new term, now or once there is a stream.
    /// Orders that are given later carry it.
    fn claim(&mut self, _now: Time) {}
}
