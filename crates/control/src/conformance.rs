//! The suite that every driver must pass, against a switch that speaks its protocol:
//! `lightloom_control::driver_conformance!(PROTOCOL, make)` makes each check a test of its own, where
//! `make(ports)` gives a dark switch of `ports` ports. The driver is made as the daemon makes it, for a
//! switch on loopback.
//!
//! Checked: the switch comes up and says its size; what is ordered stands and reads back, and nothing
//! else does; answers come in the order of the orders, whatever is refused between them and however
//! the streams are cut; a stream that closes takes its orders along; a switch that is silent, that
//! talks nonsense or that garbles what it says is given up, and never makes a driver panic, answer
//! what was not asked, or answer twice; a switch that fences refuses changes by whoever has an older term.

use crate::driver::{Answer, Driver, DriverEvent, Order, Patch};
use crate::protocol::{Connection, Protocol};
use lightloom_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// A switch that speaks a driver's protocol, on one stream.
pub trait Peer {
    /// A stream opens.
    fn open(&mut self, now: Time);
    /// The stream to the switch closes.
    fn close(&mut self, now: Time);
    /// Bytes from the driver.
    fn receive(&mut self, now: Time, bytes: &[u8]);
    /// Bytes for the driver.
    fn transmit(&mut self, now: Time) -> Option<Vec<u8>>;
    /// When it wants to be called next.
    fn next_timeout(&self) -> Option<Time>;
    /// Time has passed.
    fn timeout(&mut self, now: Time);
    /// What stands, in rising order, whoever asks.
    fn patches(&self) -> Vec<Patch>;
}

/// Ports of the switch in every check.
const PORTS: u16 = 16;
/// No check of a session that works lasts as many rounds.
const ROUNDS: usize = 10_000;
/// More than any driver keeps of a message that does not end \[B\].
const ENDLESS: usize = 64 << 20;

/// A driver, a switch and the stream between them.
struct Bench<P> {
    driver: Box<dyn Driver + Send>,
    peer: P,
    now: Time,
    /// Bytes of the switch are handed on in pieces of so many.
    piece: usize,
    /// Changes the switch's bytes on their way.
    garble: Option<Chance>,
    /// What is asked and not answered, in order.
    open: VecDeque<u64>,
    asked: u64,
    up: bool,
    answers: Vec<Answer>,
    went_down: Option<String>,
    /// Terms that were issued, and whether the driver was told that it has an older one than the last.
    terms: Vec<u64>,
    fenced: bool,
}

