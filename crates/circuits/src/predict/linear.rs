//! Dense linear algebra for small systems, in plain `f64`: the same result on every machine.
//!
//! Ignored: fused multiply-add and wider vectors, which would round differently from one machine to
//! the next. Checked: products of the factors give the matrix back.

/// Sum of products, in eight running sums.
#[inline]
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
#[inline]
pub(super) fn axpy(scale: f64, x: &[f64], y: &mut [f64]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += scale * x;
    }
}

/// [`dot`] of a vector with each row of a matrix as wide, four at a time: the vector is read once.
#[inline]
pub(super) fn dots(rows: &[f64], x: &[f64], out: &mut [f64]) {
    let n = x.len();
    let whole = out.len() / 4 * 4;
    let (fours, rest) = out.split_at_mut(whole);
    for (out, rows) in fours.chunks_exact_mut(4).zip(rows.chunks_exact(4 * n)) {
        let (a, b) = rows.split_at(2 * n);
        let ((a, b), (c, d)) = (a.split_at(n), b.split_at(n));
        let mut sums = [[0.0; 4]; 4];
        let lanes = x.chunks_exact(4);
        let tail = lanes.remainder();
        let quads = a.chunks_exact(4).zip(b.chunks_exact(4));
        let quads = quads.zip(c.chunks_exact(4).zip(d.chunks_exact(4)));
        for (x, ((a, b), (c, d))) in lanes.zip(quads) {
            for lane in 0..4 {
                sums[0][lane] += a[lane] * x[lane];
                sums[1][lane] += b[lane] * x[lane];
                sums[2][lane] += c[lane] * x[lane];
                sums[3][lane] += d[lane] * x[lane];
            }
        }
        let at = n - tail.len();
        for ((out, sums), row) in out.iter_mut().zip(&sums).zip([a, b, c, d]) {
            let tail: f64 = row[at..].iter().zip(tail).map(|(a, x)| a * x).sum();
            *out = (sums[0] + sums[2]) + (sums[1] + sums[3]) + tail;
        }
    }
    for (out, row) in rest.iter_mut().zip(rows[whole * n..].chunks_exact(n)) {
        *out = dot(row, x);
    }
}

/// Adds the rows of a matrix to `y`, each with its scale, four at a time: `y` is read less often.
#[inline]
pub(super) fn add_rows(scales: &[f64], rows: &[f64], y: &mut [f64]) {
    let n = y.len();
    let fours = scales.chunks_exact(4);
    let rest = fours.remainder();
    let done = (scales.len() - rest.len()) * n;
    for (scale, rows) in fours.zip(rows.chunks_exact(4 * n)) {
        let (a, b) = rows.split_at(2 * n);
        let ((a, b), (c, d)) = (a.split_at(n), b.split_at(n));
        for ((((y, a), b), c), d) in y.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *y += (scale[0] * a + scale[1] * b) + (scale[2] * c + scale[3] * d);
        }
    }
    for (&scale, row) in rest.iter().zip(rows[done..].chunks_exact(n)) {
        axpy(scale, row, y);
    }
}

/// Replaces the upper triangle of a positive definite matrix A by its Cholesky factor U, `A = U^T U`,
/// with inverses on the diagonal.
///
/// A pivot that rounding made zero or negative counts as infinite: its unknown stays zero.
#[inline]
pub(super) fn cholesky(matrix: &mut [f64], n: usize) {
    for p in 0..n {
        let (head, below) = matrix.split_at_mut((p + 1) * n);
        let row = &mut head[p * n + p..];
        let pivot = row[0];
        let inverse = if pivot > 0.0 { 1.0 / pivot.sqrt() } else { 0.0 };
        row[0] = inverse;
        row[1..].iter_mut().for_each(|value| *value *= inverse);
        for (i, to) in below.chunks_exact_mut(n).enumerate() {
            axpy(-row[i + 1], &row[i + 1..], &mut to[p + 1 + i..]);
        }
    }
}

/// Solves `U^T U x = b` in place, with U from [`cholesky`].
#[inline]
pub(super) fn solve(upper: &[f64], n: usize, x: &mut [f64]) {
    for (p, row) in upper.chunks_exact(n).enumerate() {
        x[p] *= row[p];
        let value = x[p];
        axpy(-value, &row[p + 1..], &mut x[p + 1..]);
    }
    for (p, row) in upper.chunks_exact(n).enumerate().rev() {
        x[p] = (x[p] - dot(&row[p + 1..], &x[p + 1..])) * row[p];
    }
}

/// Subtracts `V^T V` from the upper triangle of a matrix, V given by rows of `n`, a multiple of 4.
// Alone, the compiler keeps the sums in vector registers; inlined, it may not.
#[inline(never)]
pub(super) fn subtract_gram(rows: &[f64], matrix: &mut [f64], n: usize) {
    for a in (0..n).step_by(4) {
        for b in (a..n).step_by(4) {
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
            let whole = |i: usize, j: usize| matrix[i.min(j) * n + i.max(j)];
            let mut factor = matrix.clone();
            cholesky(&mut factor, n);
            let mut x = b[..n].to_vec();
            solve(&factor, n, &mut x);
            for i in 0..n {
                let row: f64 = (0..n).map(|j| whole(i, j) * x[j]).sum();
                prop_assert!((row - b[i]).abs() < 1e-9, "row {i}: {row} for {}", b[i]);
                let direct: f64 = seed.chunks_exact(n).take(16).map(|v| v[i] * v[0]).sum();
                prop_assert!((whole(i, 0) - direct - f64::from(i == 0)).abs() < 1e-9);
            }
        }

        #[test]
        fn rows_at_a_time_are_rows_one_by_one(
            n in 1usize..12,
            count in 0usize..11,
            seed in prop::collection::vec(-9i32..9, 11 * 12),
        ) {
            let rows: Vec<f64> = seed.iter().take(n * count).map(|&v| f64::from(v)).collect();
            let x: Vec<f64> = seed.iter().rev().take(n).map(|&v| f64::from(v)).collect();
            let mut found = vec![0.0; count];
            dots(&rows, &x, &mut found);
            let single: Vec<f64> = rows.chunks_exact(n).map(|row| dot(row, &x)).collect();
            prop_assert_eq!(&found, &single); // whole numbers: exact
            let (mut together, mut apart) = (x.clone(), x.clone());
            add_rows(&found, &rows, &mut together);
            rows.chunks_exact(n).zip(&found).for_each(|(row, &s)| axpy(s, row, &mut apart));
            prop_assert_eq!(together, apart);
        }

        #[test]
        fn dot_is_the_sum_of_products(a in prop::collection::vec(-9i32..9, 0..40)) {
            let floats: Vec<f64> = a.iter().map(|&v| f64::from(v)).collect();
            prop_assert_eq!(dot(&floats, &floats), f64::from(a.iter().map(|v| v * v).sum::<i32>()));
        }
    }
}
