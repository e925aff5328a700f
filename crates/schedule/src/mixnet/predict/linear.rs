//! Dense linear algebra for small systems, in plain `f64`: the same result on every machine.
//!
//! Ignored: fused multiply-add and wider vectors, which would round differently from one machine to
//! the next. Checked: products of the factors give the matrix back.

/// Sum of products, in eight running sums.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a, b) = (&a[..a.len().min(b.len())], &b[..a.len().min(b.len())]);
    let (tail_a, tail_b) = (a.chunks_exact(8).remainder(), b.chunks_exact(8).remainder());
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let tail: f64 = tail_a.iter().zip(tail_b).map(|(a, b)| a * b).sum();
    let pairs = [sums[0] + sums[4], sums[1] + sums[5], sums[2] + sums[6], sums[3] + sums[7]];
    (pairs[0] + pairs[2]) + (pairs[1] + pairs[3]) + tail
}

/// `y += scale x`.
pub(super) fn axpy(scale: f64, x: &[f64], y: &mut [f64]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += scale * x;
    }
}

/// Replaces the lower triangle of a positive definite matrix by its Cholesky factor, with inverses on
/// the diagonal.
///
/// A pivot that rounding made zero or negative counts as infinite: its unknown stays zero.
pub(super) fn cholesky(matrix: &mut [f64], n: usize) {
    for i in 0..n {
        let (above, row) = matrix.split_at_mut(i * n);
        for j in 0..i {
            let other = &above[j * n..(j + 1) * n];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) * other[j];
        }
        let diagonal = row[i];
        let pivot = diagonal - dot(&row[..i], &row[..i]);
        row[i] = if pivot > 1e-15 * diagonal { 1.0 / pivot.sqrt() } else { 0.0 };
    }
}

/// Solves `L x = b` in place, with L from [`cholesky`].
pub(super) fn solve_lower(lower: &[f64], n: usize, x: &mut [f64]) {
    for i in 0..n {
        x[i] = (x[i] - dot(&lower[i * n..i * n + i], &x[..i])) * lower[i * n + i];
    }
}

/// Solves `L^T x = b` in place, with L from [`cholesky`].
pub(super) fn solve_upper(lower: &[f64], n: usize, x: &mut [f64]) {
    for i in (0..n).rev() {
        x[i] *= lower[i * n + i];
        let value = x[i];
        axpy(-value, &lower[i * n..i * n + i], &mut x[..i]);
    }
}

/// Subtracts `V^T V` from the lower triangle of a matrix, V given by rows of `n`, a multiple of 4.
pub(super) fn subtract_gram(rows: &[f64], matrix: &mut [f64], n: usize) {
    for a in (0..n).step_by(4) {
        for b in (0..=a).step_by(4) {
            let mut sums = [[0.0; 4]; 4];
            for row in rows.chunks_exact(n) {
                let left: [f64; 4] = row[a..a + 4].try_into().expect("four of a multiple of four");
                let right: [f64; 4] = row[b..b + 4].try_into().expect("four of a multiple of four");
                for i in 0..4 {
                    for j in 0..4 {
                        sums[i][j] += left[i] * right[j];
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                for (to, sum) in matrix[(a + i) * n + b..].iter_mut().zip(sums) {
                    *to -= sum;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_factor_solves_its_system(
            n in 1usize..4,
            seed in prop::collection::vec(-1.0..1.0f64, 16 * 12),
            b in prop::collection::vec(-1.0..1.0f64, 12),
        ) {
            let n = 4 * n;
            // Identity + V^T V.
            let mut matrix = vec![0.0; n * n];
            subtract_gram(&seed[..16 * n], &mut matrix, n);
            matrix.iter_mut().for_each(|value| *value = -*value);
            (0..n).for_each(|i| matrix[i * n + i] += 1.0);
            let whole = |i: usize, j: usize| matrix[i.max(j) * n + i.min(j)];
            let mut factor = matrix.clone();
            cholesky(&mut factor, n);
            let mut x = b[..n].to_vec();
            solve_lower(&factor, n, &mut x);
            solve_upper(&factor, n, &mut x);
            for i in 0..n {
                let row: f64 = (0..n).map(|j| whole(i, j) * x[j]).sum();
                prop_assert!((row - b[i]).abs() < 1e-9, "row {i}: {row} for {}", b[i]);
                let direct: f64 = seed.chunks_exact(n).take(16).map(|v| v[i] * v[0]).sum();
                prop_assert!((whole(i, 0) - direct - f64::from(i == 0)).abs() < 1e-9);
            }
        }

        #[test]
        fn dot_is_the_sum_of_products(a in prop::collection::vec(-9i32..9, 0..40)) {
            let floats: Vec<f64> = a.iter().map(|&v| f64::from(v)).collect();
            prop_assert_eq!(dot(&floats, &floats), f64::from(a.iter().map(|v| v * v).sum::<i32>()));
        }
    }
}
