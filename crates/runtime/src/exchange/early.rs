//! What is sent before its operation is posted: bounce memory at the receiver, and what the sender has taken
//! of it.
//!
//! Both count in the same way: an operation costs its bytes and 256 more. The sender takes that of the allowance
//! when it sends, and gets it back by the operation's `Ready`, or when the receiver has acknowledged that
//! the group has failed. The receiver has emptied its bounce memory before it says either, so it never
//! holds more than the sender has taken.

use super::failure::LaneError;
use super::ranges::Ranges;
use std::collections::BTreeMap;

/// What an operation costs besides its bytes \[B\].
pub(crate) const EARLY_COST: u64 = 256;

/// A group and an operation's number.
pub(crate) type Name = (u32, u64);

/// What came early of one operation from one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Early {
    pub bytes: Vec<u8>,
    pub got: Ranges,
}

/// Bounce memory for one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounce {
    entries: BTreeMap<Name, Early>,
    charged: u64,
}

impl Bounce {
    /// Makes room up to `end` in what comes early of an operation.
    pub fn reserve(&mut self, name: Name, end: u64, allowed: u64) -> Result<(), LaneError> {
        let old = self.entries.get(&name).map_or(0, |it| it.bytes.len() as u64 + EARLY_COST);
        let found = self.charged - old + old.max(end + EARLY_COST);
        if found > allowed {
            return Err(LaneError::Allowance { found, allowed });
        }
        self.charged = found;
        let early = self.entries.entry(name).or_default();
        if early.bytes.len() < end as usize {
            early.bytes.resize(end as usize, 0); // within the allowance, so within memory
        }
        Ok(())
    }

    pub fn get(&self, name: Name) -> Option<&Early> {
        self.entries.get(&name)
    }

    pub fn get_mut(&mut self, name: Name) -> Option<&mut Early> {
        self.entries.get_mut(&name)
    }

    pub fn take(&mut self, name: Name) -> Option<Early> {
        let early = self.entries.remove(&name)?;
        self.charged -= early.bytes.len() as u64 + EARLY_COST;
        Some(early)
    }

    pub fn forget(&mut self, group: u32) {
        while let Some((&name, _)) = self.entries.range((group, 0)..=(group, u64::MAX)).next() {
            self.take(name);
        }
    }

    /// Bytes that are kept, with what each operation costs \[B\].
    pub fn charged(&self) -> u64 {
        self.charged
    }
}

/// What was taken of a peer's allowance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pledges {
    /// What the peer allows \[B\].
    pub allowance: u64,
    entries: BTreeMap<Name, u64>,
    charged: u64,
}

impl Pledges {
    /// Takes what an operation costs, if so much is left.
    pub fn take(&mut self, name: Name, bytes: u64, whatever: bool) -> bool {
        let fits = self.charged + bytes + EARLY_COST <= self.allowance || whatever;
        if fits {
            self.charged += bytes + EARLY_COST;
            self.entries.insert(name, bytes);
        }
        fits
    }

    /// Gives it back; says how many bytes were sent.
    pub fn give_back(&mut self, name: Name) -> Option<u64> {
        let bytes = self.entries.remove(&name)?;
        self.charged -= bytes + EARLY_COST;
        Some(bytes)
    }

    pub fn give_back_all(&mut self, group: u32) {
        while let Some((&name, _)) = self.entries.range((group, 0)..=(group, u64::MAX)).next() {
            self.give_back(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounce_memory_stays_within_what_was_taken() {
        let mut pledges = Pledges { allowance: 1000, ..Pledges::default() };
        assert!(pledges.take((1, 0), 300, false));
        assert!(!pledges.take((1, 1), 189, false), "556 of 1000 are taken, and it costs 445");
        assert!(pledges.take((1, 1), 188, false));
        let mut bounce = Bounce::default();
        assert_eq!(bounce.reserve((1, 0), 200, 1000), Ok(()));
        assert_eq!(bounce.reserve((1, 0), 300, 1000), Ok(()));
        assert_eq!(bounce.reserve((1, 0), 100, 1000), Ok(()));
        assert_eq!(bounce.charged(), 556);
        let over = Err(LaneError::Allowance { found: 1001, allowed: 1000 });
        assert_eq!(bounce.reserve((1, 1), 189, 1000), over);
        assert_eq!(bounce.reserve((1, 1), 188, 1000), Ok(()));
        assert_eq!(bounce.take((1, 0)).map(|early| early.bytes.len()), Some(300));
        assert_eq!(pledges.give_back((1, 0)), Some(300));
        bounce.forget(1);
        pledges.give_back_all(1);
        assert_eq!((bounce.charged(), pledges.charged), (0, 0));
    }
}
