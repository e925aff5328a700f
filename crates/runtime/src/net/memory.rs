//! Memory that operations send from and receive into: the caller's, lent until the operation is over.
//!
//! This is, but for a system call in `low_water.rs`, the one file of `net` with unsafe code. Whoever lends memory promises that it stays; that every
//! access is within its length is checked here.

#![allow(unsafe_code)] // the one place: memory that others own

use super::landings::Landings;
use crate::exchange::{Endpoint, Transfer};
use std::any::Any;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use thiserror::Error;

/// So many slices are read or written at once.
const SLICES: usize = 16;

/// Memory that an operation sends from and receives into.
///
/// ```
/// use lightloom_runtime::net::Memory;
/// let memory = Memory::owned(vec![(1, b"hello".to_vec())], vec![(2, 3)]);
/// assert_eq!(memory.into_received(), [(2, vec![0, 0, 0])]);
/// ```
pub struct Memory(Pieces, Option<Arc<Landings>>);

enum Pieces {
    Owned { sends: Vec<(Endpoint, Vec<u8>)>, receives: Vec<(Endpoint, Vec<u8>)> },
    Lent { sends: Vec<Lent<*const u8>>, receives: Vec<Lent<*mut u8>>, owner: Box<dyn Any + Send> },
}

/// A piece of what goes to a peer, or comes from it.
struct Lent<P> {
    peer: Endpoint,
    /// Where it begins in that \[B\].
    start: u64,
    pointer: P,
    length: usize,
}

/// Sorts pieces by peer; a peer's are one after the other, in the order in which they were given.
fn laid_out<P>(mut pieces: Vec<(Endpoint, P, usize)>) -> Vec<Lent<P>> {
    pieces.sort_by_key(|it| it.0);
    let mut at = (0, 0);
    let lay = |(peer, pointer, length): (Endpoint, P, usize)| {
        at = if at.0 == peer { at } else { (peer, 0) };
        at.1 += length as u64;
        Lent { peer, start: at.1 - length as u64, pointer, length }
    };
    pieces.into_iter().map(lay).collect()
}

