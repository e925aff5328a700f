//! Plants each bug in all endpoints, and prints which invariants find it: `exchange_mutants COUNT MOST [NAME ...]`
//! runs COUNT scenarios with each, and up to MOST until one finds it.

#[path = "../tests/world/mod.rs"]
mod world;

use lightloom_runtime::planted::Planted;
use std::collections::BTreeMap;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default| args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let (count, most): (u64, u64) = (number(0, 200), number(1, 10_000));
    let named = args.get(2..).unwrap_or_default();
    println!("| Bug | What it does | Invariants that find it | First seed | Found by |");
    println!("|---|---|---|---|---|");
    let mut missed = 0;
    for &bug in
        Planted::ALL.iter().filter(|it| named.is_empty() || named.contains(&format!("{it:?}")))
    {
        let (mut seeds, mut first, mut broken) = (0, None, BTreeMap::<&str, u64>::new());
        while seeds < count || first.is_none() && seeds < most {
            if let Some(found) = world::run(seeds, Some(bug), false).1 {
                first.get_or_insert(seeds);
                *broken.entry(found.invariant).or_default() += 1;
            }
            seeds += 1;
        }
        let found: u64 = broken.values().sum();
        let names: Vec<String> = broken.keys().map(|name| format!("`{name}`")).collect();
        let first_ = first.map_or("-".into(), |seed: u64| seed.to_string());
        println!(
            "| {bug:?} | {} | {} | {first_} | {found} of {seeds} |",
            bug.does(),
            names.join(", ")
        );
        missed += i32::from(first.is_none());
    }
    println!("\nInvariants:");
    world::INVARIANTS.iter().for_each(|(name, says)| println!("- `{name}`: {says}"));
    std::process::exit(i32::from(missed > 0));
}
