//! How good a prediction is.

/// Share of the `k` most loaded experts that are among the `k` predicted to be (MixNet, Figure 19).
///
/// Where loads tie at the edge of the first k, each of the tied counts in part: a uniform prediction
/// scores k over the number of experts.
///
/// ```
/// use lightloom_circuits::predict::top_k_accuracy;
/// let truth = [0.4, 0.3, 0.2, 0.1];
/// assert_eq!(top_k_accuracy(&[0.5, 0.1, 0.3, 0.1], &truth, 2), 0.5);
/// assert_eq!(top_k_accuracy(&[0.25; 4], &truth, 1), 0.25);
/// ```
pub fn top_k_accuracy(predicted: &[f64], truth: &[f64], k: usize) -> f64 {
    let k = k.min(truth.len());
    if k == 0 {
        return 1.0;
    }
    let (said, came) = (chosen(predicted, k), chosen(truth, k));
    said.iter().zip(&came).map(|(a, b)| a * b).sum::<f64>() / k as f64
}

/// By expert: how far it belongs to the k most loaded.
fn chosen(load: &[f64], k: usize) -> Vec<f64> {
    let mut sorted = load.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let edge = sorted[k - 1];
    let above = load.iter().filter(|&&share| share > edge).count();
    let tied = load.iter().filter(|&&share| share == edge).count();
    let part = (k - above) as f64 / tied as f64;
    let membership = |&share: &f64| match share {
        _ if share > edge => 1.0,
        _ if share == edge => part,
        _ => 0.0,
    };
    load.iter().map(membership).collect()
}

/// Sum of the absolute errors, in shares of the truth's sum: 0 is right, 2 is as wrong as can be.
///
/// ```
/// use lightloom_circuits::predict::relative_error;
/// assert_eq!(relative_error(&[0.5, 0.5], &[0.25, 0.75]), 0.5);
/// ```
pub fn relative_error(predicted: &[f64], truth: &[f64]) -> f64 {
    let wrong: f64 = predicted.iter().zip(truth).map(|(a, b)| (a - b).abs()).sum();
    wrong / truth.iter().sum::<f64>()
}
