//! Times of matrix products by shape: closed forms, and the curve beside published tables.

use lightloom_units::Time;
use lightloom_workload::{
    Component, Compute, Efficiency, Job, Kernel, MatmulTime, Origin, Pass, Precision, Product,
    Products, example,
};

/// An H800: the H100's rates (NVIDIA), and the most that products reach (Bekman, Machine Learning
/// Engineering, "Maximum Achievable Matmul FLOPS": 794.5 of 989, 1402.6 of 1979 TFLOP/s).
fn h800() -> Compute {
    let products = Products {
        efficiency: Efficiency::Shape,
        precision: Precision::Bf16,
        peak_fp8_flops: 1_979_000_000_000_000,
        ceiling: 0.803,
        ceiling_fp8: 0.709,
        sms: 132,
        scores: 0.55,
        ..Products::default()
    };
    Compute { products, ..example::mixtral_8x7b().compute }
}

fn by_shape(job: Job) -> Job {
    Job { compute: h800(), ..job }
}

fn product([m, n, k, groups]: [u64; 4], precision: Precision) -> Product {
    Product { m, n, k, groups, precision, out_bytes: 2.0 }
}

/// DeepGEMM's README of February 2025, FP8 on H800: groups, m, n, k, TFLOP/s. No constant of the curve
/// was fitted to it.
const DEEPGEMM: &str = include_str!("../../../../docs/data/deepgemm-h800-fp8.csv");

#[test]
fn the_curve_is_near_deepgemms_table() {
    let gpu = h800();
    let mut errors = Vec::new();
    for line in DEEPGEMM.lines().skip(1) {
        let numbers: Vec<u64> = line.split(',').map(|it| it.parse().expect("numbers")).collect();
        let [groups, m, n, k, tflops] = numbers[..] else { panic!("{line}") };
        let tflops = tflops as f64;
        let product = product([m, n, k, groups], Precision::Fp8);
        let found = product.flops() / gpu.curve(&product) / 1e12;
        println!("{groups} {m} {n} {k}: {found:.0} for {tflops}");
        errors.push((m >= 1024, (found / tflops - 1.0).abs()));
    }
    let mean = errors.iter().map(|(_, error)| error).sum::<f64>() / errors.len() as f64;
    let worst = |large| errors.iter().filter(|e| e.0 == large).map(|e| e.1).fold(0.0, f64::max);
    println!("mean {mean:.3}, worst {:.3} {:.3}", worst(true), worst(false));
    assert!(mean < 0.10, "{mean}");
    assert!(worst(true) < 0.20 && worst(false) < 0.30);
}

/// A product of 132 tiles of 128 x 256 is one wave, of twice as many two; and what is bound by memory
/// takes the time of its bytes.
#[test]
fn waves_and_memory_are_closed_forms() {
    let gpu = h800();
    let write = |m: u64, n: u64| 2.0 * (m * n) as f64 / (0.8 * 3.35e12);
    let one = gpu.curve(&product([12 * 128, 11 * 256, 65536, 1], Precision::Bf16));
    let wave = 2.0 * 132.0 * 128.0 * 256.0 * 65536.0 / (0.803 * 989e12);
    assert!((one - (2e-6 + wave + write(12 * 128, 11 * 256))).abs() < 1e-12);
    let two = gpu.curve(&product([24 * 128, 11 * 256, 65536, 1], Precision::Bf16));
    assert!((two - (2e-6 + 2.0 * wave + write(24 * 128, 11 * 256))).abs() < 1e-12);
    let flat = product([1, 65536, 65536, 1], Precision::Bf16);
    let read = 2.0 * 65536.0 * 65537.0 / (0.8 * 3.35e12);
    assert!((gpu.curve(&flat) - (2e-6 + read + write(1, 65536))).abs() < 1e-12);
}

/// More rows never take less; groups take as long as one product of as many full tiles.
#[test]
fn more_takes_no_less() {
    let gpu = h800();
    let mut last = 0.0;
    for m in (0..400).map(|step| 1 + 37 * step) {
        let time = gpu.curve(&product([m, 4096, 7168, 8], Precision::Bf16));
        assert!(time >= last, "{m}");
        last = time;
    }
    let one = gpu.curve(&product([8 * 256, 4096, 7168, 1], Precision::Bf16));
    let many = gpu.curve(&product([256, 4096, 7168, 8], Precision::Bf16));
    assert!(many >= one);
}

