//! The controller is stopped, as by SIGSTOP or a machine that is moved, and goes on later.
//!
//! Ignored: a pause that nobody notices (the daemon notices one of a second).
//! What comes meanwhile waits. What it was about to do when it was stopped it does when it goes on, but for
//! orders to the switch: the daemon sends none that is older than the patience, and closes the stream. Then it is told that
//! it was stopped, and hears what has come.

use crate::event::{Event, Stopped};
use crate::world::World;
use lightloom_control::{Controller, Input, Output};
use lightloom_units::Time;
use std::collections::VecDeque;

impl World {
    /// The controller is stopped for so long, before it does this.
    pub(crate) fn pause(&mut self, long: Time, held: Option<Output>) {
        if self.pause.is_none() && self.controller.is_some() {
            self.note(|| "the controller is stopped".into());
            self.tally("controller stopped in the middle");
            self.pause = Some(Stopped { since: self.now, held, waiting: VecDeque::new() });
            self.at(self.now + long, Event::GoesOn { life: self.life });
        }
    }

    /// What happens to a process that is stopped waits. Gives back what does not.
    pub(crate) fn unless_stopped(&mut self, event: Event) -> Option<Event> {
        match &mut self.pause {
            Some(pause) if event.is_the_controllers() => {
                pause.waiting.push_back(event);
                None
            }
            _ => Some(event),
        }
    }

    /// The controller goes on.
    pub(crate) fn goes_on(&mut self) {
        let Some(mut pause) = self.pause.take() else { return };
        let long = self.now - pause.since;
        let stale = long > self.settings.patience;
        self.note(|| format!("the controller goes on after {long}"));
        if let Some(output) = pause.held.take() {
            self.do_late(output, stale);
        }
        self.do_all_late(stale);
        // It may have been stopped while it decided.
        if matches!(pause.waiting.front(), Some(Event::Decided { .. })) {
            pause.waiting.pop_front().into_iter().for_each(|decided| self.happen(decided));
            self.do_all_late(stale);
        }
        if stale {
            self.checks.woken(self.now);
        }
        self.input(Input::Woken);
        self.settle();
        for event in pause.waiting {
            self.happen(event);
            self.settle();
        }
        if let Some(controller) = &mut self.controller {
            controller.timeout(self.now);
        }
    }

    fn do_all_late(&mut self, stale: bool) {
        while let Some(output) = self.controller.as_mut().and_then(Controller::poll) {
            self.do_late(output, stale);
        }
    }

    fn do_late(&mut self, output: Output, stale: bool) {
        if let (true, &Output::Order { switch, ref order, .. }) = (stale, &output) {
            self.checks.meant(switch, order);
            self.note(|| "an order is too old to be sent".into());
            self.hang_up(switch);
            let why = "an order was not sent in time".into();
            return self.input(Input::SwitchDown { switch, why });
        }
        self.carry_out(output);
    }
}
