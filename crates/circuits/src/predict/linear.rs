//! Dense linear algebra for small systems, in plain `f64`: the same result on every machine.
//!
//! Modelled: the order of every sum is written down here, and each operation rounds by itself. So a
//! processor with AVX2, which takes four numbers at a time in place of two, comes to the same bits.
//! Ignored: fused multiply-add, which would round differently from one machine to the next.
//! Checked: products of the factors give the matrix back; both ways, the same bits.

/// A function whose body is compiled twice, `plain` and for processors with AVX2; which it is, is asked
/// when it is called.
macro_rules! wide {
    ($(#[$about:meta])* fn $name:ident($($arg:ident: $type:ty),*) $body:block) => {
        pub(super) mod $name {
            #[allow(unused_imports)]
            use super::*;

            #[inline(always)]
            pub fn plain($($arg: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            #[allow(unsafe_code)]
            pub unsafe fn four($($arg: $type),*) {
                plain($($arg),*);
            }
        }

        $(#[$about])*
        #[inline(never)]
        pub(super) fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2.
                #[allow(unsafe_code)]
                return unsafe { $name::four($($arg),*) };
            }
            $name::plain($($arg),*);
        }
    };
}

/// Sum of products, in eight running sums.
#[inline(always)]
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
#[inline(always)]
pub(super) fn axpy(scale: f64, x: &[f64], y: &mut [f64]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += scale * x;
    }
}

/// `sum += a x`, number by number.
#[inline(always)]
fn add_product<const N: usize>(sum: &mut [f64; N], a: &[f64; N], x: &[f64; N]) {
    for ((sum, a), x) in sum.iter_mut().zip(a).zip(x) {
        *sum += a * x;
    }
}

// Inlined, the compiler takes a number of each of several rows together in place of a row's four.
#[inline(never)]
fn added(sums: &[f64; 4]) -> f64 {
    (sums[0] + sums[2]) + (sums[1] + sums[3])
}

/// A row in fours; what is left over is left out.
#[inline(always)]
fn fours(row: &[f64]) -> impl Iterator<Item = &[f64; 4]> {
    row.chunks_exact(4).map(|four| four.try_into().expect("four of them"))
}

wide! {
    /// [`dot`] of a vector with each row of a matrix as wide, four at a time: the vector is read once.
    fn dots(rows: &[f64], x: &[f64], out: &mut [f64]) {
        let n = x.len();
        let whole = out.len() / 4 * 4;
        let (some, rest) = out.split_at_mut(whole);
        for (out, rows) in some.chunks_exact_mut(4).zip(rows.chunks_exact(4 * n)) {
            let (a, b) = rows.split_at(2 * n);
            let ((a, b), (c, d)) = (a.split_at(n), b.split_at(n));
            let [mut sum_a, mut sum_b, mut sum_c, mut sum_d] = [[0.0; 4]; 4];
            for ((((x, a), b), c), d) in fours(x).zip(fours(a)).zip(fours(b)).zip(fours(c)).zip(fours(d)) {
                add_product(&mut sum_a, a, x);
                add_product(&mut sum_b, b, x);
                add_product(&mut sum_c, c, x);
                add_product(&mut sum_d, d, x);
            }
            let at = n / 4 * 4;
            let sums = [(sum_a, a), (sum_b, b), (sum_c, c), (sum_d, d)];
            for (out, (sums, row)) in out.iter_mut().zip(sums) {
                let tail: f64 = row[at..].iter().zip(&x[at..]).map(|(a, x)| a * x).sum();
                *out = added(&sums) + tail;
            }
        }
        for (out, row) in rest.iter_mut().zip(rows[whole * n..].chunks_exact(n)) {
            *out = dot(row, x);
        }
    }
}

wide! {
    /// Adds the rows of a matrix to `y`, each with its scale, four at a time: `y` is read less often.
    fn add_rows(scales: &[f64], rows: &[f64], y: &mut [f64]) {
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
}

wide! {
    /// Replaces the upper triangle of a positive definite matrix A by its Cholesky factor U, `A = U^T U`,
    /// with inverses on the diagonal.
    ///
    /// A pivot that rounding made zero or negative counts as infinite: its unknown stays zero.
    fn cholesky(matrix: &mut [f64], n: usize) {
        for r in 0..n {
            let (done, rest) = matrix.split_at_mut(r * n);
            let row = &mut rest[r..n];
            // Rows above one after the other, but four at a time: the row is read less often.
            let mut above = done.chunks_exact(4 * n);
            for rows in above.by_ref() {
                let (a, b) = rows.split_at(2 * n);
                let ((a, b), (c, d)) = (a.split_at(n), b.split_at(n));
                let (a, b, c, d) = (&a[r..], &b[r..], &c[r..], &d[r..]);
                let scale = [-a[0], -b[0], -c[0], -d[0]];
                for ((((y, a), b), c), d) in row.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *y = *y + scale[0] * a + scale[1] * b + scale[2] * c + scale[3] * d;
                }
            }
            for above in above.remainder().chunks_exact(n) {
                axpy(-above[r], &above[r..], row);
            }
            let pivot = row[0];
            let inverse = if pivot > 0.0 { 1.0 / pivot.sqrt() } else { 0.0 };
            row[0] = inverse;
            row[1..].iter_mut().for_each(|value| *value *= inverse);
        }
    }
}

wide! {
    /// Solves `U^T U x = b` in place, with U from [`cholesky`].
    fn solve(upper: &[f64], n: usize, x: &mut [f64]) {
        for (p, row) in upper.chunks_exact(n).enumerate() {
            x[p] *= row[p];
            let value = x[p];
            axpy(-value, &row[p + 1..], &mut x[p + 1..]);
        }
        for (p, row) in upper.chunks_exact(n).enumerate().rev() {
            x[p] = (x[p] - dot(&row[p + 1..], &x[p + 1..])) * row[p];
        }
    }
}

wide! {
    /// Subtracts `V^T V` from the upper triangle of a matrix, V given by rows of `n`, a multiple of 4.
    fn subtract_gram(rows: &[f64], matrix: &mut [f64], n: usize) {
        for a in (0..n).step_by(4) {
            let mut b = a;
            while b + 8 <= n {
                block::<8>(rows, matrix, n, (a, b));
                b += 8;
            }
            if b < n {
                block::<4>(rows, matrix, n, (a, b));
            }
        }
    }
}

/// What [`subtract_gram`] does for four rows of the matrix and some columns.
#[inline(always)]
fn block<const WIDTH: usize>(rows: &[f64], matrix: &mut [f64], n: usize, (a, b): (usize, usize)) {
    let [mut sum_a, mut sum_b, mut sum_c, mut sum_d] = [[0.0; WIDTH]; 4];
    for row in rows.chunks_exact(n) {
        let left: &[f64; 4] = row[a..a + 4].try_into().expect("four of a multiple of four");
        let right: &[f64; WIDTH] = row[b..b + WIDTH].try_into().expect("as many as asked for");
        add_product(&mut sum_a, &[left[0]; WIDTH], right);
        add_product(&mut sum_b, &[left[1]; WIDTH], right);
        add_product(&mut sum_c, &[left[2]; WIDTH], right);
        add_product(&mut sum_d, &[left[3]; WIDTH], right);
    }
    for (i, sums) in [sum_a, sum_b, sum_c, sum_d].iter().enumerate() {
        let from = (a + i) * n + b;
        let to: &mut [f64; WIDTH] =
            (&mut matrix[from..from + WIDTH]).try_into().expect("as many as asked for");
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to -= sum);
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

        /// On a machine without AVX2 there is one way only.
        #[test]
        fn both_ways_come_to_the_same_bits(
            n in 1usize..6, count in 1usize..19, seed in prop::collection::vec(-1.0..1.0f64, 20 * 24),
        ) {
            let n = 4 * n;
            let rows = &seed[..count * n];
            let x = &seed[19 * 24 - n..19 * 24];
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let both = |size: usize, run: &dyn Fn(bool, &mut [f64])| {
                let [mut one, mut other] = [(); 2].map(|()| seed[seed.len() - size..].to_vec());
                run(true, &mut one);
                run(false, &mut other);
                assert_eq!(bits(&one), bits(&other));
                one
            };
            both(count, &|wide, out| if wide { dots(rows, x, out) } else { dots::plain(rows, x, out) });
            let scales = &seed[..count];
            both(n, &|wide, y| match wide {
                true => add_rows(scales, rows, y),
                false => add_rows::plain(scales, rows, y),
            });
            let mut matrix = vec![0.0; n * n];
            subtract_gram(rows, &mut matrix, n);
            let mut same = vec![0.0; n * n];
            subtract_gram::plain(rows, &mut same, n);
            assert_eq!(bits(&matrix), bits(&same));
            matrix.iter_mut().for_each(|value| *value = -*value);
            (0..n).for_each(|i| matrix[i * n + i] += 1.0);
            let mut same = matrix.clone();
            cholesky(&mut matrix, n);
            cholesky::plain(&mut same, n);
            assert_eq!(bits(&matrix), bits(&same));
            both(n, &|wide, x| match wide {
                true => solve(&matrix, n, x),
                false => solve::plain(&matrix, n, x),
            });
        }

        #[test]
        fn dot_is_the_sum_of_products(a in prop::collection::vec(-9i32..9, 0..40)) {
            let floats: Vec<f64> = a.iter().map(|&v| f64::from(v)).collect();
            prop_assert_eq!(dot(&floats, &floats), f64::from(a.iter().map(|v| v * v).sum::<i32>()));
        }
    }
}
