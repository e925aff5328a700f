//! Parts of a run that have nothing to do with one another ([`Parts`]), as the replicas of a job: one after the
//! other, each up to the instant at which something of it ends that a task of no part waits for.
//!
//! What a run touches from one event to the next is then what one part touches. Several threads may each take the next
//! part, with books and components of their own; they ask one policy, in turns. From the fences on all
//! go together, on one thread, with what each part left to come, in the order of parts. So a run gives the same
//! for any number of threads; and the same as without parts, but for events of one picosecond and of
//! several parts, which come in another order.

use crate::refinement::Worthwhile;
use crate::run::{Event, Known, NONE, Run, Slot};
use lightloom_engine::{
    Books, Due, EngineError, EventQueue, Observer, Outcome, Parts, Policy, Renamed, Scenario,
    Shared, TaskId, Wake,
};
use lightloom_units::{Bytes, Time};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Flows that a thread tells the observer of at once.
const BATCH: usize = if cfg!(test) { 3 } else { 4_096 };

/// By number of the part: what it leaves to come.
type Rest = Vec<(usize, EventQueue<Event, Known>)>;

/// Runs a scenario, in parts if it has any.
///
/// # Errors
/// As an engine.
pub(crate) fn run(
    knobs: (f64, usize, Worthwhile),
    scenario: &Scenario<'_>,
    policy: &mut dyn Policy,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let Some(parts) = scenario.parts(policy) else {
        let mut run = Run::new(knobs, scenario, policy, observer);
        run.begin_all()?;
        return run.complete();
    };
    let others = knobs.1.clamp(1, parts.first.len()) - 1;
    let threads = Threads {
        parts: &parts,
        next: AtomicUsize::new(0),
        finished: (0..others).map(|_| AtomicUsize::new(0)).collect(),
        over: AtomicBool::new(false),
    };
    if others == 0 {
        let mut run = Run::new(knobs, scenario, policy, observer);
        let rest = run.take_parts(0, &threads)?;
        run.join(rest);
        return run.complete();
    }
    let policy = Mutex::new(policy);
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let (threads, policy, lead) = (&threads, &policy, thread::current());
        let of_others: Vec<_> = (0..others)
            .map(|nth| {
                let mut teller = Teller { tell: tell.clone(), batch: vec![], nth, threads };
                let lead = lead.clone();
                scope.spawn(move || {
                    let (tolerance, _, worthwhile) = knobs;
                    let (alone, mut policy) = ((tolerance, 1, worthwhile), Shared(policy));
                    let mut run = Run::new(alone, scenario, &mut policy, &mut teller);
                    let rest = run.take_parts(nth + 1, threads);
                    let left = rest.map(|rest| run.leave(rest));
                    if left.is_err() {
                        threads.over.store(true, Ordering::Relaxed);
                    }
                    lead.unpark();
                    left
                })
            })
            .collect();
        let (mut policy, mut heard) = (Shared(policy), Heard { observer, told, threads });
        let mut run = Run::new(knobs, scenario, &mut policy, &mut heard);
        let mut rest = run.take_parts(0, threads);
        while rest.is_ok() && !of_others.iter().all(|other| other.is_finished()) {
            thread::park_timeout(Duration::from_millis(50));
            if let Err(error) = run.ledger.ask(Time::ZERO) {
                rest = Err(error);
            }
        }
        threads.over.fetch_or(rest.is_err(), Ordering::Relaxed);
        let left: Vec<_> = of_others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        // That a thread was told to stop is no reason.
        let mut failed = left.iter().filter_map(|left| left.as_ref().err());
        if let Some(error) = failed.find(|error| !matches!(error, EngineError::Interrupted)) {
            return Err(error.clone());
        }
        let mut rest = rest?;
        for (left, finished) in left.into_iter().zip(&threads.finished) {
            run.go_on_with(left?, &mut rest);
            finished.store(0, Ordering::Relaxed); // they are among the run's own
        }
        run.join(rest);
        run.complete()
    })
}

/// What threads that take parts know of one another.
struct Threads<'a> {
    parts: &'a Parts,
    /// The part that nobody has taken yet.
    next: AtomicUsize,
    /// By thread but the first: tasks that have ended, until the first goes on with them.
    finished: Vec<AtomicUsize>,
    /// Whether all are to stop.
    over: AtomicBool,
}

impl Threads<'_> {
    /// The number of the next part for thread `nth`, which has `taken` so many; in tests each takes some.
    fn take(&self, nth: usize, taken: usize) -> usize {
        match cfg!(test) {
            true => nth + taken * (self.finished.len() + 1),
            false => self.next.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// Tells the first thread's observer.
struct Teller<'a> {
    tell: mpsc::Sender<Vec<Told>>,
    batch: Vec<Told>,
    nth: usize,
    threads: &'a Threads<'a>,
}

/// A flow that has arrived.
type Told = (TaskId, Bytes, Time, Time);

impl Observer for Teller<'_> {
    fn flow_finished(&mut self, task: TaskId, bytes: Bytes, start: Time, end: Time) {
        self.batch.push((task, bytes, start, end));
        if self.batch.len() >= BATCH {
            let full = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
            let _ = self.tell.send(full); // if nobody listens any more, the run is over
        }
    }
    fn keep_going(&mut self, finished: usize, _: usize, _: Time) -> bool {
        self.threads.finished[self.nth].store(finished, Ordering::Relaxed);
        !self.threads.over.load(Ordering::Relaxed)
    }
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        let _ = self.tell.send(std::mem::take(&mut self.batch));
    }
}

