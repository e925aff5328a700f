//! Prints how many chunks LPT deals a second on one thread: one node's decision for 1 GiB over 8 rails,
//! a line of JSON for each kind of messages.
//!
//! `cargo run --release -p lightloom-rails --example lpt`

use lightloom_rails::{Lpt, Message};
use std::hint::black_box;
use std::time::{Duration, Instant};

const CHUNK: u64 = 32 << 10;
const NODE: u64 = 1 << 30;

fn main() {
    let (gpus, domains) = (8u32, 16u32);
    let pairs = u64::from(gpus * (domains - 1) * gpus);
    // From every GPU to every GPU of the other domains, in the order of GPUs.
    let of = |bytes: &dyn Fn(u64) -> u64| -> Vec<Message> {
        (0..pairs)
            .map(|at| Message {
                bytes: bytes(at),
                destination: at as u32 / gpus % (domains - 1) + 1,
                source: at as u32 / (gpus * (domains - 1)),
                receiver: at as u32 % gpus,
            })
            .collect()
    };
    let share = NODE / pairs;
    let whole = share / CHUNK * CHUNK;
    for (name, messages) in [
        ("whole chunks", of(&|_| whole)),
        ("with rests", of(&|_| share)),
        ("skewed", of(&|at| 2 * share * (at * 7919 % pairs) / pairs)),
        ("rests only", of(&|at| 1 + (at * 7919) % (CHUNK - 1))),
    ] {
        let mut lpt = Lpt::new(8);
        let (mut decisions, start) = (0u32, Instant::now());
        while start.elapsed() < Duration::from_millis(400) {
            lpt.assign(black_box(&messages), CHUNK, 0);
            lpt.rails().for_each(|rail| {
                black_box(rail);
            });
            decisions += 1;
        }
        let each = start.elapsed().as_secs_f64() / f64::from(decisions);
        let chunks = lpt.rails().count();
        println!(
            r#"{{"messages": "{name}", "chunks": {chunks}, "ms": {}, "million_chunks_per_s": {}}}"#,
            each * 1e3,
            chunks as f64 / each / 1e6
        );
    }
}
