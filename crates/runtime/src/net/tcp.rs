//! TCP: a connection leaves by the NIC of its lane.

use super::config::NicConfig;
use super::low_water;
use super::transport::{Moved, Stream, Transport};
use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// So many connections may wait to be accepted; the kernel allows `net.core.somaxconn` of them.
const BACKLOG: i32 = 4096;

/// How sockets are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The kernel keeps at most about so much of a connection that was written and not sent yet
    /// (TCP_NOTSENT_LOWAT) \[B\].
    ///
    /// A fence waits for everything that was written, so what the kernel keeps makes it late: at 100 Mbit/s, 10 ms
    /// for each 128 KiB. A bound of the whole send buffer (SO_SNDBUF) would also bound what is on its way, and with
    /// it the rate of a path that is long or fast; this bounds only what has not left.
    pub send_buffer: u32,
    /// A fixed receive buffer (SO_RCVBUF) \[B\]; without, the kernel finds the size.
    pub receive_buffer: Option<u32>,
    /// The kernel closes a connection whose other end has acknowledged nothing of what it was sent for so long
    /// (TCP_USER_TIMEOUT).
    ///
    /// The machine sees for itself that frames are not acknowledged; of its own acknowledgements it cannot. After a
    /// long time in the dark the kernel would try again late, and keep all that comes next waiting.
    pub silence: Duration,
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp { send_buffer: 128 << 10, receive_buffer: None, silence: Duration::from_secs(3) }
    }
}

impl Tcp {
    fn socket(&self, nic: &NicConfig, address: SocketAddr) -> io::Result<Socket> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
        if let Some(device) = &nic.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        if let Some(bytes) = self.receive_buffer {
            socket.set_recv_buffer_size(bytes as usize)?;
        }
        Ok(socket)
    }

    fn prepare(&self, socket: SockRef<'_>) -> io::Result<()> {
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_user_timeout(Some(self.silence))?;
        socket.set_tcp_notsent_lowat(self.send_buffer)
    }
}

impl Transport for Tcp {
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn listen(&self, nic: &NicConfig) -> io::Result<(TcpListener, SocketAddr)> {
        let socket = self.socket(nic, nic.address)?;
        socket.set_reuse_address(true)?; // a port whose old connections linger is not taken
        socket.bind(&nic.address.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from_std(socket.into());
        let address = listener.local_addr()?;
        Ok((listener, address))
    }

    fn accept(&self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, address) = listener.accept()?;
        self.prepare(SockRef::from(&stream))?;
        Ok((stream, address))
    }

    fn dial(&self, nic: &NicConfig, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = self.socket(nic, to)?;
        self.prepare(SockRef::from(&socket))?;
        socket.bind(&SocketAddr::new(nic.address.ip(), 0).into())?;
        match socket.connect(&to.into()) {
            Err(why) if !under_way(&why) => Err(why),
            _ => Ok(TcpStream::from_std(socket.into())),
        }
    }
}

fn under_way(why: &io::Error) -> bool {
    why.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error())
        || why.kind() == io::ErrorKind::WouldBlock
}

impl Stream for TcpStream {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Moved> {
        let asked: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = self.write_vectored(parts)?;
        Ok(Moved { bytes, blocked: bytes < asked })
    }

    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<Moved> {
        let asked: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = self.read_vectored(parts)?;
        Ok(Moved { bytes, blocked: bytes < asked })
    }

    fn expect(&mut self, bytes: usize) -> io::Result<()> {
        low_water::set(self.as_fd(), bytes)
    }

    fn acknowledge(&mut self) -> io::Result<()> {
        SockRef::from(&*self).set_tcp_quickack(true)
    }

    fn finish(mut self, registry: &mio::Registry) {
        // If either fails, the connection is gone already.
        let _ = registry.deregister(&mut self);
        let _ = self.shutdown(Shutdown::Write);
        // If something was left unread, the kernel would reset the connection, and the other end might lose
        // what was said last.
        let mut sink = [0; 4096];
        for _ in 0..1024 {
            if !matches!(Read::read(&mut self, &mut sink), Ok(1..)) {
                break;
            }
        }
    }

    fn reset(mut self, registry: &mio::Registry) {
        let _ = registry.deregister(&mut self);
        let _ = SockRef::from(&self).set_linger(Some(Duration::ZERO));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection from 127.0.0.2 to 127.0.0.3.
    fn pair() -> (TcpStream, std::net::TcpStream) {
        let tcp = Tcp::default();
        let nic = |last: u8| NicConfig::at(([127, 0, 0, last], 0).into());
        let (listener, address) = tcp.listen(&nic(3)).expect("loopback");
        let dialed = tcp.dial(&nic(2), address).expect("it listens");
        let (accepted, from) = loop {
            match tcp.accept(&listener) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                other => break other.expect("somebody has dialed"),
            }
        };
        assert_eq!(from.ip(), std::net::IpAddr::from([127, 0, 0, 2]), "by its NIC");
        for socket in [SockRef::from(&dialed), SockRef::from(&accepted)] {
            assert!(socket.tcp_nodelay().expect("TCP"));
            assert_eq!(socket.tcp_notsent_lowat().expect("TCP"), tcp.send_buffer);
        }
        let accepted: std::net::TcpStream = accepted.into();
        accepted.set_nonblocking(false).expect("a socket");
        (dialed, accepted)
    }

    /// Writes until the kernel takes no more; says how much it took.
    fn fill(stream: &mut TcpStream) -> usize {
        let (mut all, block) = (0, vec![7; 1 << 20]);
        loop {
            match Stream::write(stream, &[IoSlice::new(&block)]) {
                Ok(moved) if moved.blocked => return all + moved.bytes,
                Ok(moved) => all += moved.bytes,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return all,
                Err(why) => panic!("{why}"),
            }
        }
    }

    /// Reads to the end; says how much came, and the error at the end.
    fn drain(mut stream: std::net::TcpStream) -> (usize, Option<io::ErrorKind>) {
        let (mut all, mut block) = (0, vec![0; 1 << 20]);
        loop {
            match stream.read(&mut block) {
                Ok(0) => return (all, None),
                Ok(bytes) => all += bytes,
                Err(why) => return (all, Some(why.kind())),
            }
        }
    }

    #[test]
    fn a_reset_sends_nothing_more_and_an_end_sends_all() {
        let poll = mio::Poll::new().expect("an epoll");
        let (mut here, there) = pair();
        let written = fill(&mut here);
        here.reset(poll.registry());
        let (came, end) = drain(there);
        assert!(came < written, "{came} of {written} B");
        assert_eq!(end, Some(io::ErrorKind::ConnectionReset));
        let (mut here, there) = pair();
        let written = fill(&mut here);
        here.finish(poll.registry());
        assert_eq!(drain(there), (written, None));
    }
}
