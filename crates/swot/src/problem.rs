//! What is asked of a scheduler, and what it answers.

use lightloom_units::{BitRate, Bytes, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Parallel optical planes over the same nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planes {
    /// Planes (k), from 1 to 64.
    pub planes: u32,
    /// Rate of one node on one plane (B / k) \[bit/s\].
    pub rate_bps: BitRate,
    /// How long a plane is dark when it switches (t_r) \[ps\].
    pub reconfiguration_ps: Time,
    /// What a transmission takes beyond its bytes (alpha) \[ps\].
    pub latency_ps: Time,
}

/// One step: every node sends `volume` to its peer.
///
/// Steps that begin together, each in a configuration of its own, are one step of several
/// configurations: no barrier is between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Which configuration of a plane serves it; steps of one number are served by the same.
    pub configuration: u32,
    /// What each node sends, over all planes \[B\].
    pub volume_bytes: Bytes,
    /// Whether it may begin with the step before, and need not wait for its end.
    #[serde(default)]
    pub together: bool,
    /// Whose planes may carry it, of the dimensions of a grid.
    #[serde(default)]
    pub dimension: u32,
    /// Which part of the collective it is of. A step waits for those before it in its dimension and of
    /// its part.
    #[serde(default)]
    pub part: u32,
}

impl Step {
    /// A step that begins after the one before.
    pub fn new(configuration: u32, volume_bytes: Bytes) -> Self {
        Step { configuration, volume_bytes, together: false, dimension: 0, part: 0 }
    }

    /// The same, together with the one before.
    pub fn together(self) -> Self {
        Step { together: true, ..self }
    }
}

/// For each step the last one of its part that must have ended before it begins.
pub(crate) fn waits(steps: &[Step]) -> Vec<Option<u32>> {
    // Of each part, the last step and the one that it waits for.
    let mut parts: BTreeMap<u32, (u32, Option<u32>)> = BTreeMap::new();
    let one = |(s, step): (u32, &Step)| {
        let before = parts.get(&step.part);
        let waits =
            before.and_then(|&(last, waits)| if step.together { waits } else { Some(last) });
        parts.insert(step.part, (s, waits));
        waits
    };
    (0..).zip(steps).map(one).collect()
}

/// When steps may begin, and when all have ended.
#[derive(Default)]
pub(crate) struct Barriers {
    /// By dimension and by part, when all steps so far have ended.
    dimensions: BTreeMap<u32, Time>,
    parts: BTreeMap<u32, Time>,
    begun: Time,
}

impl Barriers {
    /// When a step may begin: after all before it in its dimension and of its part.
    pub fn begin(&mut self, step: &Step) -> Time {
        if !step.together {
            let end = |ends: &BTreeMap<u32, Time>, of| ends.get(&of).copied().unwrap_or_default();
            let (line, part) = (end(&self.dimensions, step.dimension), end(&self.parts, step.part));
            self.begun = line.max(part);
        }
        self.begun
    }

    /// Something of a step has ended.
    pub fn end(&mut self, step: &Step, at: Time) {
        for end in [
            self.dimensions.entry(step.dimension).or_default(),
            self.parts.entry(step.part).or_default(),
        ] {
            *end = at.max(*end);
        }
    }

    /// When all has ended.
    pub fn ended(&self) -> Time {
        self.parts.values().copied().max().unwrap_or_default()
    }
}

/// What a plane holds before the collective begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// The configuration of this index.
    Configuration(u32),
    /// Nothing that any step can use.
    Dark,
    /// Whatever is best: its first use needs no switching.
    Free,
}

/// A collective on planes.
///
/// ```
/// use lightloom_swot::{Held, Planes, Problem, Step, lockstep};
/// use lightloom_units::{BitRate, Bytes, Time};
/// // The worked example of SWOT, Section 3.1: Rabenseifner's all-reduce on two planes.
/// let planes = Planes {
///     planes: 2,
///     rate_bps: BitRate::from_gbps(400),
///     reconfiguration_ps: Time::from_us(200),
///     latency_ps: Time::ZERO,
/// };
/// let steps = [(0, 20), (1, 10), (2, 5), (2, 5), (1, 10), (0, 20)]
///     .map(|(configuration, mb)| Step::new(configuration, Bytes::new(mb * 1_000_000) ));
/// let problem = Problem::new(planes, vec![Held::Configuration(0); 2], steps.to_vec())?;
/// assert_eq!(lockstep(&problem).completion_ps, Time::from_us(1500));
/// # Ok::<(), lightloom_swot::ProblemError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    planes: Planes,
    /// How many planes each dimension of the grid has, the first ones first.
    dimensions: Vec<u32>,
    initial: Vec<Held>,
    steps: Vec<Step>,
}