/// Hears of what happens on all threads.
struct Heard<'a> {
    observer: &'a mut dyn Observer,
    told: mpsc::Receiver<Vec<Told>>,
    threads: &'a Threads<'a>,
}

impl Heard<'_> {
    fn listen(&mut self) {
        for (task, bytes, start, end) in self.told.try_iter().flatten() {
            self.observer.flow_finished(task, bytes, start, end);
        }
    }
}

impl Observer for Heard<'_> {
    fn flow_finished(&mut self, task: TaskId, bytes: Bytes, start: Time, end: Time) {
        self.observer.flow_finished(task, bytes, start, end);
    }
    fn keep_going(&mut self, finished: usize, tasks: usize, now: Time) -> bool {
        self.listen();
        let of_others = self.threads.finished.iter().map(|ended| ended.load(Ordering::Relaxed));
        self.observer.keep_going(finished + of_others.sum::<usize>(), tasks, now)
    }
}

impl Drop for Heard<'_> {
    fn drop(&mut self) {
        self.listen();
    }
}

/// What a thread leaves that has run some parts.
struct Left {
    books: Books,
    rest: Rest,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    /// By link.
    component_of: Vec<u32>,
    capacity: Vec<f64>,
    colours: Vec<u64>,
}

impl<'a> Run<'a> {
    /// On thread `nth`: takes parts that nobody has taken, each up to its fence.
    fn take_parts(&mut self, nth: usize, threads: &Threads<'a>) -> Result<Rest, EngineError> {
        self.fence = &threads.parts.fence;
        let mut rest = Rest::new();
        loop {
            let part = threads.take(nth, rest.len());
            let Some(first) = threads.parts.first.get(part) else { break };
            self.part = part;
            self.up_to_fence(first)?;
            rest.push((part, std::mem::take(&mut self.queue)));
        }
        self.fence = &[];
        Ok(rest)
    }

    fn up_to_fence(&mut self, first: &[u32]) -> Result<(), EngineError> {
        self.fence_at = Time::MAX;
        self.ledger.begin_part(first);
        self.keep_up(Time::ZERO)?;
        self.settle(Time::ZERO)?;
        while let Some(now) = self.queue.peek_time().filter(|&at| at < self.fence_at) {
            while self.fence_at > now
                && let Some(event) = self.queue.pop_at(now)
            {
                self.handle(event, now)?;
            }
            self.settle(now)?;
        }
        Ok(())
    }

    /// Something is due: perhaps the end of what a task of no part waits for.
    pub(crate) fn heed_fence(&mut self, wake: Wake) {
        if self.fence.is_empty() {
            return;
        }
        let task = match wake.due {
            Due::Computed(task) | Due::Started(task) => task,
            Due::PhaseOver(track) => self.ledger.task_of(track),
            Due::Ready(_) | Due::Incident(_) => return,
        };
        if self.fence[task as usize] {
            self.fence_at = self.fence_at.min(wake.at);
        }
    }

    /// What parts leave comes, all of it.
    fn join(&mut self, mut rest: Rest) {
        rest.sort_by_key(|&(part, _)| part);
        rest.into_iter().for_each(|(_, queue)| self.queue.append(queue));
    }

    fn leave(self, rest: Rest) -> Left {
        let Run { slots, free_slots, component_of, .. } = self;
        let (capacity, colours) = (self.links.capacity, self.colours.into_colours());
        Left {
            books: self.ledger.into_books(),
            rest,
            slots,
            free_slots,
            component_of,
            capacity,
            colours,
        }
    }

    /// Goes on with what another thread has left.
    fn go_on_with(&mut self, left: Left, rest: &mut Rest) {
        let renamed = self.ledger.absorb(left.books);
        let slots = self.slots.len() as u32;
        self.slots.extend(left.slots);
        self.slots[slots as usize..].iter_mut().for_each(|slot| slot.rename(renamed.tracks));
        self.free_slots.extend(left.free_slots.iter().map(|slot| slot + slots));
        for (link, of) in self.ledger.scenario.fabric.links().iter().enumerate() {
            if left.component_of[link] != NONE {
                self.component_of[link] = left.component_of[link] + slots;
                self.colours.keep(link, left.colours[link]);
            }
            if left.capacity[link] != of.rate.bytes_per_ps() {
                self.links.capacity[link] = left.capacity[link];
            }
        }
        let renamed = |event| renamed_event(event, renamed, slots);
        for (part, mut queue) in left.rest {
            queue.rename(renamed);
            rest.push((part, queue));
        }
    }
}

/// An event of another thread's, of which components are called `slots` more.
fn renamed_event(event: Event, renamed: Renamed, slots: u32) -> Event {
    match event {
        Event::Due(due) => Event::Due(renamed.due(due)),
        Event::Drained { component, version } => {
            Event::Drained { component: component + slots, version }
        }
        Event::Planned { .. } => unreachable!("other threads make their plans themselves"),
    }
}

#[cfg(test)]
mod tests;