/// SplitMix64: the same chances wherever the suite runs.
#[derive(Clone, Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// A number below `end`.
    ///
    /// ```
    /// use lightloom_control::conformance::Chance;
    /// assert!(Chance(1).below(3) < 3);
    /// ```
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// A driver as the daemon makes it, for an emulator on loopback.
fn driver(protocol: &Protocol, slice: impl IntoIterator<Item = u16>) -> Box<dyn Driver + Send> {
    let slice = slice.into_iter().collect();
    let connection = Connection { ports: PORTS, slice, loopback: true, ..Connection::default() };
    (protocol.driver)(&connection).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

impl<P: Peer> Bench<P> {
    fn new(protocol: &Protocol, make: impl FnOnce(u16) -> P) -> Self {
        Bench {
            driver: driver(protocol, 1..=PORTS),
            peer: make(PORTS),
            now: Time::from_ms(1),
            piece: usize::MAX,
            garble: None,
            open: VecDeque::new(),
            asked: 0,
            up: false,
            answers: Vec::new(),
            went_down: None,
            terms: Vec::new(),
            fenced: false,
        }
    }

    fn connect(&mut self) {
        (self.up, self.went_down) = (false, None);
        self.peer.open(self.now);
        self.driver.connected(self.now);
        self.hear();
        self.carry();
        while !self.up && self.went_down.is_none() {
            self.tick();
            self.carry();
        }
    }

    /// Time passes until the driver wants to be called.
    fn tick(&mut self) {
        let next = self.driver.next_timeout().expect("a driver that waits for no end of time");
        self.now = self.now.max(next);
        self.driver.timeout(self.now);
        self.hear();
    }

    fn disconnect(&mut self) {
        self.driver.disconnected(self.now);
        self.hear();
        self.peer.close(self.now);
        self.open.clear();
        self.up = false;
    }

    /// Another driver takes over the stream; gives the one that had it.
    fn change(&mut self, other: Box<dyn Driver + Send>) -> Box<dyn Driver + Send> {
        self.disconnect();
        let before = std::mem::replace(&mut self.driver, other);
        self.fenced = false;
        self.connect();
        assert!(self.up, "{:?}", self.went_down);
        before
    }

    /// The driver is fenced: it reads what stands, and changes nothing of it.
    fn holds_nothing(&mut self, stands: &[Patch], wanted: &[Patch]) {
        for (end, set) in [(stands, wanted), (stands, &[][..]), (&[][..], wanted)] {
            let answer = self.apply(end, set);
            assert!(matches!(&answer, Answer::Fenced(why) if !why.is_empty()), "{answer:?}");
            assert_eq!(self.answer(&Order::Read), Answer::State(stands.to_vec()));
        }
    }

    fn ask(&mut self, order: &Order) {
        self.asked += 1;
        self.open.push_back(self.asked);
        self.driver.order(self.now, self.asked, order);
        self.hear();
    }

    /// Asks one thing and waits for its answer.
    fn answer(&mut self, order: &Order) -> Answer {
        self.ask(order);
        self.carry();
        assert!(self.open.is_empty(), "{order:?} was not answered: {:?}", self.went_down);
        self.answers.pop().expect("it was answered")
    }

    fn apply(&mut self, end: &[Patch], set: &[Patch]) -> Answer {
        self.answer(&Order::Apply { end: end.to_vec(), set: set.to_vec() })
    }

    /// Hears what the driver has to tell, and holds it to its promises.
    fn hear(&mut self) {
        while let Some(event) = self.driver.event() {
            match event {
                DriverEvent::Up { ports, .. } => {
                    assert!(!self.up, "up twice");
                    assert!(self.garble.is_some() || ports == PORTS, "{ports} ports");
                    self.up = true;
                }
                DriverEvent::Down(why) => {
                    assert!(!why.is_empty(), "down for no reason");
                    assert!(self.went_down.is_none(), "down twice");
                    (self.up, self.went_down) = (false, Some(why));
                }
                DriverEvent::Answer { id, answer } => {
                    assert!(self.up, "an answer of a switch that is not up");
                    assert_eq!(
                        self.open.pop_front(),
                        Some(id),
                        "answers in the order of the orders"
                    );
                    self.answers.push(answer);
                }
                DriverEvent::Term(term) => self.terms.push(term),
                DriverEvent::Fenced(_) => self.fenced = true,
                DriverEvent::Notice(_) => {}
            }
        }
    }

    fn carry_to_driver(&mut self, mut bytes: Vec<u8>) {
        if let Some(chance) = &mut self.garble
            && chance.below(3) == 0
            && !bytes.is_empty()
        {
            let at = chance.below(bytes.len());
            match chance.below(3) {
                0 => bytes[at] ^= 1 << chance.below(8),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b" ,;<\n\"&0"[chance.below(8)]),
            }
        }
        for piece in bytes.chunks(self.piece) {
            self.driver.receive(self.now, piece);
            self.hear();
        }
    }

    /// Carries bytes until neither side has any, and the switch waits for nothing.
    fn carry(&mut self) {
        for _ in 0..ROUNDS {
            let mut still = true;
            while let Some(bytes) = self.driver.transmit() {
                self.peer.receive(self.now, &bytes);
                still = false;
            }
            while let Some(bytes) = self.peer.transmit(self.now) {
                self.carry_to_driver(bytes);
                still = false;
            }
            if still {
                let Some(next) = self.peer.next_timeout() else { return };
                self.now = self.now.max(next);
                self.peer.timeout(self.now);
            }
        }
        panic!("the two never come to rest");
    }

    /// The driver gets the time until it gives the switch up.
    fn wait_for_down(&mut self) {
        let end = self.now.saturating_add(Time::from_ms(3_600_000));
        while self.went_down.is_none() {
            self.tick();
            assert!(self.now <= end, "not given up within an hour");
            while self.driver.transmit().is_some() {}
        }
    }
}

