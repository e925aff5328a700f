//! Plants each bug in controller, agents and data planes, and prints which invariants find it, as the
//! table of docs/soak.md: `mutants COUNT MOST [NAME ...]` runs COUNT scenarios with each, and up to MOST
//! until one finds it.

use lightloom_control::planted::Planted;
use lightloom_soak::hunt;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default| args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let (count, most) = (number(0, 1_000), number(1, 10_000));
    let named = args.get(2..).unwrap_or_default();
    println!("| Bug | What it does | Invariants that find it | First seed | Found by |");
    println!("|---|---|---|---|---|");
    let wanted = |bug: &&Planted| named.is_empty() || named.contains(&format!("{bug:?}"));
    let mut missed = 0;
    for bug in Planted::ALL.iter().filter(wanted) {
        let hunt = hunt(*bug, 0, count, most);
        missed += u64::from(hunt.first.is_none());
        println!("{hunt}");
        hunt.first.iter().for_each(|failure| eprintln!("{bug:?}: {failure}"));
    }
    std::process::exit(i32::from(missed > 0));
}
