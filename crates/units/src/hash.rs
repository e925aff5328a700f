//! One hash for whatever is spread: paths, flows, chunks.

/// Spreads the bits of a number: `SplitMix64`'s finaliser (Steele et al., OOPSLA 2014), a bijection.
///
/// ```
/// assert_eq!(lightloom_units::mix(0), 0xE220_A839_7B1D_CDAF);
/// ```
#[inline]
pub fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
