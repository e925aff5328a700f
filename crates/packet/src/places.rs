//! Things by number, whose numbers are used again once they are free.

/// Puts something at a free place, or at a new one: which.
#[inline]
pub(crate) fn keep<T>(all: &mut Vec<T>, free: &mut Vec<u32>, what: T) -> u32 {
    match free.pop() {
        Some(at) => {
            all[at as usize] = what;
            at
        }
        None => {
            all.push(what);
            all.len() as u32 - 1
        }
    }
}