/// A part of what goes to a peer or comes from it, piece by piece, of at most [`SLICES`]: where the piece begins,
/// where in it the part does, and how much of it is the part's. None if there is not so much.
fn parts<P: Copy>(
    all: &[Lent<P>],
    peer: Endpoint,
    offset: u64,
    length: usize,
) -> Option<impl Iterator<Item = (P, usize, usize)>> {
    let of =
        &all[all.partition_point(|it| it.peer < peer)..all.partition_point(|it| it.peer <= peer)];
    let end = offset.checked_add(length as u64)?;
    if of.last().map_or(0, |last| last.start + last.length as u64) < end {
        return None;
    }
    let first = of.partition_point(|it| it.start + it.length as u64 <= offset);
    let cut = move |it: &Lent<P>| {
        let within = offset.saturating_sub(it.start) as usize;
        let room = (it.length - within) as u64;
        (it.pointer, within, room.min(end.saturating_sub(it.start.max(offset))) as usize)
    };
    Some(of[first..].iter().filter(|it| it.length > 0).take(SLICES).map(cut).filter(|it| it.2 > 0))
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
    /// Lends memory: pieces by peer, where they begin, and their length \[B\]; several pieces of a peer are one
    /// after the other in what goes to it or comes from it. The owner is dropped once the operation is over, or handed back by [`Memory::into_owner`].
    ///
    /// # Safety
    /// Until the owner is dropped or handed back, every piece is memory of this process, as long as it says and
    /// initialised. Until then nobody writes what is sent, and nobody reads or writes what is received into.
    pub unsafe fn new(
        sends: Vec<(Endpoint, *const u8, usize)>,
        receives: Vec<(Endpoint, *mut u8, usize)>,
        owner: Box<dyn Any + Send>,
    ) -> Self {
        let (sends, receives) = (laid_out(sends), laid_out(receives));
        Memory(Pieces::Lent { sends, receives, owner }, None)
    }

    /// Bytes to send, and room for what is to come \[B\].
    pub fn owned(sends: Vec<(Endpoint, Vec<u8>)>, receives: Vec<(Endpoint, usize)>) -> Self {
        let mut sends = sends;
        let mut receives: Vec<_> =
            receives.into_iter().map(|(peer, length)| (peer, vec![0; length])).collect();
        sends.sort_by_key(|it| it.0);
        receives.sort_by_key(|it| it.0);
        Memory(Pieces::Owned { sends, receives }, None)
    }

    /// The same memory; what comes is noted.
    #[must_use]
    pub fn watched(self, landings: Arc<Landings>) -> Self {
        Memory(self.0, Some(landings))
    }

    /// Bytes have come into what [`Memory::from`] gave, at this time \[ns\].
    pub(super) fn wrote(&self, peer: Endpoint, offset: u64, bytes: usize, now_ns: u64) {
        if let Some(landings) = &self.1 {
            landings.wrote(peer, offset, bytes as u64, now_ns);
        }
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
        if let Pieces::Owned { sends, receives } = &self.0 {
            for (sends, pieces) in [(true, sends), (false, receives)] {
                if let Some(two) = pieces.windows(2).find(|two| two[0].0 == two[1].0) {
                    return Err(MemoryError::Twice { sends, peer: two[0].0 });
                }
            }
        }
        for (sends, transfers) in [(true, sends), (false, receives)] {
            for &Transfer { peer, bytes } in transfers {
                let found = self.room(sends, peer);
                if (found as u64) < bytes {
                    return Err(MemoryError::Short { sends, peer, found, bytes });
                }
            }
        }
        Ok(())
    }

    /// What there is to send to a peer, or to receive into \[B\].
    fn room(&self, sends: bool, peer: Endpoint) -> usize {
        fn lent<P>(pieces: &[Lent<P>], peer: Endpoint) -> usize {
            pieces.iter().filter(|it| it.peer == peer).map(|it| it.length).sum()
        }
        let owned = |pieces: &[(Endpoint, Vec<u8>)]| {
            pieces.iter().find(|it| it.0 == peer).map_or(0, |it| it.1.len())
        };
        match &self.0 {
            Pieces::Owned { sends: list, .. } if sends => owned(list),
            Pieces::Owned { receives, .. } => owned(receives),
            Pieces::Lent { sends: list, .. } if sends => lent(list, peer),
            Pieces::Lent { receives, .. } => lent(receives, peer),
        }
    }

    /// A part of what goes to a peer, if there is so much: added to `slices`, at most [`SLICES`] of them, so that it
    /// may be less than `length`.
    pub(super) fn to<'a>(
        &'a self,
        peer: Endpoint,
        offset: u64,
        length: usize,
        slices: &mut Vec<IoSlice<'a>>,
    ) -> Option<()> {
        match &self.0 {
            Pieces::Owned { sends, .. } => {
                let at = sends.binary_search_by_key(&peer, |it| it.0).ok()?;
                let start = usize::try_from(offset).ok()?;
                slices.push(IoSlice::new(sends[at].1.get(start..start.checked_add(length)?)?));
            }
            Pieces::Lent { sends, .. } => {
                for (pointer, within, take) in parts(sends, peer, offset, length)? {
                    // Within the piece, which `new` has promised to stay as it is.
                    let slice = unsafe { std::slice::from_raw_parts(pointer.add(within), take) };
                    slices.push(IoSlice::new(slice));
                }
            }
        }
        Some(())
    }

    /// A part of where a peer's bytes go, if there is so much: as [`Memory::to`].
    pub(super) fn from<'a>(
        &'a mut self,
        peer: Endpoint,
        offset: u64,
        length: usize,
        slices: &mut Vec<IoSliceMut<'a>>,
    ) -> Option<()> {
        match &mut self.0 {
            Pieces::Owned { receives, .. } => {
                let at = receives.binary_search_by_key(&peer, |it| it.0).ok()?;
                let start = usize::try_from(offset).ok()?;
                let end = start.checked_add(length)?;
                slices.push(IoSliceMut::new(receives[at].1.get_mut(start..end)?));
            }
            Pieces::Lent { receives, .. } => {
                for (pointer, within, take) in parts(receives, peer, offset, length)? {
                    // Within the piece, which `new` has promised to be nobody else's, and no other slice is of it.
                    let slice =
                        unsafe { std::slice::from_raw_parts_mut(pointer.add(within), take) };
                    slices.push(IoSliceMut::new(slice));
                }
            }
        }
        Some(())
    }
}

