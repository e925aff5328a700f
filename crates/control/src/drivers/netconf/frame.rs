//! Messages cut from a byte stream, as NETCONF over SSH frames them (RFC 6242, Section 4).
//!
//! Modelled: both framings. A session begins with the end-of-message mark `]]>]]>` and goes on in
//! chunks once both sides have said in their hello that they speak version 1.1. A message has at most
//! [`MAX_MESSAGE`] bytes, whatever a chunk's header promises, so memory is bounded by that.
//! Ignored: what is within a message.
//! Checked: any messages, in either framing and cut anywhere, come out as they went in; arbitrary
//! bytes end in messages or an error.

use std::mem;
use thiserror::Error;

/// No message is longer \[B\]: the answer to a read of 4096 ports, laid out with generous spaces, has
/// half a MiB.
pub const MAX_MESSAGE: usize = 4 << 20;

/// The mark after every message of version 1.0.
const END: &[u8] = b"]]>]]>";

/// A stream that is not framed as NETCONF asks; there is no way to find the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// More than [`MAX_MESSAGE`].
    #[error("a message of more than 4 MiB")]
    TooLong,
    /// Not the header of a chunk nor the end of chunks.
    #[error("a chunk's header is wrong")]
    Header,
}

/// The receiving end of a stream.
///
/// ```
/// use lightloom_control::drivers::netconf::{Framer, chunk, mark};
/// let mut framer = Framer::default();
/// framer.push(&mark("<hello/>"));
/// assert_eq!(framer.message(), Ok(Some(b"<hello/>".to_vec())));
/// framer.speak_chunks();
/// framer.push(&chunk("<rpc-reply/>"));
/// assert_eq!(framer.message(), Ok(Some(b"<rpc-reply/>".to_vec())));
/// assert_eq!(framer.message(), Ok(None));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Framer {
    chunks: bool,
    /// Bytes that came and are not understood yet.
    pending: Vec<u8>,
    /// The first of them that have been looked at.
    seen: usize,
    /// The message so far, without its chunks' headers.
    message: Vec<u8>,
    /// Bytes that are still to come of this chunk.
    left: usize,
    /// Whether the message has had a chunk.
    begun: bool,
}

impl Framer {
    /// From the next message on the stream is framed in chunks.
    pub fn speak_chunks(&mut self) {
        self.chunks = true;
        self.seen = 0;
    }

    /// Bytes have come. Whoever pushes asks for [`Framer::message`] until there is none, so that what
    /// waits here is less than a message.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole message, if it is here.
    ///
    /// # Errors
    /// A stream that makes no sense; it will not again.
    pub fn message(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        if self.chunks { self.chunked() } else { self.marked() }
    }

    fn marked(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        // The mark may have begun in what was looked at before.
        let from = self.seen.saturating_sub(END.len() - 1);
        let Some(at) = self.pending[from..].windows(END.len()).position(|bytes| bytes == END)
        else {
            self.seen = self.pending.len();
            return if self.seen > MAX_MESSAGE { Err(FrameError::TooLong) } else { Ok(None) };
        };
        let end = from + at;
        if end > MAX_MESSAGE {
            return Err(FrameError::TooLong);
        }
        let rest = self.pending.split_off(end + END.len());
        let mut message = mem::replace(&mut self.pending, rest);
        message.truncate(end);
        self.seen = 0;
        Ok(Some(message))
    }

    fn chunked(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let mut at = 0;
        let whole = loop {
            let rest = &self.pending[at..];
            if self.left > 0 {
                let taken = self.left.min(rest.len());
                self.message.extend_from_slice(&rest[..taken]);
                self.left -= taken;
                at += taken;
                if self.left > 0 {
                    break false;
                }
                continue;
            }
            match header(rest)? {
                Header::Partial => break false,
                Header::End(length) if self.begun => {
                    at += length;
                    break true;
                }
                // A message has one chunk at least.
                Header::End(_) => return Err(FrameError::Header),
                Header::Chunk { length, size } => {
                    if size > MAX_MESSAGE - self.message.len() {
                        return Err(FrameError::TooLong);
                    }
                    (self.left, self.begun) = (size, true);
                    at += length;
                }
            }
        };
        self.pending.drain(..at);
        if !whole {
            return Ok(None);
        }
        self.begun = false;
        Ok(Some(mem::take(&mut self.message)))
    }
}

enum Header {
    /// More bytes are needed.
    Partial,
    /// The chunks' end, of so many bytes.
    End(usize),
    /// A header of `length` bytes for a chunk of `size`.
    Chunk { length: usize, size: usize },
}

