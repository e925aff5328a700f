//! Runs scenarios: `soak FIRST COUNT` goes on after broken invariants, counts them and exits with 1 if there are any;
//! `soak SEED` prints one trace.

use lightloom_soak::{Summary, run, trace};

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().unwrap_or(0));
    let (first, count) = (args.next().unwrap_or(0), args.next());
    let Some(count) = count else {
        let (lines, result) = trace(first);
        lines.iter().for_each(|line| println!("{line}"));
        return println!("{:?}", result.map_err(|failure| failure.to_string()));
    };
    let mut all = Summary::default();
    let began = std::time::Instant::now();
    let mut broken: std::collections::BTreeMap<&str, (u64, u64)> = Default::default();
    for seed in first..first + count {
        match run(seed) {
            Ok(summary) => all.add(&summary),
            Err(failure) => {
                let entry = broken.entry(failure.invariant.name).or_default();
                entry.0 += 1;
                if entry.0 <= 3 {
                    println!("{failure}");
                }
            }
        }
    }
    println!("{all:#?}\n{:?}\n{:?}", broken, began.elapsed());
    std::process::exit(i32::from(!broken.is_empty()));
}
