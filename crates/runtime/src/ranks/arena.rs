//! Memory that a rank shares with its server's runtime.
//!
//! A rank makes a file in memory (memfd), seals it against being made shorter, and hands its descriptor over; both map
//! it. So what the runtime reads and writes is always there, whatever the rank does.
//! Ignored: a rank that writes what it has lent. It harms its own bytes: they are copied and added, and nothing
//! else is made of them.

#![allow(unsafe_code)] // the one place: memory that another process has, too

use crate::collective::{Element, Reduction, reduce};
use crate::exchange::Endpoint;
use crate::net::Memory;
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Memory that is mapped while anybody holds it.
#[derive(Clone, Debug)]
pub(super) struct Arena(Arc<Mapped>);

#[derive(Debug)]
struct Mapped {
    at: *mut u8,
    bytes: usize,
}

// The memory is reached through `Arena` alone, which checks every access against its length.
unsafe impl Send for Mapped {}
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Mapped by `Arena`, with this length, and held by nobody any more.
        let _ = unsafe { munmap(self.at.cast::<c_void>(), self.bytes) };
    }
}

/// A part of an arena.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub arena: Arena,
    pub range: Range<u64>,
}

impl Arena {
    /// Maps what a rank shares.
    ///
    /// # Errors
    /// A descriptor that is no memory, or could be made shorter, or is empty.
    pub fn map(file: &OwnedFd) -> io::Result<Self> {
        let seals = fcntl_get_seals(file)
            .map_err(|_| io::Error::other("an arena must be a file in memory (memfd)"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("an arena must be sealed against being made shorter"));
        }
        let bytes = usize::try_from(fstat(file)?.st_size).unwrap_or(0);
        if bytes == 0 {
            return Err(io::Error::other("an arena must not be empty"));
        }
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // A new mapping, where the kernel finds room.
        let at = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)?
        };
        Ok(Arena(Arc::new(Mapped { at: at.cast(), bytes })))
    }

    /// Memory of this process alone.
    ///
    /// # Errors
    /// There is not so much.
    pub fn scratch(bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes.max(1)).map_err(io::Error::other)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // A new mapping, where the kernel finds room.
        let at =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
        Ok(Arena(Arc::new(Mapped { at: at.cast(), bytes })))
    }

    /// Whether it has these bytes.
    pub fn has(&self, range: &Range<u64>) -> bool {
        range.start <= range.end && range.end <= self.0.bytes as u64
    }

    /// A part of it.
    pub fn piece(&self, range: Range<u64>) -> Piece {
        Piece { arena: self.clone(), range }
    }

    fn start(&self, range: &Range<u64>) -> Option<(*mut u8, usize)> {
        if !self.has(range) {
            return None;
        }
        // Within the mapping.
        Some((unsafe { self.0.at.add(range.start as usize) }, (range.end - range.start) as usize))
    }
}

impl Piece {
    /// Its length [B].
    pub fn bytes(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Whether the two have a byte in common.
    fn meets(&self, other: &Piece) -> bool {
        Arc::ptr_eq(&self.arena.0, &other.arena.0)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }

    /// Copies it; what does not fit, or lies within the other, stays as it is.
    pub fn copy_to(&self, into: &Piece) {
        let ends = (self.arena.start(&self.range), into.arena.start(&into.range));
        if let (Some((from, bytes)), Some((into, room))) = ends {
            // Both within their mappings; they may overlap.
            unsafe { std::ptr::copy(from, into, bytes.min(room)) };
        }
    }

    /// Reduces it into another; what does not fit is left out.
    pub fn fold_into(&self, into: &Piece, element: Element, reduction: Reduction) {
        if self.meets(into) {
            return;
        }
        let ends = (self.arena.start(&self.range), into.arena.start(&into.range));
        if let (Some((from, bytes)), Some((into, room))) = ends {
            let bytes = bytes.min(room);
            // Both within their mappings, without a byte in common; nobody of this process has either.
            let (from, into) = unsafe {
                (
                    std::slice::from_raw_parts(from, bytes),
                    std::slice::from_raw_parts_mut(into, bytes),
                )
            };
            reduce(element, reduction, into, from);
        }
    }
}

/// Lends pieces of arenas to an operation, each peer's one after the other, until it is over.
///
/// The caller has seen to it that nothing in this process uses them until then.
pub(super) fn lend(
    sends: &[(Endpoint, Vec<Piece>)],
    receives: &[(Endpoint, Vec<Piece>)],
) -> Option<Memory> {
    let mut owner = Vec::new();
    let mut of = |pieces: &[(Endpoint, Vec<Piece>)]| -> Option<Vec<(Endpoint, *mut u8, usize)>> {
        let mut list = Vec::new();
        for (peer, pieces) in pieces {
            for piece in pieces.iter().filter(|piece| piece.bytes() > 0) {
                let (at, bytes) = piece.arena.start(&piece.range)?;
                owner.push(piece.arena.clone());
                list.push((*peer, at, bytes));
            }
        }
        Some(list)
    };
    let (sends, receives) = (of(sends)?, of(receives)?);
    let sends = sends.into_iter().map(|(peer, at, bytes)| (peer, at.cast_const(), bytes)).collect();
    // Within mappings that the owner keeps; ranks lend what they post, and this process leaves it alone.
    Some(unsafe { Memory::new(sends, receives, Box::new(owner)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    fn memory(bytes: u64) -> OwnedFd {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let file = memfd_create("arena", flags).expect("memory");
        ftruncate(&file, bytes).expect("room");
        file
    }

    #[test]
    fn an_arena_cannot_become_shorter() {
        let why = |file: &OwnedFd| Arena::map(file).unwrap_err().to_string();
        let file = memory(100);
        assert_eq!(why(&file), "an arena must be sealed against being made shorter");
        fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
        let arena = Arena::map(&file).expect("an arena");
        assert!(arena.has(&(0..100)) && !arena.has(&(0..101)));
        let empty = memory(0);
        fcntl_add_seals(&empty, SealFlags::SHRINK).expect("sealed");
        assert_eq!(why(&empty), "an arena must not be empty");
        let other = std::fs::File::open("/proc/self/exe").expect("a file").into();
        assert_eq!(why(&other), "an arena must be a file in memory (memfd)");
    }

    #[test]
    fn nothing_is_done_beyond_an_arena() {
        let arena = Arena::scratch(16).expect("memory");
        let piece = |range| arena.piece(range);
        arena.piece(0..8).copy_to(&piece(12..20));
        assert!(lend(&[(1, vec![piece(8..17)])], &[]).is_none());
        assert!(lend(&[(1, vec![piece(8..16), piece(0..0)])], &[(1, vec![piece(0..8)])]).is_some());
        piece(0..8).fold_into(&piece(4..12), Element::U8, Reduction::Sum); // they meet: nothing
    }
}
