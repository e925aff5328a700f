//! Instructions of the kernel's virtual machine.
//!
//! Modelled: what the programs of this crate use, encoded as RFC 9669 says: 8 bytes an instruction, in the
//! computer's own byte order. Jumps name labels.
//! Checked: against the encodings of the RFC, and by the kernel's own verifier, which loads them.
//!
//! ```
//! use lightloom_tc::assembler::{Assembler, Register::R0};
//! let mut code = Assembler::new();
//! code.set(R0, -1);
//! code.exit();
//! let bytes: [u8; 16] = code.assemble().try_into().unwrap();
//! assert_eq!(bytes[..8], [0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
//! assert_eq!(bytes[8], 0x95);
//! ```

use crate::bpf::Map;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

/// A register: R0 holds results, R1 to R5 arguments, R6 to R9 last over calls, R10 is the end of the stack.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How many bytes are loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 1 byte.
    Byte = 0x10,
    /// 2 bytes.
    Half = 0x08,
    /// 4 bytes.
    Word = 0x00,
    /// 8 bytes.
    Double = 0x18,
}

/// How two unsigned numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// They are the same.
    Equal = 0x10,
    /// They are not.
    Unequal = 0x50,
    /// The first is greater.
    Greater = 0x20,
    /// The first is less.
    Less = 0xa0,
}

/// What the kernel does when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// The value of a map's entry, or 0.
    MapLookup = 1,
    /// Sends the frame to another NIC.
    Redirect = 23,
    /// Copies bytes of the frame: the frame, from where, to where, how many; not 0 if there are fewer.
    LoadBytes = 26,
    /// CLOCK_BOOTTIME \[ns\].
    BootTime = 125,
}

/// A place in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label(usize);

