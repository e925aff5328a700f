//! The fields of a header, before anybody asks what they mean.

use thiserror::Error;

/// The length of a header \[B\].
pub const HEADER: usize = 32;
/// The longest payload of a chunk \[B\].
pub const LONGEST: u32 = 1 << 26;
/// No operation sends more to one peer \[B\].
pub const MOST: u64 = 1 << 48;
/// What every header begins with.
pub(crate) const MAGIC: u16 = 0x4c4c;

/// Why a header makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// It is no frame.
    #[error("a frame begins with {found:#06x}, not with {MAGIC:#06x}")]
    Magic {
        /// What it begins with.
        found: u16,
    },
    /// No frame is of this kind.
    #[error("a frame is of kind {found}; kinds are 1 to 10")]
    Kind {
        /// Its kind.
        found: u8,
    },
    /// A field has a value that it may not have.
    #[error("{field} of a frame of kind {kind} is {found}; {allowed} is allowed")]
    Field {
        /// The kind of the frame.
        kind: u8,
        /// Which field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        allowed: &'static str,
    },
}

/// The fields of a header, whatever they mean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields {
    pub kind: u8,
    pub flags: u8,
    pub group: u32,
    pub number: u64,
    pub offset: u64,
    pub length: u32,
    pub source: u16,
    pub epoch: u16,
}

impl Fields {
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = self.kind;
        bytes[3] = self.flags;
        bytes[4..8].copy_from_slice(&self.group.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.length.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.source.to_le_bytes());
        bytes[30..32].copy_from_slice(&self.epoch.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; HEADER]) -> Self {
        Fields {
            kind: bytes[2],
            flags: bytes[3],
            group: u32::from_le_bytes(part(bytes, 4)),
            number: u64::from_le_bytes(part(bytes, 8)),
            offset: u64::from_le_bytes(part(bytes, 16)),
            length: u32::from_le_bytes(part(bytes, 24)),
            source: u16::from_le_bytes(part(bytes, 28)),
            epoch: u16::from_le_bytes(part(bytes, 30)),
        }
    }

    pub fn check(
        &self,
        field: &'static str,
        found: u64,
        true_: bool,
        allowed: &'static str,
    ) -> Result<(), FrameError> {
        let kind = self.kind;
        if true_ { Ok(()) } else { Err(FrameError::Field { kind, field, found, allowed }) }
    }

    pub fn unused(&self, fields: &[&'static str]) -> Result<(), FrameError> {
        for &field in fields {
            let found = match field {
                "flags" => self.flags.into(),
                "group" => self.group.into(),
                "number" => self.number,
                "offset" => self.offset,
                "length" => self.length.into(),
                "source" => self.source.into(),
                _ => self.epoch.into(),
            };
            self.check(field, found, found == 0, "0")?;
        }
        Ok(())
    }
}

/// `N` bytes from `at` on; `at + N` is within the header.
pub(crate) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}
