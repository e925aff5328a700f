//! The socket of a rank: lines come in, with the arena's descriptor in front; answers go out.

use super::heard::Heard;
use super::message::{Answer, Question};

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use std::io::{self, BufRead, BufReader, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::Sender;
use std::thread;

/// No line is longer \[B\]: places for some 100,000 ranks.
const LONGEST: u64 = 8 << 20;
/// The first line, which names a rank, is no longer \[B\].
const FIRST: usize = 256;

/// Lets ranks in until the listener is shut down; each gets a thread that reads.
pub(super) fn accept(listener: &UnixListener, heard: &Sender<Heard>) {
    for (connection, stream) in (0..).zip(listener.incoming()) {
        let Ok(stream) = stream else { return };
        let read = match stream.try_clone() {
            Ok(read) if is_ours(&stream) => read,
            _ => continue,
        };
        if heard.send(Heard::Came { connection, stream }).is_err() {
            return;
        }
        let heard = heard.clone();
        let reads = move || {
            let why = hear(connection, read, &heard).err().map(|why| why.to_string());
            let _ = heard.send(Heard::Gone { connection, why });
        };
        if thread::Builder::new().name("lightloom-rank".into()).spawn(reads).is_err() {
            return;
        }
    }
}

/// Whether a process of this user is at the other end, or of root.
fn is_ours(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(stream).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

fn hear(connection: u64, stream: UnixStream, heard: &Sender<Heard>) -> io::Result<()> {
    let mut first = [0; FIRST];
    let (bytes, mut file) = with_descriptor(&stream, &mut first)?;
    let mut lines = BufReader::new(first[..bytes].chain(stream));
    loop {
        let mut line = Vec::new();
        lines.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let question: Question = serde_json::from_slice(&line).map_err(io::Error::other)?;
        let asked = Heard::Asked { connection, question, file: file.take() };
        if heard.send(asked).is_err() {
            return Ok(());
        }
    }
}

/// What comes first, and the descriptor that comes with it.
fn with_descriptor(stream: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut room);
    let into = &mut [IoSliceMut::new(into)];
    let come = loop {
        match recvmsg(stream, into, &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            come => break come?,
        }
    };
    let file = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok((come.bytes, file))
}

/// Answers a rank; says whether it took it. One that has left some hundred answers unread does not.
pub(super) fn answer(stream: &UnixStream, answer: &Answer) -> bool {
    let Ok(mut line) = serde_json::to_vec(answer) else { return false };
    line.push(b'\n');
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    send(stream, &line, flags).is_ok_and(|sent| sent == line.len())
}

/// Ends a rank's connection, whoever else holds it.
pub(super) fn close(stream: &UnixStream) {
    let _ = stream.shutdown(Shutdown::Both);
}
