use super::*;
use crate::compute::{Compute, Measured};
use crate::example;

fn measured(component: Component, pass: Pass, micro_batch: u32, ms: u64) -> Measured {
    Measured {
        component,
        pass,
        micro_batch,
        time_ps: Time::from_ms(ms).ps(),
        origin: Origin::Measured,
    }
}

fn line(job: &Job, component: Component, pass: Pass) -> (Time, Origin) {
    let profile = job.profile().expect("valid job");
    let lines = profile.origins();
    let line = lines
        .iter()
        .find(|line| line.component == component && line.pass == pass)
        .expect("the model has the component");
    (line.time, line.origin)
}

/// Mixtral's experts on H100: 32,768 tokens * 2 experts * 6 * 4096 * 14336 FLOPs on four GPUs
/// at half of 989 TFLOP/s; and its embedding, bound by memory: each element read and written.
#[test]
fn roofline_by_hand() {
    let job = example::mixtral_8x7b();
    let flops = 32_768.0 * 2.0 * 6.0 * 4096.0 * 14336.0 / 4.0;
    let expert = Time::from_secs_f64(flops / (0.5 * 989e12));
    assert_eq!(line(&job, Component::Expert, Pass::Forward), (expert, Origin::Roofline));
    assert_eq!(line(&job, Component::Expert, Pass::Backward).0, twice(expert));
    let bytes = 2.0 * 2.0 * 32_768.0 * 4096.0;
    let embedding = Time::from_secs_f64(bytes / (0.8 * 3.35e12));
    assert_eq!(line(&job, Component::Embedding, Pass::Forward).0, embedding);
}

/// A layer's forward and backward pass takes tens to hundreds of milliseconds on an H100.
#[test]
fn layers_of_the_papers_models_take_tens_to_hundreds_of_ms() {
    for (job, range_ms) in [
        (example::mixtral_8x7b(), 40..60),
        (example::mixtral_8x22b(), 30..60),
        (example::llama_moe(), 40..70),
        (example::qwen_moe(), 10..40),
        (example::deepseek_r1(), 200..400),
    ] {
        let profile = job.profile().expect("valid job");
        let balanced = job.assignments_per_rank();
        let layer: Time = PASSES
            .into_iter()
            .map(|pass| {
                profile.time(Component::Attention, pass)
                    + profile.time(Component::Gate, pass)
                    + profile.expert_time(pass, balanced)
            })
            .sum();
        let ms = layer.ps() / 1_000_000_000;
        assert!(range_ms.contains(&ms), "{}: {ms} ms", job.model.name);
    }
}

#[test]
fn a_balanced_load_takes_the_balanced_time_and_more_takes_longer() {
    for job in [example::mixtral_8x7b(), example::deepseek_r1()] {
        let profile = job.profile().expect("valid job");
        let balanced = job.assignments_per_rank();
        for pass in PASSES {
            let whole =
                profile.time(Component::Expert, pass) + profile.time(Component::SharedExpert, pass);
            let found = profile.expert_time(pass, balanced);
            assert!(found.ps().abs_diff(whole.ps()) <= 1);
            assert!(profile.expert_time(pass, 2 * balanced) > found);
            // Idle experts still read their weights, and shared experts still compute.
            assert!(profile.expert_time(pass, 0) > Time::ZERO);
            assert!(profile.expert_time(pass, 0) < found);
        }
    }
}

