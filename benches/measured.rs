//! What examples measure of themselves. They take it in by `#[path]`.

use std::fmt::Write;

/// FNV-1a of what is written to it.
struct Digest(u64);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

/// Of how something is printed.
pub fn digest(what: impl std::fmt::Debug) -> u64 {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    write!(digest, "{what:?}").expect("a digest takes everything");
    digest.0
}

/// CPU seconds of all threads of this process that are alive, and of those that were; 0 where the system
/// does not say.
pub fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

/// The most memory that this process has had \[MB\]; 0 where the system does not say.
pub fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|kb| kb.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
