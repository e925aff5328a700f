//! When each piece of what an operation receives was last written to.

use crate::exchange::Endpoint;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pieces of what comes from peers, and when bytes last came into each. What comes twice is not written, so once an
/// operation is over this is when a piece was complete.
///
/// ```
/// use lightloom_runtime::net::Landings;
/// let landings = Landings::new(vec![(3, vec![10, 0, 5]), (1, vec![4])]);
/// landings.wrote(3, 8, 3, 100); // two bytes of the first piece, and one of the third
/// landings.wrote(3, 0, 8, 200);
/// assert_eq!(landings.times(3), [200, 0, 100]);
/// assert_eq!(landings.times(1), [0]);
/// ```
#[derive(Debug)]
pub struct Landings(Vec<(Endpoint, Vec<Piece>)>);

#[derive(Debug)]
struct Piece {
    start: u64,
    end: u64,
    last_ns: AtomicU64,
}

impl Landings {
    /// By peer, the lengths of pieces that follow each other in what comes from it \[B\].
    pub fn new(lengths: Vec<(Endpoint, Vec<u64>)>) -> Self {
        let mut peers: Vec<(Endpoint, Vec<Piece>)> = lengths
            .into_iter()
            .map(|(peer, lengths)| {
                let mut end = 0;
                let piece = |length| {
                    let start = end;
                    end += length;
                    Piece { start, end, last_ns: AtomicU64::new(0) }
                };
                (peer, lengths.into_iter().map(piece).collect())
            })
            .collect();
        peers.sort_by_key(|it| it.0);
        Landings(peers)
    }

    /// Bytes have come: from here on in what a peer sends, so many, at this time \[B, ns\].
    pub fn wrote(&self, peer: Endpoint, offset: u64, bytes: u64, now_ns: u64) {
        let pieces = self.of(peer);
        let first = pieces.partition_point(|piece| piece.end <= offset);
        let its = pieces[first..].iter().take_while(|piece| piece.start < offset + bytes);
        its.filter(|piece| piece.start < piece.end)
            .for_each(|piece| piece.last_ns.store(now_ns, Ordering::Relaxed));
    }

    /// Of a peer's pieces, in order: when bytes last came, or 0 if none have \[ns\].
    pub fn times(&self, peer: Endpoint) -> Vec<u64> {
        self.of(peer).iter().map(|piece| piece.last_ns.load(Ordering::Relaxed)).collect()
    }

    fn of(&self, peer: Endpoint) -> &[Piece] {
        self.0.binary_search_by_key(&peer, |it| it.0).map_or(&[], |at| &self.0[at].1)
    }
}