/// One dimension of a grid, as a problem of its own.
pub(crate) struct Line {
    pub problem: Problem,
    /// Its planes, of all.
    pub planes: Range<u32>,
    /// Its steps, of all.
    pub steps: Vec<usize>,
}

/// Why a problem is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// No planes, or more than 64.
    #[error("planes is {0}; allowed: 1 to 64")]
    Planes(u32),
    /// A rate of nothing.
    #[error("the rate of a plane is 0; allowed: any positive rate")]
    Rate,
    /// An initial state for some other number of planes.
    #[error("the initial state names {given} planes; there are {planes}")]
    Initial {
        /// How many entries the demand has.
        given: usize,
        /// Planes that there are.
        planes: u32,
    },
    /// The collective has no steps.
    #[error("there are no steps; allowed: at least one")]
    NoSteps,
    /// A step that sends nothing.
    #[error("step {0} sends 0 bytes; allowed: at least 1")]
    Empty(usize),
    /// The first step, together with one before it.
    #[error("step 0 begins together with the step before; there is none")]
    Together,
    /// A dimension without planes, or other planes than there are.
    #[error("the dimensions have {given:?} planes; allowed: at least 1 each, {planes} in all")]
    Dimensions {
        /// Planes of each dimension.
        given: Vec<u32>,
        /// Planes that there are.
        planes: u32,
    },
    /// A step in a dimension that there is not, or together with others on a grid.
    #[error("step {step} is in dimension {dimension}; allowed: 0 to {}, and no steps together", .dimensions - 1)]
    Dimension {
        /// Index of the step, from 0.
        step: usize,
        /// Where it says it is.
        dimension: u32,
        /// Dimensions there are.
        dimensions: u32,
    },
    /// More time than a clock of 64 bits holds.
    #[error("the steps up to {0} may take longer than 2^62 ps (53 days); allowed: less")]
    TooLong(usize),
}

impl Problem {
    /// A problem, checked.
    ///
    /// # Errors
    /// [`ProblemError`]: what is wrong and what is allowed.
    pub fn new(planes: Planes, initial: Vec<Held>, steps: Vec<Step>) -> Result<Self, ProblemError> {
        Self::on_grid(planes, vec![planes.planes], initial, steps)
    }

    /// The same where nodes form a grid, and each dimension has planes of its own: the first so many are
    /// the first dimension's, and so on.
    ///
    /// # Errors
    /// [`ProblemError`]: what is wrong and what is allowed.
    pub fn on_grid(
        planes: Planes,
        dimensions: Vec<u32>,
        initial: Vec<Held>,
        steps: Vec<Step>,
    ) -> Result<Self, ProblemError> {
        if !(1..=64).contains(&planes.planes) {
            return Err(ProblemError::Planes(planes.planes));
        }
        if planes.rate_bps.bps() == 0 {
            return Err(ProblemError::Rate);
        }
        if initial.len() != planes.planes as usize {
            return Err(ProblemError::Initial { given: initial.len(), planes: planes.planes });
        }
        if steps.is_empty() {
            return Err(ProblemError::NoSteps);
        }
        if steps[0].together {
            return Err(ProblemError::Together);
        }
        let sum: u64 = dimensions.iter().map(|&own| u64::from(own)).sum();
        if dimensions.contains(&0) || sum != u64::from(planes.planes) {
            let planes = planes.planes;
            return Err(ProblemError::Dimensions { given: dimensions, planes });
        }
        let count = dimensions.len() as u32;
        for (s, &Step { dimension, together, .. }) in steps.iter().enumerate() {
            if dimension >= count || (together && count > 1) {
                return Err(ProblemError::Dimension { step: s, dimension, dimensions: count });
            }
        }
        let mut total = Time::ZERO;
        for (s, step) in steps.iter().enumerate() {
            if step.volume_bytes == Bytes::ZERO {
                return Err(ProblemError::Empty(s));
            }
            // The longest that any schedule here needs: all on one plane, switched before it.
            total = total
                .saturating_add(planes.rate_bps.time_for(step.volume_bytes))
                .saturating_add(planes.latency_ps)
                .saturating_add(planes.reconfiguration_ps);
            if total.ps() >= 1 << 62 {
                return Err(ProblemError::TooLong(s));
            }
        }
        Ok(Problem { planes, dimensions, initial, steps })
    }

