//! Threads that work through a run, some of its windows: started once, and between windows they watch for
//! the next one for a moment, then sleep.
//!
//! The caller does a part itself and returns when all parts are done, so a part may borrow what the caller
//! has. That is what `std::thread::scope` gives too, at the price of a start for each window.
#![allow(unsafe_code)] // the one place: threads that live longer than what they borrow for a window

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How often to look before going to sleep: some microseconds, about what waking up takes.
const LOOKS: u32 = 2_000;

/// What is done in parts, by the number of a part.
type Job = dyn Fn(usize) + Sync;

/// Threads beside the caller's.
#[derive(Debug)]
pub(crate) struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Goes up with each job.
    round: Flag,
    /// Parts that threads of the crew have yet to end.
    left: AtomicUsize,
    /// Goes up when the last of them has ended.
    done: Flag,
    job: Mutex<Option<Lent>>,
    over: AtomicBool,
    /// A part panicked.
    failed: AtomicBool,
}

/// A job that lives as long as [`Crew::all`] waits for it, and its number of parts.
#[derive(Clone, Copy, Debug)]
struct Lent {
    job: *const Job,
    parts: usize,
}
// SAFETY: a `Job` is `Sync`, so that a pointer to it may be followed from any thread while it lives.
unsafe impl Send for Lent {}

/// A number that threads wait for to change.
#[derive(Debug, Default)]
struct Flag {
    value: AtomicU32,
    asleep: Mutex<u32>,
    wake: Condvar,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flag {
    fn raise(&self) {
        let asleep = locked(&self.asleep);
        self.value.fetch_add(1, Ordering::Release);
        if *asleep > 0 {
            self.wake.notify_all();
        }
    }

    /// Waits until it is no longer what it was; what it is then.
    fn wait(&self, was: u32) -> u32 {
        for _ in 0..LOOKS {
            let now = self.value.load(Ordering::Acquire);
            if now != was {
                return now;
            }
            std::hint::spin_loop();
        }
        let mut asleep = locked(&self.asleep);
        *asleep += 1;
        while self.value.load(Ordering::Acquire) == was {
            asleep = self.wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep -= 1;
        self.value.load(Ordering::Acquire)
    }
}

impl Crew {
    /// So many threads, the caller's counted in.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let start = |me: usize| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work(me))
        };
        Crew { threads: (1..threads).map(start).collect(), shared }
    }

    /// Calls a job with each of `0..parts`, at most one a thread; the first in this thread.
    ///
    /// # Panics
    /// If a part does, after all have ended.
    pub fn all(&self, parts: usize, job: &(dyn Fn(usize) + Sync)) {
        assert!(parts <= self.threads.len() + 1, "a thread for each part");
        let Shared { round, left, done, failed, .. } = &*self.shared;
        // SAFETY: only the lifetime is another. Threads follow the pointer only for parts of this round,
        // and this function does not end, by a panic neither, before all of them have.
        let job_of_any_life =
            unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static Job>(job) };
        let was = done.value.load(Ordering::Acquire);
        left.store(self.threads.len(), Ordering::Relaxed);
        *locked(&self.shared.job) = Some(Lent { job: job_of_any_life, parts });
        round.raise();
        let own = catch_unwind(AssertUnwindSafe(|| job(0)));
        if !self.threads.is_empty() {
            done.wait(was);
        }
        if let Err(panic) = own {
            resume_unwind(panic);
        }
        assert!(!failed.load(Ordering::Relaxed), "a thread of the run panicked");
    }
}

impl Shared {
    fn work(&self, me: usize) {
        let mut round = 0;
        loop {
            round = self.round.wait(round);
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let lent = *locked(&self.job);
            if let Some(Lent { job, parts }) = lent
                && me < parts
            {
                // SAFETY: see `Crew::all`: it waits for this thread.
                let job = unsafe { &*job };
                if catch_unwind(AssertUnwindSafe(|| job(me))).is_err() {
                    self.failed.store(true, Ordering::Relaxed);
                }
            }
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.done.raise();
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.shared.round.raise();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // its panics were caught
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part of each job once, and all of them before the next job; what they borrow is the caller's.
    #[test]
    fn every_part_is_done_once() {
        for threads in 1..6 {
            let crew = Crew::new(threads);
            for round in 0..300 {
                let parts = round % threads + 1;
                let seen: Vec<AtomicU32> = (0..threads).map(|_| AtomicU32::new(0)).collect();
                crew.all(parts, &|part| {
                    seen[part].fetch_add(1, Ordering::Relaxed);
                });
                let seen: Vec<u32> = seen.into_iter().map(AtomicU32::into_inner).collect();
                let expected: Vec<u32> = (0..threads).map(|part| u32::from(part < parts)).collect();
                assert_eq!(seen, expected);
            }
        }
    }

    /// A part that panics fails the job, and the others end first.
    #[test]
    fn panics_are_passed_on() {
        for bad in 0..3 {
            let ended = AtomicU32::new(0);
            let crew = Crew::new(3);
            let done = catch_unwind(AssertUnwindSafe(|| {
                crew.all(3, &|part| {
                    assert_ne!(part, bad, "on purpose");
                    ended.fetch_add(1, Ordering::Relaxed);
                });
            }));
            assert!(done.is_err());
            assert_eq!(ended.load(Ordering::Relaxed), 2);
        }
    }
}
