//! Plans made on other threads.
//!
//! A plan depends on nothing but its component. So the run goes on while it is made, up to the first
//! instant at which the component could have something to tell; what no thread has begun by then the run
//! makes itself. Threads live as long as the run; one that has nothing to do looks for more some
//! thousand times, then sleeps.

use crate::component::plan::Plan;
use crate::component::planning::Desk;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Jobs that wait before threads are woken: waking takes as long as making some plans.
const WAKE: usize = if cfg!(test) { 1 } else { 4 };

/// How often a thread looks for more to do before it sleeps: being woken takes as long as making some plans.
const LOOKS: u32 = if cfg!(test) { 10 } else { 4_000 };

/// A plan that has begun.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub plan: Plan,
    /// How often rates were computed.
    pub solves: u64,
}

/// A plan that is to be made.
#[derive(Debug)]
pub(crate) struct Job {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug)]
enum State {
    Waiting(Box<Draft>),
    Taken,
    /// Taken, and the run waits for it.
    Awaited,
    Done(Box<Draft>),
    /// The thread that made it panicked.
    Failed,
}

impl Job {
    pub fn new(draft: Box<Draft>) -> Self {
        Job { state: Mutex::new(State::Waiting(draft)), done: Condvar::new() }
    }

    fn take(&self) -> Option<Box<Draft>> {
        let mut state = locked(&self.state);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Waiting(draft) => Some(draft),
            other => {
                *state = other;
                None
            }
        }
    }

    /// The draft with its plan, made at this desk if no other has begun it.
    ///
    /// # Panics
    /// If the thread that made it did.
    pub fn finish(&self, desk: &mut Desk) -> Box<Draft> {
        if let Some(mut draft) = self.take() {
            draft.make(desk);
            return draft;
        }
        let mut state = locked(&self.state);
        loop {
            match std::mem::replace(&mut *state, State::Awaited) {
                State::Done(draft) => return draft,
                State::Failed => panic!("a thread of the run panicked"),
                _ => state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Makes the plan, if nobody has begun it.
    fn work(&self, desk: &mut Desk) {
        let Some(mut draft) = self.take() else { return };
        let mut ended = Ended { job: self, state: Some(State::Failed) };
        draft.make(desk);
        ended.state = Some(State::Done(draft));
    }
}

/// Tells a job's state when it goes, by a panic too.
struct Ended<'a> {
    job: &'a Job,
    state: Option<State>,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let ended = self.state.take().unwrap_or(State::Failed);
        if let State::Awaited = std::mem::replace(&mut *locked(&self.job.state), ended) {
            self.job.done.notify_one();
        }
    }
}

impl Draft {
    fn make(&mut self, desk: &mut Desk) {
        self.solves = desk.plan(&mut self.plan);
    }
}

/// Threads beside the caller's.
pub(crate) struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    /// How often jobs have been given out.
    given: AtomicU64,
    wake: Condvar,
}

#[derive(Default)]
struct Jobs {
    queue: VecDeque<Arc<Job>>,
    /// Threads that wait for some.
    idle: usize,
    over: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crew {
    /// So many threads, the caller's counted in.
    pub fn new(threads: usize, tolerance: f64) -> Self {
        let shared = Arc::new(Shared::default());
        let start = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work(tolerance))
        };
        Crew { threads: (1..threads).map(start).collect(), shared }
    }

    /// Whether there is any thread but the caller's.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Hands out jobs.
    pub fn give(&self, some: &mut Vec<Arc<Job>>) {
        if some.is_empty() {
            return;
        }
        let mut jobs = locked(&self.shared.jobs);
        jobs.queue.extend(some.drain(..));
        self.shared.given.fetch_add(1, Ordering::Relaxed);
        if jobs.idle > 0 && jobs.queue.len() >= WAKE {
            self.shared.wake.notify_all();
        }
    }
}

impl Shared {
    fn work(&self, tolerance: f64) {
        let mut desk = Desk::new(tolerance);
        while let Some(job) = self.next() {
            job.work(&mut desk);
        }
    }

    fn next(&self) -> Option<Arc<Job>> {
        let (mut jobs, mut looked) = (locked(&self.jobs), 0);
        loop {
            if jobs.over {
                return None;
            }
            if let Some(job) = jobs.queue.pop_front() {
                return Some(job);
            }
            if looked < LOOKS {
                let given = self.given.load(Ordering::Relaxed);
                drop(jobs);
                while looked < LOOKS && self.given.load(Ordering::Relaxed) == given {
                    std::hint::spin_loop();
                    looked += 1;
                }
                jobs = locked(&self.jobs);
                continue;
            }
            jobs.idle += 1;
            jobs = self.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            jobs.idle -= 1;
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        locked(&self.shared.jobs).over = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // its panics are its jobs'
        }
    }
}
