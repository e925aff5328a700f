//! TCP that moves a few bytes at a time, as many as chance wants.

use lightloom_runtime::net::{Moved, NicConfig, Stream, Tcp, Transport};
use mio::event::Source;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;

/// TCP that moves a few bytes at a time.
pub struct Choppy(pub u64);

/// One connection of it.
pub struct ChoppyStream {
    inner: TcpStream,
    chance: u64,
}

impl ChoppyStream {
    /// So many of these bytes, 1 or more.
    fn some(&mut self, bytes: usize) -> usize {
        self.chance = self.chance.wrapping_mul(6364136223846793005).wrapping_add(99991);
        let most = [1, 7, 33, 500, 40_000][(self.chance >> 40) as usize % 5];
        ((self.chance >> 45) as usize % most + 1).min(bytes)
    }
}

impl Transport for Choppy {
    type Listener = TcpListener;
    type Stream = ChoppyStream;

    fn listen(&self, nic: &NicConfig) -> io::Result<(TcpListener, SocketAddr)> {
        Tcp::default().listen(nic)
    }

    fn accept(&self, listener: &TcpListener) -> io::Result<(ChoppyStream, SocketAddr)> {
        let (inner, from) = Tcp::default().accept(listener)?;
        Ok((ChoppyStream { inner, chance: self.0 + u64::from(from.port()) }, from))
    }

    fn dial(&self, nic: &NicConfig, to: SocketAddr) -> io::Result<ChoppyStream> {
        let inner = Tcp::default().dial(nic, to)?;
        Ok(ChoppyStream { inner, chance: self.0 })
    }
}

impl Stream for ChoppyStream {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Moved> {
        let Some(part) = parts.iter().find(|part| !part.is_empty()) else {
            return Ok(Moved { bytes: 0, blocked: false });
        };
        let bytes = self.some(part.len());
        self.inner.write(&[IoSlice::new(&part[..bytes])])
    }

    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<Moved> {
        let room: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = self.some(room);
        let first = bytes.min(parts[0].len());
        let (one, rest) = parts.split_at_mut(1);
        let mut some =
            [IoSliceMut::new(&mut one[0][..first]), IoSliceMut::new(&mut rest[0][..bytes - first])];
        self.inner.read(&mut some)
    }

    fn expect(&mut self, bytes: usize) -> io::Result<()> {
        self.inner.expect(bytes)
    }

    fn finish(self, registry: &Registry) {
        self.inner.finish(registry);
    }

    fn reset(self, registry: &Registry) {
        self.inner.reset(registry);
    }
}

impl Source for ChoppyStream {
    fn register(&mut self, to: &Registry, token: Token, what: Interest) -> io::Result<()> {
        self.inner.register(to, token, what)
    }

    fn reregister(&mut self, to: &Registry, token: Token, what: Interest) -> io::Result<()> {
        self.inner.reregister(to, token, what)
    }

    fn deregister(&mut self, from: &Registry) -> io::Result<()> {
        self.inner.deregister(from)
    }
}
