//! The memory of operations, and what must be in it.

use lightloom_units::mix;
use std::collections::BTreeMap;

/// What one endpoint sends to another in one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub group: u32,
    pub number: u64,
    pub source: u16,
    pub target: u16,
}

impl Pattern {
    fn key(self) -> u64 {
        let ends = u64::from(self.source) << 8 | u64::from(self.target);
        mix(u64::from(self.group) << 40 | self.number << 20 | ends)
    }

    /// Its bytes from `offset` on.
    pub fn bytes(self, offset: u64) -> impl Iterator<Item = u8> {
        let key = self.key();
        (offset..).map(move |at| (key >> (at % 7 * 8)) as u8 ^ (at as u8) ^ (at >> 8) as u8)
    }

    pub fn is(self, offset: u64, bytes: &[u8]) -> bool {
        self.bytes(offset).zip(bytes).all(|(expected, &found)| expected == found)
    }
}

/// The memory of one operation.
pub struct Memory {
    pub group: usize,
    pub number: u64,
    pub sends: BTreeMap<u16, Pattern>,
    pub receives: BTreeMap<u16, (Pattern, Vec<u8>)>,
}

impl Memory {
    /// Memory in which no byte is what is to come.
    pub fn receive(pattern: Pattern, bytes: u64) -> (Pattern, Vec<u8>) {
        (pattern, pattern.bytes(0).take(bytes as usize).map(|byte| !byte).collect())
    }

    /// All has come.
    pub fn is_full(&self) -> bool {
        self.receives.values().all(|(pattern, bytes)| pattern.is(0, bytes))
    }
}