/// A program that is being written.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    code: Vec<[u8; 8]>,
    labels: usize,
    /// Before which instruction each label stands.
    stands: BTreeMap<Label, usize>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Self {
        Assembler::default()
    }

    /// A label, for [`Assembler::place`] and jumps.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// The label stands here.
    pub fn place(&mut self, label: Label) {
        self.stands.insert(label, self.code.len());
    }

    /// `to = value`.
    pub fn set(&mut self, to: Register, value: i32) {
        self.push(0xb7, to as u8, 0, 0, value);
    }

    /// `to = from`.
    pub fn copy(&mut self, to: Register, from: Register) {
        self.push(0xbf, to as u8, from as u8, 0, 0);
    }

    /// `to = to + value`.
    pub fn add(&mut self, to: Register, value: i32) {
        self.push(0x07, to as u8, 0, 0, value);
    }

    /// `to = to + from`.
    pub fn add_register(&mut self, to: Register, from: Register) {
        self.push(0x0f, to as u8, from as u8, 0, 0);
    }

    /// `to = to - from`.
    pub fn subtract(&mut self, to: Register, from: Register) {
        self.push(0x1f, to as u8, from as u8, 0, 0);
    }

    /// `to = to & value`.
    pub fn and(&mut self, to: Register, value: i32) {
        self.push(0x57, to as u8, 0, 0, value);
    }

    /// `to = to * value`.
    pub fn times(&mut self, to: Register, value: i32) {
        self.push(0x27, to as u8, 0, 0, value);
    }

    /// `to = *(at + offset)`.
    pub fn load(&mut self, width: Width, to: Register, at: Register, offset: i16) {
        self.push(0x61 | width as u8, to as u8, at as u8, offset, 0);
    }

    /// `*(at + offset) = value`.
    pub fn store(&mut self, width: Width, at: Register, offset: i16, value: i32) {
        self.push(0x62 | width as u8, at as u8, 0, offset, value);
    }

    /// `*(at + offset) = from`.
    pub fn store_register(&mut self, width: Width, at: Register, offset: i16, from: Register) {
        self.push(0x63 | width as u8, at as u8, from as u8, offset, 0);
    }

    /// `*(at + offset) += from`, 8 bytes, as one step among all processors.
    pub fn count(&mut self, at: Register, offset: i16, from: Register) {
        self.push(0xdb, at as u8, from as u8, offset, 0);
    }

    /// `to` is the map.
    pub fn map(&mut self, to: Register, map: &Map) {
        self.push(0x18, to as u8, 1, 0, map.as_raw_fd());
        self.push(0, 0, 0, 0, 0);
    }

    /// Calls the kernel: arguments from R1 on, the result in R0.
    pub fn call(&mut self, helper: Helper) {
        self.push(0x85, 0, 0, 0, helper as i32);
    }

    /// Goes on at the label.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(0x05, 0, 0, 0, 0);
    }

    /// Goes on at the label when `a` and `b` compare so.
    pub fn jump_if(&mut self, a: Register, when: When, b: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(0x0d | when as u8, a as u8, b as u8, 0, 0);
    }

    /// Goes on at the label when `a` and a number compare so.
    pub fn jump_if_value(&mut self, a: Register, when: When, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(0x05 | when as u8, a as u8, 0, 0, value);
    }

    /// The end: R0 is the answer.
    pub fn exit(&mut self) {
        self.push(0x95, 0, 0, 0, 0);
    }

    /// The program's bytes.
    ///
    /// # Panics
    /// If a label was jumped to that stands nowhere, or more than 32,767 instructions away.
    pub fn assemble(mut self) -> Vec<u8> {
        for (at, label) in &self.jumps {
            let stands =
                self.stands.get(label).expect("each label that is jumped to stands somewhere");
            let distance = *stands as i64 - *at as i64 - 1;
            let distance = i16::try_from(distance).expect("programs here are short");
            self.code[*at][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        self.code.concat()
    }

    fn push(&mut self, operation: u8, to: u8, from: u8, offset: i16, value: i32) {
        let registers =
            if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        let mut bytes = [operation, registers, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..].copy_from_slice(&value.to_ne_bytes());
        self.code.push(bytes);
    }
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::Register::*;
    use super::*;

    fn one(write: impl FnOnce(&mut Assembler)) -> Vec<u8> {
        let mut code = Assembler::new();
        write(&mut code);
        code.assemble()
    }

    #[test]
    fn instructions_are_encoded_as_rfc_9669_has_them() {
        type Write = fn(&mut Assembler);
        let table: [(Write, u64); 16] = [
            (|c| c.copy(R6, R1), 0x0000_0000_0000_16bf),
            (|c| c.set(R1, 7), 0x0000_0007_0000_01b7),
            (|c| c.add(R2, -4), 0xffff_fffc_0000_0207),
            (|c| c.load(Width::Word, R2, R1, 40), 0x0000_0000_0028_1261),
            (|c| c.load(Width::Double, R3, R0, 8), 0x0000_0000_0008_0379),
            (|c| c.load(Width::Half, R3, R0, 0), 0x0000_0000_0000_0369),
            (|c| c.load(Width::Byte, R3, R0, 0), 0x0000_0000_0000_0371),
            (|c| c.store(Width::Word, R10, -4, 5), 0x0000_0005_fffc_0a62),
            (|c| c.store_register(Width::Word, R10, -4, R1), 0x0000_0000_fffc_1a63),
            (|c| c.count(R0, 8, R1), 0x0000_0000_0008_10db),
            (|c| c.call(Helper::BootTime), 0x0000_007d_0000_0085),
            (|c| c.add_register(R2, R3), 0x0000_0000_0000_320f),
            (|c| c.subtract(R8, R9), 0x0000_0000_0000_981f),
            (|c| c.and(R2, 15), 0x0000_000f_0000_0257),
            (|c| c.times(R2, 4), 0x0000_0004_0000_0227),
            (|c| c.exit(), 0x0000_0000_0000_0095),
        ];
        for (number, (write, is)) in table.into_iter().enumerate() {
            assert_eq!(one(write), is.to_le_bytes(), "row {number}");
        }
    }

    #[test]
    fn jumps_count_from_the_next_instruction_and_go_both_ways() {
        let code = one(|c| {
            let (back, end) = (c.label(), c.label());
            c.place(back);
            c.jump_if_value(R0, When::Equal, 0, end);
            c.jump_if(R0, When::Less, R1, back);
            c.jump(end);
            c.set(R0, 1);
            c.place(end);
            c.exit();
        });
        let offset = |at: usize| i16::from_le_bytes([code[8 * at + 2], code[8 * at + 3]]);
        assert_eq!([0, 1, 2].map(offset), [3, -2, 1]);
        assert_eq!([code[0], code[8], code[16]], [0x15, 0xad, 0x05]);
    }
}
