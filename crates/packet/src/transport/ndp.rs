//! NDP (Handley et al., SIGCOMM 2017): a first window at line rate, then one packet for each pull.
//! Switches cut the payload off what they cannot queue; the receiver asks for it again at once, and
//! paces its pulls over all of its flows at the rate of its link ([`crate::host`]).

use super::PathInfo;
use lightloom_units::Bytes;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ndp {
    /// Packets that may be sent.
    credit: u32,
}

impl Ndp {
    pub fn new(window: Option<Bytes>, path: PathInfo) -> Self {
        Ndp { credit: (path.window(window) / path.packet).round().max(1.0) as u32 }
    }
    pub fn may_send(&self) -> bool {
        self.credit > 0
    }
    pub fn sent(&mut self) {
        self.credit = self.credit.saturating_sub(1);
    }
    pub fn pulled(&mut self) {
        self.credit += 1;
    }
    /// Its packets, or the pulls for them, were lost: one packet asks for the next.
    pub fn timed_out(&mut self) {
        self.credit = self.credit.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pull_is_one_packet() {
        let path = PathInfo { rate: 0.0125, round_trip: 8_000_000, packet: 4160.0 };
        let mut ndp = Ndp::new(None, path);
        let first = (0..)
            .take_while(|_| {
                ndp.may_send() && {
                    ndp.sent();
                    true
                }
            })
            .count();
        assert_eq!(first, 38); // 1.5 times 25: 100 kB at 100 Gbps and 8 us, rounded up
        ndp.pulled();
        assert!(ndp.may_send());
        ndp.sent();
        assert!(!ndp.may_send());
    }
}
