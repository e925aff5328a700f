//! What the gateway does with commands: it refuses what is old, and gives the switch one order at a time.

use super::command::{Change, Command, plain};
use super::gateway::{Asked, Gateway, GatewayOutput, UnderWay};
use crate::driver::{Answer, Order, Patch};
use lightloom_units::Time;
use std::fmt::Write;

impl Gateway {
    /// Carries out commands until the switch has an order, or there are no more.
    pub(super) fn proceed(&mut self, now: Time) {
        while self.under_way.is_none() {
            let Some(Asked { session, number, command }) = self.queue.pop_front() else { return };
            self.carried(session, 1);
            match command {
                Err(why) => self.say(session, &[number], &format!("err {why}")),
                Ok(Command::Hello(_)) => self.say(session, &[number], "err greeted already"),
                Ok(Command::Show) => self.order(now, session, vec![number], Order::Read),
                Ok(Command::Claim(ports)) => {
                    let term = self.terms.claim(&ports);
                    self.outputs.push_back(GatewayOutput::Keep(self.terms.clone()));
                    self.say(session, &[number], &format!("ok {term}"));
                }
                Ok(Command::Hold(term, ports)) => {
                    let checked = self.terms.check(term, &ports);
                    let words = checked.map_or_else(|last| format!("old {last}"), |()| "ok".into());
                    self.say(session, &[number], &words);
                }
                Ok(Command::Change(change)) => self.change(now, session, number, change),
            }
        }
    }

    /// A change, and those that the same session asks next: they go to the switch together.
    fn change(&mut self, now: Time, session: u64, number: u64, first: Change) {
        if let Err(last) = self.fits(first) {
            let term = first.term;
            self.outputs.push_back(GatewayOutput::Refused { session, term, last });
            return self.say(session, &[number], &format!("old {last}"));
        }
        let (mut end, mut set) = (Vec::new(), Vec::new());
        let mut numbers = vec![number];
        (if first.sets { &mut set } else { &mut end }).push(first.patch);
        while let Some((number, next)) = self.follows(session, &end, &set) {
            self.queue.pop_front();
            numbers.push(number);
            (if next.sets { &mut set } else { &mut end }).push(next.patch);
        }
        self.carried(session, numbers.len() - 1);
        self.order(now, session, numbers, Order::Apply { end, set });
    }

    /// The next command, if it can go to the switch together with these: ends come before sets, a port is in one of
    /// each at most, and its term is the last.
    fn follows(&self, session: u64, end: &[Patch], set: &[Patch]) -> Option<(u64, Change)> {
        let next = self.queue.front().filter(|next| next.session == session)?;
        let Ok(Command::Change(change)) = next.command else { return None };
        let list = if change.sets { set } else { end };
        let Patch { ingress, egress } = change.patch;
        let free = list.iter().all(|other| other.ingress != ingress && other.egress != egress);
        let fits = free && (change.sets || set.is_empty()) && self.fits(change).is_ok();
        fits.then_some((next.number, change))
    }

    /// Whether a change has the last term of its ports; else that term.
    fn fits(&self, change: Change) -> Result<(), u64> {
        let Patch { ingress, egress } = change.patch;
        self.terms.check(change.term, &[ingress, egress - self.settings.ports])
    }

    fn order(&mut self, now: Time, session: u64, numbers: Vec<u64>, order: Order) {
        self.ordered += 1;
        let (id, changes) = (self.ordered, matches!(order, Order::Apply { .. }));
        let deadline = now.saturating_add(self.settings.patience);
        self.under_way = Some(UnderWay { id, session, numbers, changes, deadline });
        self.outputs.push_back(GatewayOutput::Order { id, order });
    }

    /// The switch answers.
    pub(super) fn answered(&mut self, now: Time, id: u64, answer: Answer) {
        let Some(order) = self.under_way.take_if(|order| order.id == id) else { return };
        match answer {
            Answer::Done if order.changes => self.say(order.session, &order.numbers, "ok"),
            Answer::State(patches) if !order.changes => {
                self.show(order.session, order.numbers[0], patches);
            }
            Answer::Refused(words) | Answer::Fenced(words) => {
                self.say(order.session, &order.numbers, &format!("err {}", plain(&words)));
            }
            Answer::Done | Answer::State(_) => {
                self.under_way = Some(order);
                self.give_up(now, "it answers what was not asked");
            }
        }
    }

    fn show(&mut self, session: u64, number: u64, mut patches: Vec<Patch>) {
        patches.sort_unstable();
        let mut text = String::new();
        for Patch { ingress, egress } in &patches {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{number} patch {ingress} {egress}");
        }
        let _ = writeln!(text, "{number} ok {}", patches.len());
        self.tell(session, text);
    }

    /// The switch is not trusted until there is another stream.
    pub(super) fn give_up(&mut self, now: Time, why: &str) {
        self.away(now, why);
        self.given_up = true;
        self.outputs.push_back(GatewayOutput::Reconnect);
    }

    /// The switch is away: nobody is let in until it is back.
    pub(super) fn away(&mut self, now: Time, why: &str) {
        self.device = Err(why.into());
        let words = format!("err {}", plain(&format!("the switch is away: {why}")));
        if let Some(order) = self.under_way.take() {
            if order.changes {
                self.not_before = now.saturating_add(self.settings.lifetime);
            }
            self.say(order.session, &order.numbers, &words);
        }
        for asked in std::mem::take(&mut self.queue) {
            self.say(asked.session, &[asked.number], &words);
        }
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.hang_up(session, "the switch is away"));
    }

    pub(super) fn hang_up(&mut self, session: u64, why: &str) {
        self.outputs.push_back(GatewayOutput::Close { session, why: why.into() });
        self.close(session);
    }

    /// The same answer to each of these commands.
    pub(super) fn say(&mut self, session: u64, numbers: &[u64], words: &str) {
        let lines = numbers.iter().map(|number| format!("{number} {words}\n"));
        self.tell(session, lines.collect());
    }

    fn tell(&mut self, session: u64, text: String) {
        if self.sessions.contains_key(&session) {
            self.outputs.push_back(GatewayOutput::Say { session, text });
        }
    }

    /// So many commands of a session are not in the queue any more.
    fn carried(&mut self, session: u64, commands: usize) {
        if let Some(open) = self.sessions.get_mut(&session) {
            open.waiting = open.waiting.saturating_sub(commands);
        }
    }
}
