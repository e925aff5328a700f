//! Elements, and how two become one.

use std::fmt;
use std::str::FromStr;

/// What an element is, in the byte order of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A float of 4 B.
    F32,
    /// A float of 8 B.
    F64,
    /// The upper half of a float of 4 B; reduced in 4 B, rounded to even.
    Bf16,
    /// An integer of 4 B.
    I32,
    /// An integer of 8 B.
    I64,
    /// A byte.
    U8,
}

/// How two elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum; integers wrap.
    Sum,
    /// Their product; integers wrap.
    Product,
    /// The lesser; of a number and none, none (as NumPy has it).
    Min,
    /// The greater; of a number and none, none.
    Max,
}

impl Element {
    /// The names of all.
    pub const NAMES: [&str; 6] = ["float32", "float64", "bfloat16", "int32", "int64", "uint8"];
    const ALL: [Element; 6] =
        [Element::F32, Element::F64, Element::Bf16, Element::I32, Element::I64, Element::U8];

    /// Its size \[B\].
    pub fn bytes(self) -> u64 {
        match self {
            Element::F32 | Element::I32 => 4,
            Element::F64 | Element::I64 => 8,
            Element::Bf16 => 2,
            Element::U8 => 1,
        }
    }
}

impl FromStr for Element {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let at = Element::NAMES.iter().position(|&other| other == name);
        at.map(|at| Element::ALL[at])
            .ok_or_else(|| format!("must be one of {}", Element::NAMES.join(", ")))
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = Element::ALL.iter().position(|other| other == self);
        f.write_str(at.map_or("", |at| Element::NAMES[at]))
    }
}

impl Reduction {
    /// The names of all.
    pub const NAMES: [&str; 4] = ["sum", "product", "min", "max"];
}

impl FromStr for Reduction {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "sum" => Ok(Reduction::Sum),
            "product" => Ok(Reduction::Product),
            "min" => Ok(Reduction::Min),
            "max" => Ok(Reduction::Max),
            _ => Err(format!("must be one of {}", Reduction::NAMES.join(", "))),
        }
    }
}

/// Reduces elements into others, one by one; what is no whole element at the end is left as it is.
///
/// ```
/// use lightloom_runtime::collective::{Element, Reduction, reduce};
/// let mut into = 1.5f32.to_ne_bytes();
/// reduce(Element::F32, Reduction::Sum, &mut into, &2.25f32.to_ne_bytes());
/// assert_eq!(f32::from_ne_bytes(into), 3.75);
/// ```
pub fn reduce(element: Element, reduction: Reduction, into: &mut [u8], from: &[u8]) {
    match element {
        Element::F32 => float32(reduction, into, from),
        Element::F64 => float64(reduction, into, from),
        Element::Bf16 => bfloat16(reduction, into, from),
        Element::I32 => int32(reduction, into, from),
        Element::I64 => int64(reduction, into, from),
        Element::U8 => uint8(reduction, into, from),
    }
}

fn each<const N: usize>(into: &mut [u8], from: &[u8], two: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (into, from) in into.chunks_exact_mut(N).zip(from.chunks_exact(N)) {
        if let (Ok(a), Ok(b)) = (<[u8; N]>::try_from(&*into), from.try_into()) {
            into.copy_from_slice(&two(a, b));
        }
    }
}

macro_rules! number {
    ($name:ident, $kind:ty, $sum:expr, $product:expr, $min:expr, $max:expr) => {
        fn $name(reduction: Reduction, into: &mut [u8], from: &[u8]) {
            fn with(into: &mut [u8], from: &[u8], two: impl Fn($kind, $kind) -> $kind) {
                each(into, from, |a, b| {
                    two(<$kind>::from_ne_bytes(a), <$kind>::from_ne_bytes(b)).to_ne_bytes()
                });
            }
            match reduction {
                Reduction::Sum => with(into, from, $sum),
                Reduction::Product => with(into, from, $product),
                Reduction::Min => with(into, from, $min),
                Reduction::Max => with(into, from, $max),
            }
        }
    };
}

macro_rules! float {
    ($name:ident, $kind:ty) => {
        number!(
            $name,
            $kind,
            |a, b| a + b,
            |a, b| a * b,
            |a, b| if a < b || a.is_nan() { a } else { b },
            |a, b| if a > b || a.is_nan() { a } else { b }
        );
    };
}

macro_rules! integer {
    ($name:ident, $kind:ty) => {
        number!($name, $kind, <$kind>::wrapping_add, <$kind>::wrapping_mul, Ord::min, Ord::max);
    };
}

float!(float32, f32);
float!(float64, f64);
integer!(int32, i32);
integer!(int64, i64);
integer!(uint8, u8);

fn bfloat16(reduction: Reduction, into: &mut [u8], from: &[u8]) {
    let wide = |half: [u8; 2]| f32::from_bits(u32::from(u16::from_ne_bytes(half)) << 16);
    each(into, from, |a, b| {
        let (a, b) = (wide(a), wide(b));
        narrow(match reduction {
            Reduction::Sum => a + b,
            Reduction::Product => a * b,
            Reduction::Min => {
                if a < b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Reduction::Max => {
                if a > b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
        })
    });
}

/// The nearest of 2 B, of two alike the even one; no number stays none.
fn narrow(wide: f32) -> [u8; 2] {
    let bits = wide.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let half = if wide.is_nan() { bits >> 16 | 0x40 } else { rounded >> 16 };
    (half as u16).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in Element::NAMES {
            assert_eq!(name.parse::<Element>().unwrap().to_string(), name);
        }
        let allowed = "must be one of float32, float64, bfloat16, int32, int64, uint8";
        assert_eq!("float16".parse::<Element>().unwrap_err(), allowed);
        assert!(Reduction::NAMES.iter().all(|name| name.parse::<Reduction>().is_ok()));
        assert_eq!(
            "avg".parse::<Reduction>().unwrap_err(),
            "must be one of sum, product, min, max"
        );
    }

    #[test]
    fn what_is_no_number_stays() {
        let nan = f32::NAN.to_ne_bytes();
        for reduction in [Reduction::Min, Reduction::Max, Reduction::Sum] {
            for (mut into, from) in [(nan, 1f32.to_ne_bytes()), (1f32.to_ne_bytes(), nan)] {
                reduce(Element::F32, reduction, &mut into, &from);
                assert!(f32::from_ne_bytes(into).is_nan(), "{reduction:?}");
            }
        }
        assert!(f32::from_bits(u32::from(u16::from_ne_bytes(narrow(f32::NAN))) << 16).is_nan());
    }

    #[test]
    fn halves_round_to_even() {
        for (wide, half) in [
            (1.0, 0x3f80),
            (1.0 + 1.0 / 256.0, 0x3f80), // half-way: even
            (1.0 + 3.0 / 256.0, 0x3f82), // half-way: even
            (1.0 + 1.1 / 256.0, 0x3f81),
            (f32::MAX, 0x7f80),
            (-0.0, 0x8000),
        ] {
            assert_eq!(u16::from_ne_bytes(narrow(wide)), half, "{wide}");
        }
    }

    proptest! {
        #[test]
        fn a_rest_is_left(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0..6usize) {
            let element = Element::ALL[at];
            let mut into = bytes.clone();
            reduce(element, Reduction::Max, &mut into, &bytes);
            let whole = bytes.len() as u64 / element.bytes() * element.bytes();
            prop_assert_eq!(&into[whole as usize..], &bytes[whole as usize..]);
        }
    }
}