/// Patches of the switch of every check.
fn patch(ingress: u16, egress_port: u16) -> Patch {
    Patch::new(ingress, PORTS + egress_port)
}

/// The switch comes up with its size, dark.
pub fn comes_up_dark<P: Peer>(protocol: &Protocol, make: impl FnOnce(u16) -> P) {
    let mut bench = Bench::new(protocol, make);
    bench.connect();
    assert!(bench.up, "{:?}", bench.went_down);
    assert_eq!(bench.answer(&Order::Read), Answer::State(Vec::new()));
}

/// What is set stands and reads back; what is ended is gone; ports change partners in one order.
pub fn what_is_ordered_stands<P: Peer>(protocol: &Protocol, make: impl FnOnce(u16) -> P) {
    let mut bench = Bench::new(protocol, make);
    bench.connect();
    let pairs = |pairs: &[(u16, u16)]| {
        let mut patches: Vec<_> =
            pairs.iter().flat_map(|&(a, b)| Patch::pair(PORTS, a, b)).collect();
        patches.sort_unstable();
        patches
    };
    type Pairs = &'static [(u16, u16)];
    let steps: [(Pairs, Pairs); 6] = [
        (&[], &[]),
        (&[], &[(1, 2), (3, 4)]),
        // Four ports change partners: every ingress and every egress moves.
        (&[(1, 2), (3, 4)], &[(1, 3), (2, 4)]),
        // One circuit goes, two others keep half of its ports busy.
        (&[(1, 3)], &[(1, 16), (3, 15)]),
        (&[(2, 4)], &[]),
        (&[(1, 16), (3, 15)], &[(16, 15)]),
    ];
    let mut expected = Vec::new();
    for (end, set) in steps {
        let (end, set) = (pairs(end), pairs(set));
        assert_eq!(bench.apply(&end, &set), Answer::Done);
        expected.retain(|patch| !end.contains(patch));
        expected.extend(set);
        expected.sort_unstable();
        assert_eq!(bench.peer.patches(), expected);
        assert_eq!(bench.answer(&Order::Read), Answer::State(expected.clone()));
    }
}

/// A port in use, an egress in use and a port that is not there are refused, with words; what stood
/// stands, and the orders around are answered in order.
pub fn refusals_leave_the_rest<P: Peer>(protocol: &Protocol, make: impl FnOnce(u16) -> P) {
    let mut bench = Bench::new(protocol, make);
    bench.connect();
    let stands = vec![patch(1, 2), patch(2, 1)];
    assert_eq!(bench.apply(&[], &stands), Answer::Done);
    for wrong in [patch(1, 3), patch(3, 2), patch(PORTS * 2 + 1, 3), patch(3, PORTS + 1)] {
        bench.answers.clear();
        bench.ask(&Order::Read);
        bench.ask(&Order::Apply { end: vec![], set: vec![wrong] });
        bench.ask(&Order::Apply { end: vec![], set: vec![patch(5, 6)] });
        bench.ask(&Order::Read);
        bench.carry();
        let [Answer::State(before), Answer::Refused(words), Answer::Done, Answer::State(after)] =
            &bench.answers[..]
        else {
            panic!("{wrong:?}: {:?}", bench.answers);
        };
        assert!(!words.is_empty(), "{wrong:?} is refused without a word");
        assert_eq!(before, &stands, "{wrong:?}");
        assert_eq!(after[..2], stands, "{wrong:?}");
        assert_eq!(after[2..], [patch(5, 6)], "{wrong:?}");
        assert_eq!(bench.apply(&[patch(5, 6)], &[]), Answer::Done);
    }
}

