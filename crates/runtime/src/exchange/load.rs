//! What a NIC has yet to carry.

/// What a NIC has yet to carry, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub chunks: u64,
    pub lanes: u32,
}

impl Load {
    /// Of lanes that have so many chunks each.
    pub fn of(lanes: impl Iterator<Item = u64>) -> Self {
        let some = lanes.filter(|&chunks| chunks > 0);
        some.fold(Load::default(), |all, chunks| Load {
            chunks: all.chunks + chunks,
            lanes: all.lanes + 1,
        })
    }
}
