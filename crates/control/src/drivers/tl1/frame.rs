//! TL1 messages out of a stream of bytes.
//!
//! Modelled: a command ends at its `;`, unless that is inside a text in quotes, which never crosses a
//! line; what a switch says ends with a line that begins with `;`, with `>` when more is to come, or
//! with `<` when it only acknowledges. No message may be longer than a bound, so a stream of anything
//! takes no more memory than that: what is longer is dropped up to its end, and reported. Ignored: what
//! GR-831 has for correcting a line as it is typed. Checked: messages come out the same however the
//! stream is cut; the bound, at random bytes.

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// All of one, without its end, which was `;`, `>` or `<`.
    Whole(Vec<u8>, u8),
    /// One that was longer than the bound, and is lost.
    TooLong,
}

/// Cuts a stream into messages.
///
/// ```
/// use lightloom_control::drivers::tl1::{Frame, Framer};
/// let mut framer = Framer::commands(100);
/// let mut input = &b"RTRV-PATCH:::7:;\r\nACT-USER::x:8::\"a;b\";RTRV"[..];
/// let mut text = || match framer.next(&mut input) {
///     Some(Frame::Whole(text, b';')) => String::from_utf8(text).unwrap(),
///     other => format!("{other:?}"),
/// };
/// assert_eq!(text(), "RTRV-PATCH:::7:");
/// assert_eq!(text(), "ACT-USER::x:8::\"a;b\"");
/// assert_eq!(text(), "None");
/// ```
#[derive(Clone, Debug)]
pub struct Framer {
    replies: bool,
    most: usize,
    held: Vec<u8>,
    quoted: bool,
    skipping: bool,
    /// Of replies: nothing of the line has come yet.
    line_starts: bool,
}

impl Framer {
    /// Of commands, none longer than `most` bytes.
    pub fn commands(most: usize) -> Self {
        Framer {
            replies: false,
            most,
            held: Vec::new(),
            quoted: false,
            skipping: false,
            line_starts: true,
        }
    }

    /// Of what a switch says, nothing longer than `most` bytes.
    pub fn replies(most: usize) -> Self {
        Framer { replies: true, ..Framer::commands(most) }
    }

    /// How many bytes wait for the end of their message: never more than the bound.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The next message, with bytes taken from the front of `input` until it ends, or all of them if
    /// none does. Blanks before a message and empty commands are left out.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Frame> {
        loop {
            self.take_plain(input);
            let (&byte, rest) = input.split_first()?;
            *input = rest;
            if self.ends(byte) {
                let text = std::mem::take(&mut self.held);
                self.quoted = false;
                // What follows the end of a reply on its line is not a line's start.
                self.line_starts = !self.replies;
                if std::mem::take(&mut self.skipping) {
                    return Some(Frame::TooLong);
                }
                if text.is_empty() {
                    continue;
                }
                return Some(Frame::Whole(text, byte));
            }
            match byte {
                b'\n' | b'\r' => (self.quoted, self.line_starts) = (false, true),
                b'"' => (self.quoted, self.line_starts) = (!self.quoted, false),
                _ => self.line_starts = false,
            }
            let blank = byte <= b' ' && self.held.is_empty();
            if self.skipping || blank {
                continue;
            }
            if self.held.len() == self.most {
                self.skipping = true;
                self.held = Vec::new();
                continue;
            }
            self.held.push(byte);
        }
    }

    /// Takes bytes that are of a message, and neither end it nor matter otherwise, all at once.
    fn take_plain(&mut self, input: &mut &[u8]) {
        if self.held.is_empty() || self.skipping || self.line_starts {
            return;
        }
        let special = |byte: &u8| match self.replies {
            true => matches!(byte, b'\n' | b'\r'),
            false => matches!(byte, b';' | b'"' | b'\n' | b'\r'),
        };
        let plain = input.iter().position(special).unwrap_or(input.len());
        let (plain, rest) = input.split_at(plain.min(self.most - self.held.len()));
        self.held.extend_from_slice(plain);
        *input = rest;
    }

    fn ends(&self, byte: u8) -> bool {
        match self.replies {
            true => self.line_starts && matches!(byte, b';' | b'>' | b'<'),
            false => byte == b';' && (self.skipping || !self.quoted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(mut framer: Framer, pieces: &[&[u8]]) -> Vec<Frame> {
        let mut frames = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(frame) = framer.next(&mut piece) {
                frames.push(frame);
            }
        }
        frames
    }

    fn whole(text: &str, end: u8) -> Frame {
        Frame::Whole(text.as_bytes().to_vec(), end)
    }

    #[test]
    fn replies_end_with_their_line() {
        let stream =
            b"\r\n\n   S 26-11-21 17:00:00\r\nM  1 COMPLD\r\n   \"a;b>\"\r\n;\r\nIP 2\r\n<";
        let frames = all(Framer::replies(100), &[stream]);
        let first = "S 26-11-21 17:00:00\r\nM  1 COMPLD\r\n   \"a;b>\"\r\n";
        assert_eq!(frames, [whole(first, b';'), whole("IP 2\r\n", b'<')]);
    }

    #[test]
    fn too_long_a_message_is_dropped_up_to_its_end() {
        let stream = b"AAAA;BBBBB;\"CCCCCC;DD;EE\";F\";\nG;";
        let frames = all(Framer::commands(4), &[stream]);
        let expected = [
            whole("AAAA", b';'),
            Frame::TooLong,
            // An open text in quotes does not keep what is too long from ending.
            Frame::TooLong,
            whole("DD", b';'),
        ];
        assert_eq!(frames[..4], expected);
        assert_eq!(frames.last(), Some(&whole("G", b';')), "a line ends an open text");
    }

    proptest! {
        #[test]
        fn cuts_of_the_stream_do_not_matter(
            stream in prop::collection::vec(prop::sample::select(b"AB;\"\r\n <>".to_vec()), 0..200),
            cuts in prop::collection::vec(0..200usize, 0..8),
            replies: bool,
        ) {
            let framer = if replies { Framer::replies(20) } else { Framer::commands(20) };
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            prop_assert_eq!(all(framer.clone(), &pieces), all(framer, &[&stream]));
        }

        #[test]
        fn no_more_than_the_bound_is_held(stream in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut framer = Framer::commands(64);
            let mut input = &stream[..];
            while let Some(frame) = framer.next(&mut input) {
                if let Frame::Whole(text, end) = frame {
                    prop_assert!((1..=64).contains(&text.len()) && end == b';');
                }
            }
            prop_assert!(framer.held() <= 64 && input.is_empty());
        }
    }
}