/// A change that is refused has changed nothing, if the protocol says that changes are whole.
pub fn whole_changes_are_whole<P: Peer>(protocol: &Protocol, make: impl FnOnce(u16) -> P) {
    let mut bench = Bench::new(protocol, make);
    bench.connect();
    let stands = vec![patch(1, 2), patch(2, 1), patch(3, 4)];
    assert_eq!(bench.apply(&[], &stands), Answer::Done);
    let refused = bench.apply(&[patch(1, 2)], &[patch(1, 5), patch(6, 4)]);
    assert!(matches!(refused, Answer::Refused(_)), "{refused:?}: egress of port 4 is in use");
    if protocol.whole {
        assert_eq!(bench.answer(&Order::Read), Answer::State(stands));
    }
}

/// A driver of some ports reports patches that touch them, at either end, and of no others.
pub fn reads_its_slice<P: Peer>(protocol: &Protocol, make: impl Fn(u16) -> P) {
    let mut bench = Bench::new(protocol, make);
    bench.connect();
    let all = [patch(1, 2), patch(2, 9), patch(9, 1), patch(10, 11), patch(11, 10)];
    assert_eq!(bench.apply(&[], &all), Answer::Done);
    bench.disconnect();
    bench.driver = driver(protocol, [1, 2]);
    bench.connect();
    let ours = vec![patch(1, 2), patch(2, 9), patch(9, 1)];
    assert_eq!(bench.answer(&Order::Read), Answer::State(ours));
}

/// However the switch's bytes are cut, the same comes of them.
pub fn streams_may_be_cut_anywhere<P: Peer>(protocol: &Protocol, make: impl Fn(u16) -> P) {
    let run = |piece| {
        let mut bench = Bench::new(protocol, &make);
        bench.piece = piece;
        bench.connect();
        bench.ask(&Order::Apply { end: vec![], set: Patch::pair(PORTS, 1, 2).to_vec() });
        bench.ask(&Order::Apply { end: vec![], set: vec![patch(1, 3)] });
        bench.ask(&Order::Read);
        bench.carry();
        bench.answers
    };
    let whole = run(usize::MAX);
    assert_eq!(whole.len(), 3);
    for piece in [1, 2, 3, 7, 64] {
        assert_eq!(run(piece), whole, "in pieces of {piece}");
    }
}

/// Orders of a stream that closed are never answered, and the next stream begins anew.
pub fn a_closed_stream_takes_its_orders_along<P: Peer>(
    protocol: &Protocol,
    make: impl FnOnce(u16) -> P,
) {
    let mut bench = Bench::new(protocol, make);
    bench.connect();
    let pair = Patch::pair(PORTS, 1, 2).to_vec();
    assert_eq!(bench.apply(&[], &pair), Answer::Done);
    bench.ask(&Order::Read);
    bench.ask(&Order::Apply { end: pair.clone(), set: vec![] });
    bench.disconnect();
    assert!(bench.driver.transmit().is_none(), "bytes for a stream that is closed");
    bench.connect();
    assert!(bench.up, "{:?}", bench.went_down);
    assert_eq!(bench.answers, []);
    // The order was never carried to the switch.
    assert_eq!(bench.answer(&Order::Read), Answer::State(pair));
}

/// A switch that says nothing is given up, and so is one that falls silent in its greeting.
pub fn silence_is_given_up<P: Peer>(protocol: &Protocol, make: impl FnOnce(u16) -> P) {
    let mut bench = Bench::new(protocol, make);
    bench.driver.connected(bench.now);
    while bench.driver.transmit().is_some() {}
    bench.wait_for_down();
    bench.now = bench.now.saturating_add(Time::from_ms(1));
    bench.disconnect();
    bench.connect();
    assert!(bench.up, "{:?}", bench.went_down);
}

