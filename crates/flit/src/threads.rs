//! Several parts at once, in step: one barrier a cycle.

use crate::part::Mail;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Waits until all have come: for a moment by looking again and again, then asleep.
#[derive(Debug)]
pub(crate) struct Barrier {
    all: u32,
    here: AtomicU32,
    round: AtomicU32,
    asleep: Mutex<u32>,
    wake: Condvar,
}

/// How often to look before going to sleep: some microseconds, for who looks for long takes the time of
/// whom it waits for, where there are more programs than cores.
const LOOKS: u32 = 200;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Barrier {
    pub fn new(all: usize) -> Self {
        Barrier {
            all: all as u32,
            here: AtomicU32::new(0),
            round: AtomicU32::new(0),
            asleep: Mutex::new(0),
            wake: Condvar::new(),
        }
    }

    pub fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.here.fetch_add(1, Ordering::AcqRel) + 1 == self.all {
            self.here.store(0, Ordering::Relaxed);
            let asleep = locked(&self.asleep);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            if *asleep > 0 {
                self.wake.notify_all();
            }
            return;
        }
        for _ in 0..LOOKS {
            if self.round.load(Ordering::Acquire) != round {
                return;
            }
            std::hint::spin_loop();
        }
        let mut asleep = locked(&self.asleep);
        *asleep += 1;
        while self.round.load(Ordering::Acquire) == round {
            asleep = self.wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep -= 1;
    }
}

/// What parts send each other: by cycle (odd or even), sender and receiver.
#[derive(Debug)]
pub(crate) struct Post {
    parts: usize,
    boxes: Vec<Mutex<Mail>>,
    barrier: Barrier,
    stop: AtomicBool,
}

impl Post {
    pub fn new(parts: usize) -> Self {
        Post {
            parts,
            boxes: (0..2 * parts * parts).map(|_| Mutex::default()).collect(),
            barrier: Barrier::new(parts),
            stop: AtomicBool::new(false),
        }
    }

    fn slot(&self, now: u64, from: usize, to: usize) -> &Mutex<Mail> {
        &self.boxes[((now & 1) as usize * self.parts + from) * self.parts + to]
    }

    /// Hands over what part `me` has for another; the box was emptied two cycles ago.
    pub fn send(&self, now: u64, me: usize, to: usize, mail: &mut Mail) {
        std::mem::swap(&mut *locked(self.slot(now, me, to)), mail);
    }

    /// What another part has for part `me`; after [`Post::wait`].
    pub fn collect(&self, now: u64, from: usize, me: usize) -> MutexGuard<'_, Mail> {
        locked(self.slot(now, from, me))
    }

    /// Waits until all parts have done the cycle.
    pub fn wait(&self) {
        self.barrier.wait();
    }

    /// Lets every part stop after this cycle; before [`Post::wait`].
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Whether this was the last cycle; after [`Post::wait`].
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
