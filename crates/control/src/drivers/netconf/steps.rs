//! The driver's calls: what an order takes, step by step, and what comes of each reply.

use super::call;
use super::client::NetconfDriver;
use super::frame::{chunk, mark};
use super::job::{Job, Phase, Step};
use super::lock::Denied;
use super::reply::{self, Reply};
use super::xml::Element;
use crate::driver::{Answer, DriverEvent, Order, Patch};
use lightloom_units::Time;

impl NetconfDriver {
    pub(super) fn replied(&mut self, now: Time, message: Element) -> Result<(), String> {
        let call = message.value("message-id").unwrap_or_default();
        let job = self.under_way.pop_front().filter(|(number, _)| call == number.to_string());
        let Some((_, job)) = job else {
            return Err(format!("a reply to call {call:?}, which is not under way"));
        };
        let (reply, warning) = reply::replied(message)?;
        self.events.extend(warning.map(DriverEvent::Notice));
        let more = !self.under_way.is_empty();
        self.deadline = more.then(|| now.saturating_add(self.settings.patience));
        match (job.order, reply) {
            (None, Reply::Data(data)) => {
                let (device, listed) = reply::described(&data)?;
                (self.device, self.ports) = (device, listed.unwrap_or(self.settings.ports));
                if self.phase == Phase::Asking {
                    self.described();
                }
            }
            (None, Reply::Ok) if job.step == Step::Hold => self.locked(),
            (None, Reply::Locked(holder, words)) if job.step == Step::Hold => {
                self.denied(holder, &words);
            }
            // It may have ended by itself.
            (None, Reply::Ok | Reply::Refused(_)) if matches!(job.step, Step::End(_)) => {
                self.ask(Step::Hold);
            }
            (Some(id), Reply::Data(data)) if job.step == Step::Read => {
                let mut patches = reply::patches(&data, self.server.list())?;
                patches.retain(|patch| self.is_ours(patch));
                let answer = Answer::State(patches);
                self.events.push_back(DriverEvent::Answer { id, answer });
            }
            (None, Reply::Refused(words)) => return Err(words),
            (Some(id), Reply::Refused(words) | Reply::Locked(_, words)) => {
                self.went_wrong(id, job, words)?;
            }
            (Some(id), Reply::Ok) if job.step != Step::Read => self.went_well(id, job),
            _ => return Err("a reply that does not fit its call".into()),
        }
        self.proceed(now);
        Ok(())
    }

    /// The switch has said what it is: it is up, or its lock comes first.
    fn described(&mut self) {
        if self.lock.is_due() {
            self.phase = Phase::Locking;
            return self.ask(Step::Hold);
        }
        self.come_up();
        self.events.extend(self.lock.other.clone().map(DriverEvent::Fenced));
    }

    fn come_up(&mut self) {
        self.phase = Phase::Up;
        let (device, ports) = (self.device.clone(), self.ports);
        self.events.push_back(DriverEvent::Up { device, ports });
    }

    /// This session has the lock: its number is the term.
    fn locked(&mut self) {
        self.lock.got(self.server.session);
        self.events.push_back(DriverEvent::Term(self.server.session));
        if self.phase == Phase::Locking {
            self.come_up();
        }
    }

    /// Another session has the lock.
    fn denied(&mut self, holder: u64, words: &str) {
        match self.lock.denied(holder, words) {
            Denied::End(session) => self.ask(Step::End(session)),
            Denied::Leave(why) => {
                if self.phase == Phase::Locking {
                    self.come_up();
                }
                self.events.push_back(DriverEvent::Fenced(why));
            }
        }
    }

    /// The step after one that the switch has done.
    fn went_well(&mut self, id: u64, job: Job) {
        let next = match job.step {
            Step::Lock => Step::EditCandidate,
            Step::EditCandidate => Step::Commit,
            Step::Commit | Step::Discard if !self.lock.held => Step::Unlock,
            _ => {
                let answer = job.refused.map_or(Answer::Done, Answer::Refused);
                self.events.push_back(DriverEvent::Answer { id, answer });
                return;
            }
        };
        self.begin(Job { step: next, ..job });
    }