/// Bytes that make no sense end in `Down` or in nothing, and an endless message in `Down`.
pub fn nonsense_is_given_up<P: Peer>(protocol: &Protocol, make: impl FnOnce(u16) -> P) {
    let mut bench = Bench::new(protocol, make);
    let mut chance = Chance(1);
    for round in 0..300 {
        let greeted = round % 2 == 0;
        if greeted {
            bench.connect();
            bench.ask(&Order::Read);
        } else {
            bench.went_down = None;
            bench.driver.connected(bench.now);
        }
        let bytes: Vec<u8> = (0..chance.below(400)).map(|_| chance.below(256) as u8).collect();
        bench.carry_to_driver(bytes);
        bench.disconnect();
        bench.answers.clear();
    }
    bench.connect();
    let piece = vec![b'x'; 1 << 16];
    for _ in 0..ENDLESS / piece.len() {
        bench.driver.receive(bench.now, &piece);
    }
    // Some find that it was too long once it ends.
    bench.driver.receive(bench.now, b"\r\n;");
    bench.hear();
    assert!(bench.went_down.is_some(), "a message of 64 MiB was listened to");
    bench.disconnect();
    bench.connect();
    assert_eq!(bench.answer(&Order::Read), Answer::State(Vec::new()));
}

/// Whatever becomes of the switch's bytes on their way, answers are of what was asked, in order, once.
pub fn garbled_bytes_break_no_promise<P: Peer>(protocol: &Protocol, make: impl Fn(u16) -> P) {
    for seed in 0..300 {
        let mut bench = Bench::new(protocol, &make);
        bench.garble = Some(Chance(seed));
        for port in 1..8 {
            bench.connect();
            for order in [
                Order::Apply { end: vec![], set: vec![patch(port, port + 1)] },
                Order::Read,
                Order::Apply { end: vec![patch(port, port + 1)], set: vec![] },
            ] {
                if bench.up {
                    bench.ask(&order);
                    bench.carry();
                }
            }
            bench.disconnect();
        }
    }
}

/// Random legal orders, several under way at once: the switch ends up as asked, and says so.
pub fn random_orders_end_as_asked<P: Peer>(protocol: &Protocol, make: impl Fn(u16) -> P) {
    for seed in 0..60 {
        let mut chance = Chance(seed);
        let mut bench = Bench::new(protocol, &make);
        bench.piece = 1 + chance.below(100);
        bench.connect();
        let mut model = BTreeMap::<u16, u16>::new();
        for _ in 0..10 {
            let mut expected = Vec::new();
            // A switch may refuse a port that still moves, so each changes once at most.
            let mut moving = Vec::new();
            for _ in 0..1 + chance.below(3) {
                let end: Vec<_> = model
                    .iter()
                    .map(|(&ingress, &egress)| Patch::new(ingress, egress))
                    .filter(|patch| {
                        let still = |port| !moving.contains(port);
                        [patch.ingress, patch.egress].iter().all(still) && chance.below(3) == 0
                    })
                    .collect();
                model.retain(|&ingress, _| end.iter().all(|patch| patch.ingress != ingress));
                let mut set = Vec::new();
                for _ in 0..chance.below(8) {
                    let wanted = patch(1 + chance.below(16) as u16, 1 + chance.below(16) as u16);
                    let free = !model.contains_key(&wanted.ingress)
                        && !model.values().any(|&egress| egress == wanted.egress)
                        && ![wanted.ingress, wanted.egress].iter().any(|p| moving.contains(p));
                    if free {
                        model.insert(wanted.ingress, wanted.egress);
                        set.push(wanted);
                    }
                }
                let changed = end.iter().chain(&set);
                moving.extend(changed.flat_map(|patch| [patch.ingress, patch.egress]));
                bench.ask(&Order::Apply { end, set });
                expected.push(Answer::Done);
            }
            let stands: Vec<_> = model.iter().map(|(&i, &e)| Patch::new(i, e)).collect();
            bench.ask(&Order::Read);
            expected.push(Answer::State(stands.clone()));
            bench.carry();
            assert_eq!(bench.answers, expected, "seed {seed}");
            assert_eq!(bench.peer.patches(), stands, "seed {seed}");
            bench.answers.clear();
        }
    }
}

