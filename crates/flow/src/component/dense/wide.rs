//! The steps of a dense component with all of its links at once: sixteen numbers are two registers of 512 bits, and
//! which of them an operation is for are the bits of a mask. Each number goes through the operations that it goes
//! through flow by flow (`bits.rs`), in the same order, so the bits are the same ones; what takes no branch cannot be
//! guessed wrongly.
#![allow(unsafe_code)] // registers are filled from memory and written to it, and a processor must have them

use super::super::{ROUNDING_BYTES, time_for};
use super::links::{L, Links, List, set_bits};
use lightloom_units::Time;
use std::arch::x86_64::*;

/// A processor that can do it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide(());

/// Compiles for processors as [`Wide::here`] finds them.
macro_rules! wide {
    ($($function:item)*) => {
        $(
            #[inline]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
            $function
        )*
    };
}

/// A number of each link.
type Numbers = [__m512d; 2];

wide! {
    fn load(from: &[f64; L]) -> Numbers {
        // SAFETY: eight numbers are there from either place on.
        unsafe { [_mm512_loadu_pd(from.as_ptr()), _mm512_loadu_pd(from[8..].as_ptr())] }
    }

    fn store(to: &mut [f64; L], [low, high]: Numbers) {
        // SAFETY: there is room for eight numbers from either place on.
        unsafe {
            _mm512_storeu_pd(to.as_mut_ptr(), low);
            _mm512_storeu_pd(to[8..].as_mut_ptr(), high);
        }
    }

    fn all(number: f64) -> Numbers {
        [_mm512_set1_pd(number); 2]
    }

    /// The number of the first link.
    fn first([low, _]: Numbers) -> f64 {
        _mm512_cvtsd_f64(low)
    }

    fn each(a: Numbers, b: Numbers, of: impl Fn(__m512d, __m512d) -> __m512d) -> Numbers {
        [of(a[0], b[0]), of(a[1], b[1])]
    }

    /// `a - b` for some links, `a` for the others.
    fn less_for(links: u32, a: Numbers, b: Numbers) -> Numbers {
        [
            _mm512_mask_sub_pd(a[0], links as u8, a[0], b[0]),
            _mm512_mask_sub_pd(a[1], (links >> 8) as u8, a[1], b[1]),
        ]
    }

    /// `yes` for some links, `no` for the others.
    fn choose(links: u32, yes: Numbers, no: Numbers) -> Numbers {
        [
            _mm512_mask_blend_pd(links as u8, no[0], yes[0]),
            _mm512_mask_blend_pd((links >> 8) as u8, no[1], yes[1]),
        ]
    }

    /// As [`share_of`](super::super::filling::share_of).
    fn share_of(left: Numbers, wanted: Numbers, frozen: Numbers) -> Numbers {
        let mut shares = all(f64::INFINITY);
        for (at, share) in shares.iter_mut().enumerate() {
            let some = _mm512_cmp_pd_mask::<_CMP_GT_OQ>(wanted[at], _mm512_setzero_pd());
            let equal = _mm512_div_pd(left[at], wanted[at]);
            *share = _mm512_mask_max_pd(*share, some, equal, frozen[at]);
        }
        shares
    }

    /// The smallest of all, for every link.
    fn smallest([low, high]: Numbers) -> Numbers {
        let of = _mm512_min_pd(low, high);
        let of = _mm512_min_pd(of, _mm512_shuffle_f64x2::<0b01_00_11_10>(of, of));
        let of = _mm512_min_pd(of, _mm512_shuffle_f64x2::<0b10_11_00_01>(of, of));
        [_mm512_min_pd(of, _mm512_permute_pd::<0b0101_0101>(of)); 2]
    }

    /// The links for which two numbers are equal.
    fn equal(a: Numbers, b: Numbers) -> u32 {
        let of = |at: usize| u32::from(_mm512_cmp_pd_mask::<_CMP_EQ_OQ>(a[at], b[at]));
        of(0) | of(1) << 8
    }

    /// The links for which the first number is not above the second.
    fn at_most(a: Numbers, b: Numbers) -> u32 {
        let of = |at: usize| u32::from(_mm512_cmp_pd_mask::<_CMP_LE_OQ>(a[at], b[at]));
        of(0) | of(1) << 8
    }

    /// What the flows of a link are sent when they are over.
    fn marks(of: &Links, at: usize) -> &[f64; L] {
        of.mark[at].first_chunk().expect("it has more places")
    }

    /// One of some links: of several the first that a list names, or else the first by number.
    fn among(links: u32, list: &List) -> usize {
        // By place of the list: whether its link is one of these.
        // SAFETY: sixteen numbers are there.
        let order = unsafe { _mm_loadu_si128(list.links.as_ptr().cast()) };
        let are = _mm_shuffle_epi8(_mm_movm_epi8(links as u16), order);
        let places = _mm_movepi8_mask(are) as u32 & ((1 << list.len) - 1);
        let named = list.links[places.trailing_zeros() as usize % L];
        let first = if places == 0 { links.trailing_zeros() } else { named.into() };
        first as usize % L
    }

    fn solve(of: &mut Links) {
        let right = of.serving.as_slice().iter();
        let right = right.take_while(|&&at| of.level[at as usize % L] < of.right_below).count();
        let before = of.serving;
        of.serving.len = right;
        let (mut frozen, mut todo, mut level) = (0, of.live, 0.0);
        let (mut left, mut wanted) = (load(&of.capacity), load(&of.load));
        let (one, infinity) = (all(1.0), all(f64::INFINITY));
        for &at in of.serving.as_slice() {
            let at = at as usize % L;
            level = of.level[at];
            frozen |= 1 << at;
            let serves = of.serves[at];
            todo -= serves.count_ones() as usize;
            left = less_for(serves, left, all(level));
            wanted = less_for(serves, wanted, one);
        }
        wanted = choose(frozen, all(0.0), wanted);
        let mut share = share_of(left, wanted, all(level));
        while todo > 0 {
            let fair = smallest(share);
            let at = among(equal(share, fair), &before);
            let alive = of.alive[at] & !frozen;
            of.take_over(at, alive & !of.serves[at]);
            of.serves[at] = alive;
            let due = smallest(choose(alive, load(marks(of, at)), infinity));
            (of.level[at], of.due[at]) = (first(fair), first(due));
            left = less_for(alive, left, fair);
            wanted = less_for(alive, wanted, one);
            share = choose(alive, share_of(left, wanted, fair), share);
            share = choose(1 << at, infinity, share);
            frozen |= 1 << at;
            todo -= alive.count_ones() as usize;
            of.serving.push(at);
        }
        for at in set_bits(of.served & !frozen) {
            (of.level[at], of.due[at], of.serves[at]) = (f64::INFINITY, f64::INFINITY, 0);
        }
        (of.served, of.right_below) = (frozen, f64::INFINITY);
    }

    fn step(of: &mut Links, now: Time, ends: &mut Vec<(u32, Time)>) {
        let elapsed = all(now.saturating_sub(of.updated).ps() as f64);
        let before = of.sent;
        let sent = each(load(&of.level), elapsed, |a, b| _mm512_mul_pd(a, b));
        let sent = each(load(&before), sent, |a, b| _mm512_add_pd(a, b));
        let sent = choose(of.served, sent, load(&before));
        store(&mut of.sent, sent);
        let rounding = all(ROUNDING_BYTES);
        let limit = each(sent, rounding, |a, b| _mm512_add_pd(a, b));
        let mut over = at_most(load(&of.due), limit) & of.served;
        while over != 0 {
            let at = among(over, &of.serving);
            over &= !(1 << at);
            let (level, limit) = (of.level[at], all(of.sent[at] + ROUNDING_BYTES));
            for other in set_bits(at_most(load(marks(of, at)), limit) & of.serves[at]) {
                let takes = time_for(of.mark[at][other] - before[at], level);
                let drained = of.updated.saturating_add(takes).min(now);
                ends.push((of.flow[at][other].into(), drained));
                of.end(at, other);
            }
        }
        of.updated = now;
    }

    fn next_done(of: &Links) -> Option<Time> {
        let left = each(load(&of.due), load(&of.sent), |a, b| _mm512_sub_pd(a, b));
        let end = each(left, load(&of.level), |a, b| _mm512_div_pd(a, b));
        let end = choose(of.served, end, all(f64::INFINITY));
        let soonest = smallest(end);
        let at = among(equal(end, soonest) & of.served, &of.serving);
        let takes = || time_for(of.due[at] - of.sent[at], of.level[at]);
        (first(soonest) < f64::INFINITY).then(|| of.updated.saturating_add(takes()))
    }
}

impl Wide {
    /// This one, if it can.
    pub fn here() -> Option<Wide> {
        let can = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        can.then_some(Wide(()))
    }

    /// As [`super::bits::solve`].
    #[inline]
    pub fn solve(self, of: &mut Links) {
        // SAFETY: there is none of `self` but where the processor can do it.
        unsafe { solve(of) }
    }

    /// As [`super::bits::step`].
    #[inline]
    pub fn step(self, of: &mut Links, now: Time, ends: &mut Vec<(u32, Time)>) {
        // SAFETY: as above.
        unsafe { step(of, now, ends) }
    }

    /// As [`super::bits::next_done`].
    #[inline]
    pub fn next_done(self, of: &Links) -> Option<Time> {
        // SAFETY: as above.
        unsafe { next_done(of) }
    }
}