/// By shape the five models' layers take between the peak's time and three times that of half of the peak.
#[test]
fn layers_take_a_plausible_time() {
    for job in [example::mixtral_8x7b(), example::mixtral_8x22b(), example::deepseek_r1()] {
        let share = job.profile().expect("valid");
        let job = by_shape(job);
        let shape = job.profile().expect("valid");
        for pass in [Pass::Forward, Pass::Backward] {
            for part in [Component::Attention, Component::Expert] {
                let ratio = shape.time(part, pass).ps() as f64 / share.time(part, pass).ps() as f64;
                assert!((0.5..1.5).contains(&ratio), "{} {part:?} {ratio}", job.model.name);
            }
            let balanced = job.assignments_per_rank();
            let shared = shape.time(Component::SharedExpert, pass);
            assert_eq!(
                shape.expert_time(pass, balanced),
                shape.time(Component::Expert, pass) + shared
            );
            assert!(shape.expert_time(pass, 3 * balanced) > shape.expert_time(pass, balanced));
        }
    }
}

/// At 8 bits experts take about half as long; the head stays as it is.
#[test]
fn eight_bits_halve_what_is_bound_by_products() {
    for efficiency in [Efficiency::Share, Efficiency::Shape] {
        let mut job = by_shape(example::deepseek_r1());
        job.compute.products.efficiency = efficiency;
        let wide = job.profile().expect("valid");
        job.compute.products.precision = Precision::Fp8;
        let narrow = job.profile().expect("valid");
        let ratio = |part| {
            let time =
                |profile: &lightloom_workload::Profile| profile.time(part, Pass::Forward).ps();
            time(&narrow) as f64 / time(&wide) as f64
        };
        assert!((0.45..0.7).contains(&ratio(Component::Expert)), "{}", ratio(Component::Expert));
        assert!((0.5..1.0).contains(&ratio(Component::Attention)));
        assert_eq!(ratio(Component::Head), 1.0);
    }
}

/// A measured product takes its time, and its component says so once all of it was measured.
#[test]
fn measured_shapes_are_used_and_named() {
    let mut job = by_shape(example::mixtral_8x7b());
    let found = job.kernels(Component::Expert, Pass::Forward, job.assignments_per_rank());
    for (index, kernel) in found.kernels.iter().enumerate() {
        let &Kernel::Product(shape) = kernel else { panic!("experts are products") };
        let time_ps = Time::from_ms(10 + index as u64).ps();
        job.compute.products.matmul.push(MatmulTime { shape, time_ps });
    }
    let profile = job.profile().expect("valid");
    let line = profile
        .origins()
        .iter()
        .find(|line| line.component == Component::Expert && line.pass == Pass::Forward)
        .expect("experts");
    assert_eq!(line.origin, Origin::Measured);
    let other = found.other_bytes / (0.8 * 3.35e12);
    let near = |time: Time, expected: f64| (time.as_secs_f64() / expected - 1.0).abs() < 1e-9;
    assert!(near(line.time, 0.021 + other));
    // Twice as many rows are outside of what was measured.
    let twice = profile.expert_time(Pass::Forward, 2 * job.assignments_per_rank());
    assert!(near(twice, 0.042 + 2.0 * other));
}

#[test]
fn what_is_missing_is_said() {
    let mut job = by_shape(example::mixtral_8x7b());
    job.compute.products.sms = 0;
    assert_eq!(
        job.validate().unwrap_err().to_string(),
        "compute.efficiency = shape: needs compute.sms and compute.matmul_ceiling, or measured \
         products"
    );
    let mut job = by_shape(example::mixtral_8x7b());
    job.compute.products.precision = Precision::Fp8;
    job.compute.products.peak_fp8_flops = 0;
    assert_eq!(
        job.validate().unwrap_err().to_string(),
        "compute.products = fp8: needs compute.peak_fp8: what the GPU multiplies at 8 bits"
    );
}