/// A switch that fences takes changes with the last term only, says so to whoever has an older one, and lets all read.
/// A driver claims a term when it has none or is told to, and at no other time.
pub fn an_old_term_is_refused<P: Peer>(protocol: &Protocol, make: impl FnOnce(u16) -> P) {
    let mut bench = Bench::new(protocol, make);
    bench.connect();
    let (first, second) = (Patch::pair(PORTS, 1, 2).to_vec(), Patch::pair(PORTS, 3, 4).to_vec());
    assert_eq!(bench.apply(&[], &first), Answer::Done);
    if !protocol.fences {
        bench.driver.claim(bench.now);
        assert_eq!(bench.apply(&first, &second), Answer::Done);
        assert_eq!((&bench.terms[..], bench.fenced), (&[][..], false));
        return;
    }
    assert_eq!(bench.terms.len(), 1);
    // Another controller, without a journal.
    let other = driver(protocol, 1..=PORTS);
    let old = bench.change(other);
    assert!(bench.terms[1] > bench.terms[0], "{:?}", bench.terms);
    assert_eq!(bench.apply(&first, &second), Answer::Done);
    let new = bench.change(old);
    assert!(bench.fenced, "not told");
    bench.holds_nothing(&second, &first);
    // The other one goes on, also after a restart with its journal, and claims nothing.
    let mut again = driver(protocol, 1..=PORTS);
    again.hold(bench.terms[1]);
    for other in [new, again] {
        let old = bench.change(other);
        assert_eq!((bench.fenced, bench.terms.len()), (false, 2));
        assert_eq!(bench.apply(&second, &first), Answer::Done);
        assert_eq!(bench.apply(&first, &second), Answer::Done);
        bench.disconnect();
        bench.driver = old;
        bench.connect();
    }
}

/// A driver that is told to claims a term, with which its changes are taken, and fences all others: at once, or when
/// there is a stream.
pub fn a_claim_fences_all_others<P: Peer>(protocol: &Protocol, make: impl FnOnce(u16) -> P) {
    if !protocol.fences {
        return;
    }
    let mut bench = Bench::new(protocol, make);
    bench.connect();
    let (first, second) = (Patch::pair(PORTS, 1, 2).to_vec(), Patch::pair(PORTS, 3, 4).to_vec());
    assert_eq!(bench.apply(&[], &first), Answer::Done);
    let other = driver(protocol, 1..=PORTS);
    let mut others = bench.change(other);
    for at_once in [true, false, true] {
        others = bench.change(others);
        let (told, before) = (std::mem::take(&mut bench.fenced), bench.terms.len());
        assert!(told, "not told");
        if at_once {
            bench.driver.claim(bench.now);
        } else {
            bench.disconnect();
            bench.driver.claim(bench.now);
            bench.connect();
        }
        // Asked before the term is there: it carries it all the same.
        assert_eq!(bench.apply(&first, &second), Answer::Done);
        assert_eq!(bench.apply(&second, &first), Answer::Done);
        assert_eq!((bench.fenced, bench.terms.len()), (false, before + 1));
        assert!(bench.terms.is_sorted_by(|a, b| a < b), "{:?}", bench.terms);
    }
    bench.change(others);
    bench.holds_nothing(&first, &second);
}

/// Makes each check a test, in a module of the name given or `conformance`.
#[macro_export]
macro_rules! driver_conformance {
    ($protocol:expr, $make:expr) => {
        $crate::driver_conformance!(conformance, $protocol, $make);
    };
    ($module:ident, $protocol:expr, $make:expr) => {
        $crate::driver_conformance!(@tests $module, $protocol, $make;
            comes_up_dark, what_is_ordered_stands, refusals_leave_the_rest,
            whole_changes_are_whole, reads_its_slice,
            streams_may_be_cut_anywhere, a_closed_stream_takes_its_orders_along,
            silence_is_given_up, nonsense_is_given_up, garbled_bytes_break_no_promise,
            random_orders_end_as_asked, an_old_term_is_refused, a_claim_fences_all_others);
    };
    (@tests $module:ident, $protocol:expr, $make:expr; $($check:ident),*) => {
        mod $module {
            use super::*;
            $(
                #[test]
                fn $check() {
                    $crate::conformance::$check(&$protocol, $make);
                }
            )*
        }
    };
}
