//! Runs scenarios of the exchange among faults: `exchange_soak FIRST COUNT` goes on after broken invariants and
//! counts them, `exchange_soak SEED` prints one trace.

#[path = "../tests/world/mod.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default)]
struct All {
    scenarios: u64,
    steps: u64,
    simulated_s: f64,
    /// In how many scenarios, and how often.
    happened: BTreeMap<&'static str, (u64, u64)>,
    broken: BTreeMap<&'static str, u64>,
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().unwrap_or(0));
    let (first, count) = (args.next().unwrap_or(0), args.next());
    let Some(count) = count else {
        let (world, broken) = world::run(first, None, true);
        return println!("{:?}\n{broken:?}", world.happened);
    };
    let (next, all, began) =
        (AtomicU64::new(0), Mutex::new(All::default()), std::time::Instant::now());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(first, count, &next, &all));
        }
    });
    let all = all.into_inner().expect("no thread has panicked");
    println!(
        "{} scenarios, {} steps, {:.0} s simulated",
        all.scenarios, all.steps, all.simulated_s
    );
    println!("{} s on {threads} threads", began.elapsed().as_secs());
    for (what, (scenarios, times)) in &all.happened {
        println!("{what}: {times} in {scenarios} scenarios");
    }
    println!("broken: {:?}", all.broken);
    std::process::exit(i32::from(!all.broken.is_empty()));
}

fn work(first: u64, count: u64, next: &AtomicU64, all: &Mutex<All>) {
    loop {
        let at = next.fetch_add(1, Relaxed);
        if at >= count {
            return;
        }
        let (world, broken) = world::run(first + at, None, false);
        let mut all = all.lock().expect("no thread has panicked");
        if let Some(broken) = broken {
            let times = all.broken.entry(broken.invariant).or_default();
            *times += 1;
            if *times <= 3 {
                println!("seed {}, step {}: {broken:?}", first + at, world.steps);
            }
        }
        all.scenarios += 1;
        all.steps += world.steps;
        all.simulated_s += world.now.as_secs_f64();
        for (&what, &times) in &world.happened {
            let entry = all.happened.entry(what).or_default();
            *entry = (entry.0 + 1, entry.1 + times);
        }
    }
}
