//! What moves the bytes of connections, so that something else can take the place of TCP.

use super::config::NicConfig;
use mio::event::Source;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;

/// Listens, dials and accepts. Nothing in it waits.
pub trait Transport: Send + 'static {
    /// Tells when somebody dials.
    type Listener: Source + Send;
    /// One connection.
    type Stream: Stream;

    /// Listens at a NIC; says at which address, if the port was 0.
    ///
    /// # Errors
    /// The address is not this computer's, or is taken; the device is not there.
    fn listen(&self, nic: &NicConfig) -> io::Result<(Self::Listener, SocketAddr)>;

    /// The next connection that somebody has opened, and where he is.
    ///
    /// # Errors
    /// `WouldBlock` if there is none.
    fn accept(&self, listener: &Self::Listener) -> io::Result<(Self::Stream, SocketAddr)>;

    /// Begins to open a connection from a NIC. The stream can be written once it is open.
    ///
    /// # Errors
    /// The NIC is not there, or nothing leads to the address.
    fn dial(&self, nic: &NicConfig, to: SocketAddr) -> io::Result<Self::Stream>;
}

/// One connection: bytes in order, both ways. It says by epoll, edge-triggered, when it can be read or written.
pub trait Stream: Source + Send {
    /// Writes the first of these bytes.
    ///
    /// # Errors
    /// `WouldBlock` if none can be written now; others if the connection is gone.
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Moved>;

    /// Reads into this room; nothing was read if the other end has closed.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there now; others if the connection is gone.
    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<Moved>;

    /// Whoever reads next has room for so many bytes, and fewer are of no use to him: epoll need not tell before.
    /// A hint; it may tell sooner.
    ///
    /// # Errors
    /// The connection is gone.
    fn expect(&mut self, _bytes: usize) -> io::Result<()> {
        Ok(())
    }

    /// What has come is acknowledged to the other end's kernel now, if it was to wait.
    /// A hint.
    ///
    /// # Errors
    /// The connection is gone.
    fn acknowledge(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends after what was written.
    fn finish(self, registry: &mio::Registry);

    /// Ends at once: what was written and is still here is not sent.
    fn reset(self, registry: &mio::Registry);
}

/// What one call has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// So many bytes \[B\].
    pub bytes: usize,
    /// The next call would block, and epoll tells when it would not any more.
    pub blocked: bool,
}
