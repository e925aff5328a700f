//! How much must have come before the kernel says so (SO_RCVLOWAT).

#![allow(unsafe_code)] // a system call that no crate here has a safe form of

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A socket can be read once so many bytes are there, its other end has closed, or it can hold no more; the
/// kernel takes half of the receive buffer if that is less.
///
/// # Errors
/// The kernel's.
pub(super) fn set(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let length = size_of_val(&bytes) as libc::socklen_t;
    let value = (&raw const bytes).cast();
    // SAFETY: the file is open, and `value` is `length` bytes that the kernel only reads.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