/// Reads `\n#12\n` or `\n##\n`.
fn header(bytes: &[u8]) -> Result<Header, FrameError> {
    for (at, expected) in b"\n#".iter().enumerate() {
        match bytes.get(at) {
            None => return Ok(Header::Partial),
            Some(byte) if byte == expected => {}
            Some(_) => return Err(FrameError::Header),
        }
    }
    let mut size = 0_usize;
    // A size has at most ten digits and does not begin with a zero.
    for at in 2..13 {
        match (bytes.get(at), at) {
            (None, _) => return Ok(Header::Partial),
            (Some(b'#'), 2) => {
                return match bytes.get(3) {
                    None => Ok(Header::Partial),
                    Some(b'\n') => Ok(Header::End(4)),
                    Some(_) => Err(FrameError::Header),
                };
            }
            (Some(b'\n'), 3..) => return Ok(Header::Chunk { length: at + 1, size }),
            (Some(b'0'), 2) => break,
            (Some(digit @ b'0'..=b'9'), 2..12) => {
                size = size.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
            }
            _ => break,
        }
    }
    Err(FrameError::Header)
}

/// A message with the mark of version 1.0 behind it.
pub fn mark(message: &str) -> Vec<u8> {
    [message.as_bytes(), END].concat()
}

/// A message as one chunk of version 1.1. It must not be empty: no chunk is.
pub fn chunk(message: &str) -> Vec<u8> {
    let header = format!("\n#{}\n", message.len());
    [header.as_bytes(), message.as_bytes(), b"\n##\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What comes of a stream in pieces of the lengths given, over and over.
    fn cut(
        framer: &mut Framer,
        stream: &[u8],
        pieces: &[usize],
    ) -> Result<Vec<Vec<u8>>, FrameError> {
        let (mut messages, mut rest) = (Vec::new(), stream);
        for &piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            framer.push(now);
            while let Some(message) = framer.message()? {
                messages.push(message);
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        Ok(messages)
    }

    fn speaking_chunks() -> Framer {
        let mut framer = Framer::default();
        framer.speak_chunks();
        framer
    }

    #[test]
    fn chunks_of_one_message_are_joined() {
        // RFC 6242, Section 4.2 shows a message of three chunks.
        let stream = b"\n#4\n<rpc\n#18\n message-id=\"102\">\n#6\n</rpc>\n##\n";
        let whole = b"<rpc message-id=\"102\"></rpc>".to_vec();
        assert_eq!(cut(&mut speaking_chunks(), stream, &[1]), Ok(vec![whole]));
    }

    #[test]
    fn a_wrong_header_is_an_error_at_once() {
        for wrong in
            ["x", "\n1", "\n#x", "\n#0\n", "\n##x", "\n##\n", "\n#12x", "\n#\n", "\n#12345678901"]
        {
            let found = cut(&mut speaking_chunks(), wrong.as_bytes(), &[1]);
            assert_eq!(found, Err(FrameError::Header), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_is_kept() {
        let found = cut(&mut speaking_chunks(), b"\n#4294967295\n", &[100]);
        assert_eq!(found, Err(FrameError::TooLong));
        let mut framer = Framer::default();
        let piece = vec![b'x'; 1 << 16];
        let refused = (0..).find(|_| {
            framer.push(&piece);
            framer.message() == Err(FrameError::TooLong)
        });
        assert_eq!(refused, Some(MAX_MESSAGE / piece.len()));
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in(
            hello in "[^\\]]{0,40}",
            messages in prop::collection::vec("(?s).{1,60}", 0..6),
            pieces in prop::collection::vec(1_usize..20, 1..5),
        ) {
            let mut framer = Framer::default();
            let marked = cut(&mut framer, &mark(&hello), &pieces);
            prop_assert_eq!(marked, Ok(vec![hello.clone().into_bytes()]));
            framer.speak_chunks();
            let stream: Vec<u8> = messages.iter().flat_map(|message| chunk(message)).collect();
            let found = cut(&mut framer, &stream, &pieces);
            prop_assert_eq!(found, Ok(messages.into_iter().map(String::into_bytes).collect()));
        }

        #[test]
        fn marks_may_be_cut_anywhere(
            messages in prop::collection::vec("[\\]>a]{0,9}", 1..6),
            pieces in prop::collection::vec(1_usize..9, 1..5),
        ) {
            let stream: Vec<u8> = messages.iter().flat_map(|message| mark(message)).collect();
            let found = cut(&mut Framer::default(), &stream, &pieces).expect("short messages");
            // A message that ends in part of the mark ends earlier; never is a byte lost or made up.
            let text = String::from_utf8(stream.clone()).expect("ASCII");
            let expected: Vec<_> = text.split("]]>]]>").map(|part| part.as_bytes().to_vec()).collect();
            prop_assert_eq!(&found[..], &expected[..found.len()]);
            prop_assert_eq!(found.len() + 1, expected.len());
        }

        #[test]
        fn arbitrary_bytes_end_in_messages_or_an_error(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'#'), b'0'..=b'9', any::<u8>()], 0..200),
            pieces in prop::collection::vec(1_usize..20, 1..5),
        ) {
            // Whatever the pieces, the same messages come, as far as they come.
            let whole = cut(&mut speaking_chunks(), &bytes, &[bytes.len().max(1)]);
            let pieced = cut(&mut speaking_chunks(), &bytes, &pieces);
            prop_assert_eq!(whole.is_err(), pieced.is_err());
            if let Ok(messages) = whole {
                prop_assert_eq!(Ok(messages), pieced);
            }
        }
    }
}
