//! What a NIC has yet to carry.

/// What a NIC has yet to carry, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub chunks: u64,
    pub lanes: u32,
}
