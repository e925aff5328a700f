//! Memory that operations send from and receive into: the caller's, lent until the operation is over.
//!
//! This is the one file of `net` with unsafe code. Whoever lends memory promises that it stays; that every
//! access is within its length is checked here.

#![allow(unsafe_code)] // the one place: memory that others own

use crate::exchange::{Endpoint, Transfer};
use std::any::Any;
use std::fmt;
use thiserror::Error;

/// Memory that an operation sends from and receives into.
///
/// ```
/// use lightloom_runtime::net::Memory;
/// let memory = Memory::owned(vec![(1, b"hello".to_vec())], vec![(2, 3)]);
/// assert_eq!(memory.into_received(), [(2, vec![0, 0, 0])]);
/// ```
pub struct Memory(Pieces);

enum Pieces {
    Owned {
        sends: Vec<(Endpoint, Vec<u8>)>,
        receives: Vec<(Endpoint, Vec<u8>)>,
    },
    Lent {
        sends: Vec<(Endpoint, *const u8, usize)>,
        receives: Vec<(Endpoint, *mut u8, usize)>,
        owner: Box<dyn Any + Send>,
    },
}

// Pointers only go with the promise of `Memory::new`: nobody else uses what they lead to, on whatever thread.
unsafe impl Send for Memory {}

/// Memory that does not fit its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// Too short for what goes to a peer, or comes from it.
    #[error("{found} B of memory {} endpoint {peer}; {bytes} B are needed", if *.sends { "to" } else { "from" })]
    Short {
        /// It is sent.
        sends: bool,
        /// The other end.
        peer: Endpoint,
        /// What there is \[B\].
        found: usize,
        /// What the operation moves \[B\].
        bytes: u64,
    },
    /// A peer has two pieces.
    #[error("two pieces of memory {} endpoint {peer}; one is allowed", if *.sends { "to" } else { "from" })]
    Twice {
        /// They are sent.
        sends: bool,
        /// The other end.
        peer: Endpoint,
    },
}

impl Memory {
    /// Lends memory: by peer where its bytes begin, and the length \[B\]. The owner is dropped once the
    /// operation is over, or handed back by [`Memory::into_owner`].
    ///
    /// # Safety
    /// Until the owner is dropped or handed back, every piece is memory of this process, as long as it says and
    /// initialised. Until then nobody writes what is sent, and nobody reads or writes what is received into.
    pub unsafe fn new(
        mut sends: Vec<(Endpoint, *const u8, usize)>,
        mut receives: Vec<(Endpoint, *mut u8, usize)>,
        owner: Box<dyn Any + Send>,
    ) -> Self {
        sends.sort_by_key(|it| it.0);
        receives.sort_by_key(|it| it.0);
        Memory(Pieces::Lent { sends, receives, owner })
    }

    /// Bytes to send, and room for what is to come \[B\].
    pub fn owned(sends: Vec<(Endpoint, Vec<u8>)>, receives: Vec<(Endpoint, usize)>) -> Self {
        let mut sends = sends;
        let mut receives: Vec<_> =
            receives.into_iter().map(|(peer, length)| (peer, vec![0; length])).collect();
        sends.sort_by_key(|it| it.0);
        receives.sort_by_key(|it| it.0);
        Memory(Pieces::Owned { sends, receives })
    }

    /// What has come, by peer in rising order; nothing if the memory was lent.
    pub fn into_received(self) -> Vec<(Endpoint, Vec<u8>)> {
        match self.0 {
            Pieces::Owned { receives, .. } => receives,
            Pieces::Lent { .. } => Vec::new(),
        }
    }

    /// The owner of memory that was lent.
    pub fn into_owner(self) -> Option<Box<dyn Any + Send>> {
        match self.0 {
            Pieces::Owned { .. } => None,
            Pieces::Lent { owner, .. } => Some(owner),
        }
    }

    /// Whether there is room for an operation.
    pub(super) fn check(
        &self,
        sends: &[Transfer],
        receives: &[Transfer],
    ) -> Result<(), MemoryError> {
        let (to, from): (Vec<_>, Vec<_>) = match &self.0 {
            Pieces::Owned { sends, receives } => {
                let length = |it: &(Endpoint, Vec<u8>)| (it.0, it.1.len());
                (sends.iter().map(length).collect(), receives.iter().map(length).collect())
            }
            Pieces::Lent { sends, receives, .. } => (
                sends.iter().map(|it| (it.0, it.2)).collect(),
                receives.iter().map(|it| (it.0, it.2)).collect(),
            ),
        };
        for (sends, pieces, transfers) in [(true, to, sends), (false, from, receives)] {
            if let Some(two) = pieces.windows(2).find(|two| two[0].0 == two[1].0) {
                return Err(MemoryError::Twice { sends, peer: two[0].0 });
            }
            for &Transfer { peer, bytes } in transfers {
                let piece = pieces.binary_search_by_key(&peer, |it| it.0);
                let found = piece.map_or(0, |at| pieces[at].1);
                if (found as u64) < bytes {
                    return Err(MemoryError::Short { sends, peer, found, bytes });
                }
            }
        }
        Ok(())
    }

