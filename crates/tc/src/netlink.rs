//! The kernel's route sockets (rtnetlink): messages, and what the kernel answers.
//!
//! Modelled: a request that is acknowledged or denied, and one that is answered by a list; attributes, which may be
//! nested. The socket belongs to the network namespace in which it was opened.
//! Ignored: notifications, and what the kernel says beyond the number of an error.
//! Checked: below, and with what `tests/test_crossbar.py` asks of the kernel.

use crate::bpf::Error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::fs::File;
use std::io::{self, Read, Write};

const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
/// All there are: the answer is a list.
pub const LIST: u16 = 0x300;
/// What is not there is made, and what is there is changed.
pub const CREATE: u16 = 0x400;

const ERROR: u16 = 2;
const DONE: u16 = 3;

const HEADER: usize = 16;

/// A request.
///
/// ```
/// use lightloom_tc::netlink::{Message, attributes};
/// let mut message = Message::new(44, 0);
/// message.nested(2, |inside| inside.attribute(1, b"abc"));
/// let bytes = message.bytes();
/// assert_eq!(bytes.len(), 16 + 4 + 8); // attributes begin at multiples of 4
/// let (kind, inside) = attributes(&bytes[16..]).next().unwrap();
/// assert_eq!((kind, attributes(inside).next()), (2, Some((1, &b"abc"[..]))));
/// ```
#[derive(Clone, Debug)]
pub struct Message(Vec<u8>);

impl Message {
    /// One of a kind, with flags such as [`LIST`].
    pub fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = REQUEST | flags | if flags & LIST == LIST { 0 } else { ACKNOWLEDGE };
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Message(bytes)
    }

    /// What the kind asks for before attributes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// An attribute. None is as long as 64 KiB.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |inside| inside.0.extend_from_slice(value));
    }

    /// An attribute of attributes.
    pub fn nested(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) {
        let at = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        inside(self);
        let length = (self.0.len() - at) as u16;
        self.0[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self.0[at + 2..at + 4].copy_from_slice(&kind.to_ne_bytes());
        self.raw(&[]);
    }

    /// It, with a header that does not have its length and number yet.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The attributes in these bytes: kind and value. What is cut off is left out.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// The value of the first attribute of a kind.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(its, _)| *its == kind).map(|(_, value)| value)
}

/// A route socket of this network namespace.
#[derive(Debug)]
pub struct Socket {
    file: File,
    number: u32,
}

impl Socket {
    /// Opens one.
    ///
    /// # Errors
    /// If the kernel will not.
    pub fn open() -> Result<Self, Error> {
        let file = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(|why| wrong("opening a route socket", why.into()))?;
        Ok(Socket { file: File::from(file), number: 0 })
    }

    /// Sends a request, and waits for what the kernel says: the list without headers, or nothing.
    ///
    /// # Errors
    /// If it denies it; with `what` was asked.
    pub fn ask(&mut self, message: &Message, what: &str) -> Result<Vec<Vec<u8>>, Error> {
        let mut bytes = message.0.clone();
        self.number = self.number.wrapping_add(1);
        let length = bytes.len() as u32; // no request is longer
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_ne_bytes());
        self.file.write_all(&bytes).map_err(|why| wrong(what, why))?;
        let mut list = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = self.file.read(&mut buffer).map_err(|why| wrong(what, why))?;
            for (kind, number, body) in messages(&buffer[..count]) {
                match kind {
                    _ if number != self.number => {} // of a request that was given up
                    ERROR | DONE => {
                        return ended(body).map(|()| list).map_err(|why| wrong(what, why));
                    }
                    _ => list.push(body.to_vec()),
                }
            }
        }
    }
}

/// What an error or the end of a list says: zero, or the number of an error, negative.
fn ended(body: &[u8]) -> io::Result<()> {
    let code = body.get(..4).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
    }
}

/// Kind, number and body of each message.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let number = u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, number, body))
    })
}

fn wrong(what: &str, why: io::Error) -> Error {
    Error::Kernel { what: what.into(), why }
}

#[cfg(test)]
mod tests {
    use super::{LIST, Message, Socket, attribute, attributes, messages};

    #[test]
    fn what_is_cut_off_ends_the_list_and_nothing_more() {
        let mut message = Message::new(1, 0);
        message.attribute(1, b"one");
        message.attribute(2, b"two");
        let whole = &message.bytes()[16..];
        for length in 0..whole.len() {
            let found = attributes(&whole[..length]).count();
            assert_eq!(found, usize::from(length >= 7) + usize::from(length >= 15), "{length}");
        }
        assert_eq!(attribute(whole, 2), Some(&b"two"[..]));
        assert_eq!(messages(&message.bytes()[..10]).count(), 0);
        assert_eq!(attributes(&[0, 0, 0, 0]).count(), 0, "a length that does not go on");
    }

    #[test]
    fn the_kernel_lists_the_loopback_and_denies_what_is_no_request() {
        let mut socket = Socket::open().expect("everybody may");
        let mut links = Message::new(18, LIST);
        links.raw(&[0; 16]);
        let list = socket.ask(&links, "listing NICs").expect("everybody may");
        let names = list.iter().filter_map(|link| attribute(link.get(16..)?, 3));
        assert!(names.into_iter().any(|name| name == b"lo\0"));
        let mut nic = Message::new(18, 0);
        nic.raw(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0]);
        let why = socket.ask(&nic, "asking for a NIC").expect_err("no NIC has this number");
        assert!(why.to_string().starts_with("asking for a NIC: "), "{why}");
    }
}