#[test]
fn measured_times_replace_the_roofline_and_scale() {
    let mut job = example::mixtral_8x7b();
    job.compute.measured = vec![
        measured(Component::Expert, Pass::Forward, 8, 100),
        measured(Component::Attention, Pass::Forward, 2, 10),
        measured(Component::Attention, Pass::Forward, 12, 30),
        measured(Component::Gate, Pass::Backward, 8, 7),
    ];
    let expect = |component, pass, ms, origin| {
        let (time, found) = line(&job, component, pass);
        assert!(time.ps().abs_diff(Time::from_ms(ms).ps()) <= 1, "{component:?} {time}");
        assert_eq!(found, origin, "{component:?} {pass:?}");
    };
    expect(Component::Expert, Pass::Forward, 100, Origin::Measured);
    expect(Component::Expert, Pass::Backward, 200, Origin::Scaled);
    expect(Component::Attention, Pass::Forward, 20, Origin::Scaled);
    expect(Component::Attention, Pass::Backward, 40, Origin::Scaled);
    expect(Component::Gate, Pass::Backward, 7, Origin::Measured);
    assert_eq!(line(&job, Component::Gate, Pass::Forward).1, Origin::Roofline);
    assert_eq!(line(&job, Component::Head, Pass::Forward).1, Origin::Scaled);
    // The expert's time follows the most loaded rank.
    let profile = job.profile().expect("valid job");
    let hot = profile.expert_time(Pass::Forward, 3 * job.assignments_per_rank());
    assert!(hot.ps().abs_diff(Time::from_ms(300).ps()) <= 1);
}

/// A table of some matrix products says how fast the GPU multiplies; what is bound by memory stays.
#[test]
fn products_that_are_not_given_are_as_slow_as_those_that_are() {
    for mut job in [example::mixtral_8x7b(), example::deepseek_r1()] {
        let roofline = job.profile().expect("valid job");
        let expert = roofline.time(Component::Expert, Pass::Forward);
        let given = Measured {
            component: Component::Expert,
            pass: Pass::Forward,
            micro_batch: job.training.micro_batch,
            time_ps: 7 * expert.ps(),
            origin: Origin::Given,
        };
        job.compute.measured = vec![given];
        let scaled = job.profile().expect("valid job");
        for at in roofline.origins() {
            let (time, origin) = line(&job, at.component, at.pass);
            let ratio = time.as_secs_f64() / at.time.as_secs_f64();
            match at.component {
                Component::Embedding | Component::Gate | Component::Optimizer => {
                    assert_eq!((time, origin), (at.time, Origin::Roofline));
                }
                Component::Expert => assert!((ratio - 7.0).abs() < 1e-6),
                _ => {
                    assert_eq!(origin, Origin::Scaled);
                    assert!((ratio - 7.0).abs() < 1e-6, "{:?} {ratio}", at.component);
                }
            }
        }
        // Experts that are given a multiple are slower by it for every load.
        let hot = 3 * job.assignments_per_rank();
        let shared = Component::SharedExpert;
        for pass in PASSES {
            let alone =
                |profile: &Profile| profile.expert_time(pass, hot) - profile.time(shared, pass);
            let ratio = alone(&scaled).as_secs_f64() / alone(&roofline).as_secs_f64();
            assert!((ratio - 7.0).abs() < 1e-3, "{ratio}");
        }
    }
}

#[test]
fn impossible_tables_are_named() {
    type Change = fn(&mut Compute);
    let message = |change: Change| {
        let mut job = example::mixtral_8x7b();
        change(&mut job.compute);
        job.profile().unwrap_err().to_string()
    };
    let cases: [(Change, &str); 7] = [
        (|c| c.peak_flops = 0, "compute.peak_flops = 0: must be above 0"),
        (|c| c.peak_flops = 1, "compute.peak_flops = 1: one "),
        (|c| c.matmul_efficiency = f64::NAN, "compute.matmul_efficiency = NaN: must be above"),
        (|c| c.memory_efficiency = 1.5, "compute.memory_efficiency = 1.5: must be above"),
        (|c| c.memory_efficiency = 1e-300, "compute.peak_flops = 989000000000000: one "),
        (
            |c| c.measured = vec![measured(Component::Head, Pass::Forward, 0, 1)],
            "compute.measured[0].micro_batch = 0: must be between 1 and",
        ),
        (
            |c| c.measured = vec![measured(Component::Head, Pass::Forward, 8, 1); 2],
            "compute.measured[1].micro_batch = 8: there is already a forward time of \"head\"",
        ),
    ];
    for (change, start) in cases {
        let found = message(change);
        assert!(found.starts_with(start), "{found}");
    }
}