    /// The step after one that the switch would not do.
    fn went_wrong(&mut self, id: u64, job: Job, words: String) -> Result<(), String> {
        match job.step {
            Step::EditCandidate | Step::Commit => {
                self.begin(Job { step: Step::Discard, refused: Some(words), ..job });
            }
            Step::Lock => self.begin(Job { step: Step::Release, refused: Some(words), ..job }),
            // What is locked and not ours to open is opened by the end of the session.
            Step::Discard | Step::Unlock => return Err(words),
            _ => {
                let answer = Answer::Refused(job.refused.unwrap_or(words));
                self.events.push_back(DriverEvent::Answer { id, answer });
            }
        }
        Ok(())
    }

    /// Begins the next order, or waits for one.
    pub(super) fn proceed(&mut self, now: Time) {
        if self.phase == Phase::Locking && self.under_way.len() == 1 {
            self.deadline = Some(self.give_up);
        }
        while self.phase == Phase::Up && self.under_way.is_empty() {
            if self.lock.claimed && self.lock.is_due() {
                self.deadline = Some(now.saturating_add(self.settings.patience));
                return self.ask(Step::Hold);
            }
            let Some((id, order)) = self.queue.pop_front() else {
                let idle = self.settings.keepalive;
                self.deadline = (idle > Time::ZERO).then(|| now.saturating_add(idle));
                return;
            };
            self.deadline = None;
            let (step, edit) = match &order {
                Order::Read => (Step::Read, None),
                Order::Apply { end, set } if end.is_empty() && set.is_empty() => {
                    let answer = Answer::Done;
                    self.events.push_back(DriverEvent::Answer { id, answer });
                    continue;
                }
                Order::Apply { .. } if self.lock.wanted && !self.lock.held => {
                    let why = self.lock.other.clone().unwrap_or("the lock is not held".into());
                    self.events.push_back(DriverEvent::Answer { id, answer: Answer::Fenced(why) });
                    continue;
                }
                Order::Apply { end, set } => {
                    let target = if self.server.writable { "running" } else { "candidate" };
                    let step = match (self.server.writable, self.lock.held) {
                        (true, _) => Step::Edit,
                        (false, true) => Step::EditCandidate,
                        (false, false) => Step::Lock,
                    };
                    (step, Some(call::edit(target, self.server.list(), end, set)))
                }
            };
            self.begin(Job { order: Some(id), step, edit, refused: None });
        }
    }

    /// A call that no order needs.
    pub(super) fn ask(&mut self, step: Step) {
        self.begin(Job { order: None, step, edit: None, refused: None });
    }

    fn begin(&mut self, mut job: Job) {
        let edit = job.edit.take_if(|_| matches!(job.step, Step::Edit | Step::EditCandidate));
        let kill = if let Step::End(session) = job.step { call::kill(session) } else { String::new() };
        let operation = match job.step {
            Step::End(_) => &kill,
            Step::Hold if self.server.writable => call::LOCK_RUNNING,
            Step::Describe => call::DESCRIBE,
            Step::Read => call::READ,
            Step::Edit | Step::EditCandidate => edit.as_deref().unwrap_or_default(),
            Step::Lock | Step::Hold => call::LOCK,
            Step::Unlock | Step::Release => call::UNLOCK,
            Step::Commit => call::COMMIT,
            Step::Discard => call::DISCARD,
        };
        self.call += 1;
        let text = call::numbered(self.call, operation);
        self.outgoing.push_back(if self.server.chunks { chunk(&text) } else { mark(&text) });
        self.under_way.push_back((self.call, job));
    }

    fn is_ours(&self, patch: &Patch) -> bool {
        let ours = |port: u16| self.settings.slice.binary_search(&port).is_ok();
        ours(patch.ingress) || ours(patch.egress.saturating_sub(self.ports))
    }
}