    /// The same with these planes held at the beginning.
    ///
    /// # Panics
    /// If they are not as many as there are planes.
    pub fn holding(&self, initial: Vec<Held>) -> Problem {
        assert_eq!(initial.len(), self.initial.len(), "one for each plane");
        Problem { initial, ..self.clone() }
    }

    /// How many planes each dimension has; without a grid there is one.
    pub fn dimensions(&self) -> &[u32] {
        &self.dimensions
    }

    /// The planes of a dimension.
    pub fn planes_of(&self, dimension: u32) -> Range<u32> {
        let (before, own) = self.dimensions.split_at(dimension as usize);
        let first = before.iter().sum();
        first..first + own[0]
    }

    /// The dimensions of a grid, each with its planes and steps; none if there is no grid. Whatever
    /// solves this solves them: a dimension that need not wait for the others.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let line = |dimension: u32| {
            let planes = self.planes_of(dimension);
            let own = |s: &usize| self.steps[*s].dimension == dimension;
            let steps: Vec<usize> = (0..self.steps.len()).filter(own).collect();
            let flat = |&s: &usize| Step { dimension: 0, part: 0, ..self.steps[s] };
            let count = planes.end - planes.start;
            let problem = Problem {
                planes: Planes { planes: count, ..self.planes },
                dimensions: vec![count],
                initial: self.initial[planes.start as usize..planes.end as usize].to_vec(),
                steps: steps.iter().map(flat).collect(),
            };
            Line { problem, planes, steps }
        };
        let all = 0..self.dimensions.len() as u32;
        let lines = if all.len() == 1 { 0..0 } else { all };
        lines.map(line).filter(|line| !line.steps.is_empty()).collect()
    }

    /// How many planes, their rate and delays.
    pub fn planes(&self) -> Planes {
        self.planes
    }

    /// What each plane holds at the beginning.
    pub fn initial(&self) -> &[Held] {
        &self.initial
    }

    /// The steps, in order; at least one.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps, those that begin together side by side.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[Step]> {
        self.steps.chunk_by(|_, next| next.together)
    }

    /// Whether any step has several configurations.
    pub fn grouped(&self) -> bool {
        self.steps.iter().any(|step| step.together)
    }

    /// The same with a barrier between any two steps: whatever solves it solves this.
    pub(crate) fn apart(&self) -> Problem {
        let apart = |step: &Step| Step { together: false, ..*step };
        Problem { steps: self.steps.iter().map(apart).collect(), ..self.clone() }
    }
}

/// A part of a step on a plane: it starts at `start_ps`, and its last byte is there at `end_ps`,
/// `latency + bytes / rate` later, rounded up to a picosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// Index of the step, from 0.
    pub step: u32,
    /// Index of the plane, from 0.
    pub plane: u32,
    /// What each node sends there, at least 1 \[B\].
    pub bytes: Bytes,
    /// When every node starts \[ps\].
    pub start_ps: Time,
    /// When the last byte has arrived \[ps\].
    pub end_ps: Time,
}

/// A plane switching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Index of the plane, from 0.
    pub plane: u32,
    /// What it holds from `ready_ps` on.
    pub configuration: u32,
    /// When it goes dark \[ps\].
    pub start_ps: Time,
    /// When it can carry data \[ps\].
    pub ready_ps: Time,
}

/// Who carries what, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// What each plane holds at the beginning; `None` is dark, or nothing that matters.
    pub initial: Vec<Option<u32>>,
    /// By step, then plane.
    pub uses: Vec<Use>,
    /// By plane, then time.
    pub switches: Vec<Switch>,
    /// When the last byte of the last step has arrived \[ps\].
    pub completion_ps: Time,
}

/// A schedule, and how good it is known to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The best schedule found.
    pub schedule: Schedule,
    /// No schedule completes before \[ps\].
    pub bound_ps: Time,
}