impl Memory {
    /// Puts a peer's first bytes where they go; what does not fit is left out.
    pub(super) fn put(&mut self, peer: Endpoint, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let mut slices = Vec::new();
            if self.from(peer, at as u64, bytes.len() - at, &mut slices).is_none() {
                return;
            }
            for slice in &mut slices {
                let length = slice.len();
                slice.copy_from_slice(&bytes[at..at + length]);
                at += length;
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

    fn read(memory: &Memory, peer: Endpoint, offset: u64, length: usize) -> Option<Vec<u8>> {
        let mut slices = Vec::new();
        memory.to(peer, offset, length, &mut slices)?;
        Some(slices.iter().flat_map(|it| it.to_vec()).collect())
    }

    fn write(memory: &mut Memory, peer: Endpoint, offset: u64, bytes: &[u8]) -> Option<usize> {
        let mut slices = Vec::new();
        memory.from(peer, offset, bytes.len(), &mut slices)?;
        let mut bytes = bytes.iter();
        slices
            .iter_mut()
            .flat_map(|it| it.iter_mut())
            .for_each(|to| *to = *bytes.next().expect("one"));
        Some(slices.len())
    }

    #[test]
    fn no_access_is_beyond_a_piece() {
        let owned = || Memory::owned(vec![(3, b"abcdef".to_vec()), (1, vec![])], vec![(2, 4)]);
        for mut memory in [lent(), owned()] {
            assert_eq!(read(&memory, 3, 1, 3).as_deref(), Some(b"bcd".as_slice()));
            assert_eq!(read(&memory, 3, 6, 0), Some(vec![]));
            assert_eq!(read(&memory, 1, 0, 0), Some(vec![]));
            for (peer, offset, length) in
                [(3, 1, 6), (3, 7, 0), (3, u64::MAX, 2), (2, 0, 1), (1, 0, 1)]
            {
                assert_eq!(read(&memory, peer, offset, length), None, "{peer} {offset} {length}");
                assert_eq!(write(&mut memory, peer, offset.saturating_add(9), &[0; 6]), None);
            }
            write(&mut memory, 2, 1, b"xyz").expect("within it");
            assert_eq!(write(&mut memory, 2, 2, b"123"), None);
            if let Some((_, bytes)) = memory.into_received().first() {
                assert_eq!(bytes, b"\0xyz");
            }
        }
    }

    #[test]
    fn pieces_of_a_peer_follow_each_other() {
        let mut owner = Box::new((b"abcdef".to_vec(), vec![0u8; 6]));
        let (from, into) = (owner.0.as_ptr(), owner.1.as_mut_ptr());
        let memory = |sends: &[(usize, usize)], receives: &[(usize, usize)], owner: Box<_>| {
            let send = |&(at, length): &(usize, usize)| (7, from.wrapping_add(at), length);
            let receive = |&(at, length): &(usize, usize)| (7, into.wrapping_add(at), length);
            let sends = sends.iter().map(send).collect();
            // Pieces within heap memory of the owner, which is moved whole.
            unsafe { Memory::new(sends, receives.iter().map(receive).collect(), owner) }
        };
        let mut memory = memory(&[(4, 2), (0, 0), (0, 3)], &[(3, 2), (0, 2)], owner);
        assert_eq!(read(&memory, 7, 0, 5).as_deref(), Some(b"efabc".as_slice()));
        assert_eq!(read(&memory, 7, 1, 3).as_deref(), Some(b"fab".as_slice()));
        assert_eq!(read(&memory, 7, 2, 1).as_deref(), Some(b"a".as_slice()));
        assert_eq!(read(&memory, 7, 2, 4), None);
        assert_eq!(write(&mut memory, 7, 1, b"xyz"), Some(2));
        let owner = memory.into_owner().and_then(|it| it.downcast::<(Vec<u8>, Vec<u8>)>().ok());
        assert_eq!(owner.expect("it").1, b"yz\0\0x\0");
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