    /// A part of what goes to a peer, if there is so much.
    pub(super) fn to(&self, peer: Endpoint, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(length)?;
        match &self.0 {
            Pieces::Owned { sends, .. } => {
                let at = sends.binary_search_by_key(&peer, |it| it.0).ok()?;
                sends[at].1.get(start..end)
            }
            Pieces::Lent { sends, .. } => {
                let at = sends.binary_search_by_key(&peer, |it| it.0).ok()?;
                let (_, pointer, all) = sends[at];
                if end > all || length == 0 {
                    return (end <= all).then_some(&[]);
                }
                // Within the piece, which `new` has promised to stay as it is.
                Some(unsafe { std::slice::from_raw_parts(pointer.add(start), length) })
            }
        }
    }

    /// A part of where a peer's bytes go, if there is so much.
    pub(super) fn from(&mut self, peer: Endpoint, offset: u64, length: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(length)?;
        match &mut self.0 {
            Pieces::Owned { receives, .. } => {
                let at = receives.binary_search_by_key(&peer, |it| it.0).ok()?;
                receives[at].1.get_mut(start..end)
            }
            Pieces::Lent { receives, .. } => {
                let at = receives.binary_search_by_key(&peer, |it| it.0).ok()?;
                let (_, pointer, all) = receives[at];
                if end > all || length == 0 {
                    return (end <= all).then_some(&mut []);
                }
                // Within the piece, which `new` has promised to be nobody else's; one slice at a time.
                Some(unsafe { std::slice::from_raw_parts_mut(pointer.add(start), length) })
            }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, sends, receives) = match &self.0 {
            Pieces::Owned { sends, receives } => ("owned", sends.len(), receives.len()),
            Pieces::Lent { sends, receives, .. } => ("lent", sends.len(), receives.len()),
        };
        write!(out, "{kind} memory, {sends} pieces to send, {receives} to receive into")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent() -> Memory {
        let mut owner = Box::new((b"abcdef".to_vec(), vec![0u8; 4]));
        let sends = vec![(3, owner.0.as_ptr(), 6), (1, std::ptr::null(), 0)];
        let receives = vec![(2, owner.1.as_mut_ptr(), 4)];
        unsafe { Memory::new(sends, receives, owner) } // heap memory of the owner, which is moved whole
    }

    #[test]
    fn no_access_is_beyond_a_piece() {
        let owned = || Memory::owned(vec![(3, b"abcdef".to_vec()), (1, vec![])], vec![(2, 4)]);
        for mut memory in [lent(), owned()] {
            assert_eq!(memory.to(3, 1, 3), Some(b"bcd".as_slice()));
            assert_eq!(memory.to(3, 6, 0), Some([].as_slice()));
            assert_eq!(memory.to(1, 0, 0), Some([].as_slice()));
            for (peer, offset, length) in
                [(3, 1, 6), (3, 7, 0), (3, u64::MAX, 2), (2, 0, 1), (1, 0, 1)]
            {
                assert_eq!(memory.to(peer, offset, length), None, "{peer} {offset} {length}");
                assert_eq!(memory.from(peer, offset.max(9), length), None);
            }
            memory.from(2, 1, 3).expect("within it").copy_from_slice(b"xyz");
            assert_eq!(memory.from(2, 0, 4).as_deref(), Some(b"\0xyz".as_slice()));
            assert_eq!(memory.from(2, 2, 3), None);
        }
    }

    #[test]
    fn memory_must_fit() {
        let memory = lent();
        let says = |sends: &[(Endpoint, u64)], receives: &[(Endpoint, u64)]| {
            let transfers = |list: &[(Endpoint, u64)]| -> Vec<_> {
                list.iter().map(|&(peer, bytes)| Transfer { peer, bytes }).collect()
            };
            let checked = memory.check(&transfers(sends), &transfers(receives));
            checked.map_or_else(|it| it.to_string(), |()| "fits".into())
        };
        assert_eq!(says(&[(3, 6), (1, 0)], &[(2, 4), (7, 0)]), "fits");
        assert_eq!(says(&[(3, 7)], &[]), "6 B of memory to endpoint 3; 7 B are needed");
        assert_eq!(says(&[], &[(7, 1)]), "0 B of memory from endpoint 7; 1 B are needed");
        let twice = Memory::owned(vec![], vec![(2, 1), (2, 1)]).check(&[], &[]).unwrap_err();
        assert_eq!(twice.to_string(), "two pieces of memory from endpoint 2; one is allowed");
    }
}
