//! All experts alike: what a fabric that does not look at demand assumes.

/// The same share for each of `experts`.
///
/// ```
/// assert_eq!(lightloom_circuits::predict::uniform(4), [0.25; 4]);
/// ```
pub fn uniform(experts: usize) -> Vec<f64> {
    vec![1.0 / experts as f64; experts]
}
