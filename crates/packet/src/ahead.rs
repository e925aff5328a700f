//! Asks for memory before it is needed. It changes nothing but how long that takes.
#![allow(unsafe_code)] // one instruction, which reads nothing that a program could see

/// An item of a slice will be read soon.
#[inline(always)]
pub(crate) fn fetch<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer is to an item that lives, and the instruction only fills the cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, at);
}

/// All of an item will be, not only where it begins.
#[inline(always)]
pub(crate) fn fetch_whole<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(item).cast::<i8>();
        for within in (0..size_of::<T>()).step_by(64).chain([size_of::<T>() - 1]) {
            // SAFETY: the instruction only fills the cache, and these addresses are of an item that lives.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(within)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, at);
}

/// Something will be appended soon, so many items behind the end.
#[inline(always)]
pub(crate) fn fetch_end<T>(items: &[T], more: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let end = items.as_ptr().wrapping_add(items.len() + more);
        // SAFETY: the instruction only fills the cache, and an address that is none does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(end.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, more);
}
