//! A collective that is run by itself: its task graph, from an algorithm, a demand or a program.

use crate::error::SimError;
use crate::spec::CollectiveWork;
use lightloom_units::Bytes;
use lightloom_workload::collective::{Algorithm, LARGEST, MOST_NODES, Primitive};
use lightloom_workload::{Gating, Message, TaskGraph, all_to_all, messages, steps, sum};

/// All pairs of an all-to-all at once.
pub const DIRECT: &str = "direct";
/// An all-reduce as jobs sum gradients: inside servers, around rings between them, inside again.
pub const HIERARCHICAL: &str = "hierarchical";
/// The messages of a program.
pub const PROGRAM: &str = "program";

/// What a collective sends, beside its specification.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// What its algorithm says; directly, the same to everyone.
    Nothing,
    /// Bytes from each rank (row) to each (column), for an all-to-all at once.
    Matrix(&'a [u64]),
    /// Messages, and of which each waits for others: (before, after).
    Program(&'a [Message], &'a [(u32, u32)]),
}

/// The parts of a workload.
pub(crate) struct Parts {
    pub graph: TaskGraph,
    pub gating: Gating,
    pub notes: Vec<String>,
}

fn refused<T>(message: String) -> Result<T, SimError> {
    Err(SimError::Input(message))
}

impl CollectiveWork {
    pub(crate) fn parts(&self, given: Given<'_>) -> Result<Parts, SimError> {
        let (n, size) = (self.ranks, Bytes::new(self.size_bytes));
        if !(2..=MOST_NODES).contains(&n) {
            return refused(format!("cluster.gpus = {n}: must be from 2 to {MOST_NODES} ranks"));
        }
        if size == Bytes::ZERO || size > LARGEST {
            return refused(format!("collective.size = {size}: must be from 1 B to {LARGEST}"));
        }
        let nobody = || Gating::given(1, vec![0]);
        match (self.algorithm.as_str(), given) {
            (DIRECT, Given::Nothing) => {
                self.of(Primitive::AllToAll, "collective.algorithm")?;
                let gating = Gating::given(n, vec![1; (n * n) as usize]);
                let block = size.get().div_ceil(n.into());
                Ok(Parts { graph: all_to_all(block), gating, notes: vec![] })
            }
            (HIERARCHICAL, Given::Nothing) => {
                self.of(Primitive::AllReduce, "collective.algorithm")?;
                Ok(Parts { graph: sum(size.get()), gating: nobody(), notes: vec![] })
            }
            (DIRECT, Given::Matrix(bytes)) => {
                self.of(Primitive::AllToAll, "collective.matrix")?;
                let (unit, tokens) = in_units(n, bytes)?;
                let gating = Gating::given(n, tokens);
                Ok(Parts { graph: all_to_all(unit), gating, notes: vec![] })
            }
            (PROGRAM, Given::Program(sent, waits)) => {
                if let Some(message) = sent.iter().find(|m| m.0.max(m.1) >= n || m.0 == m.1) {
                    let (from, to, _) = message;
                    return refused(format!("program: rank {from} sends to {to} of {n} ranks"));
                }
                let graph = messages(sent, waits)
                    .map_err(|deadlock| SimError::Input(format!("program: {deadlock}")))?;
                Ok(Parts { graph, gating: nobody(), notes: vec![] })
            }
            (name, Given::Nothing) if name != PROGRAM => {
                let wrong = |why: String| format!("collective.algorithm = \"{name}\": {why}");
                let algorithm: Algorithm = name.parse().or_else(|_| {
                    let allowed = names(self.primitive, n).join(", ");
                    refused(wrong(format!("no such algorithm; allowed: {allowed}")))
                })?;
                self.of(algorithm.primitive(), "collective.algorithm")?;
                let built = algorithm.build(n, size).or_else(|error| {
                    let allowed = names(self.primitive, n).join(", ");
                    refused(wrong(format!("{error}; allowed: {allowed}")))
                })?;
                let graph = steps(&built);
                let mut notes = Vec::new();
                if graph.messages.len() > n as usize * graph.len() / 2 && graph.len() > 1 {
                    notes.push(format!(
                        "{} messages: each step waits for everyone, not each rank for its own",
                        graph.messages.len()
                    ));
                }
                Ok(Parts { graph, gating: nobody(), notes })
            }
            (name, Given::Matrix(_)) => refused(format!(
                "collective.algorithm = \"{name}\": a matrix is sent by all pairs at once; allowed: \
                 \"{DIRECT}\""
            )),
            (name, _) => refused(format!("collective.algorithm = \"{name}\": is of a program")),
        }
    }

    /// Whether it is for what is asked.
    fn of(&self, primitive: Primitive, key: &str) -> Result<(), SimError> {
        if primitive == self.primitive {
            return Ok(());
        }
        let value = if key == "collective.matrix" { "given" } else { &self.algorithm };
        refused(format!(
            "{key} = \"{value}\": is of {}, not of {}; allowed: {}",
            primitive.name(),
            self.primitive.name(),
            names(self.primitive, self.ranks).join(", ")
        ))
    }
}

/// What a primitive can be run by on so many ranks.
pub fn names(primitive: Primitive, ranks: u32) -> Vec<String> {
    let whole = match primitive {
        Primitive::AllToAll => Some(DIRECT.to_owned()),
        Primitive::AllReduce => Some(HIERARCHICAL.to_owned()),
        _ => None,
    };
    let fits = |a: &Algorithm| a.primitive() == primitive && a.build(ranks, Bytes::new(1)).is_ok();
    let all = Algorithm::all().filter(fits).map(|a| a.to_string());
    whole.into_iter().chain(all).collect()
}

/// A matrix in units of its greatest common divisor.
fn in_units(ranks: u32, bytes: &[u64]) -> Result<(u64, Vec<u32>), SimError> {
    let size = ranks as usize;
    if bytes.len() != size * size {
        return refused(format!("matrix: {} entries: must be {ranks} x {ranks}", bytes.len()));
    }
    let at = |index: usize| (index / size, index % size);
    let off = |index: &usize| at(*index).0 != at(*index).1;
    let total = (0..bytes.len()).filter(off).try_fold(0u64, |sum, i| sum.checked_add(bytes[i]));
    if !total.is_some_and(|total| (1..=LARGEST.get()).contains(&total)) {
        return refused(format!("matrix: must hold 1 B to {LARGEST} between ranks"));
    }
    let unit = bytes.iter().fold(0, |unit, &entry| gcd(unit, entry)).max(1);
    let in_units = |(index, &entry): (usize, &u64)| {
        let (row, column) = at(index);
        u32::try_from(entry / unit).map_err(|_| {
            SimError::Input(format!(
                "matrix: [{row}][{column}] = {entry} B: must be below {} B, as all entries are \
                 multiples of {unit} B only",
                unit << 32
            ))
        })
    };
    Ok((unit, bytes.iter().enumerate().map(in_units).collect::<Result<_, _>>()?))
}

pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
