//! How long each component computes: a roofline, times by shape, or times that were measured or given.
//!
//! Modelled where all products reach a share of the peak: forward time = max(FLOPs / (peak * matmul efficiency), bytes / (bandwidth * memory
//! efficiency)) for each component as a whole; backward = twice forward (two products for each
//! one). Experts take as long as the most loaded EP rank of their block does. Every time carries
//! its origin. Times that are given for some components say how fast the GPU multiplies: the other
//! components' matrix products are slower than the roofline by the same factor
//! ([`Origin::Scaled`]), and what is bound by memory is not.
//! Ignored: kernel launches, tile quantisation, overlap of kernels, the
//! sharding of optimizer state over replicas.
//! Checked: hand-computed H100 figures, linearity of measured times, range over four models.

use crate::component::{Component, LONGEST, Origin};
use crate::error::{WorkloadError, require, within};
use crate::kernel::Kernels;
use crate::model::Work;
use crate::pipeline::Pass;
use crate::products::Products;
use lightloom_units::Time;
use serde::Deserialize;

/// A GPU and what is known of its speed on this model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// How the GPU is called in results.
    pub gpu: String,
    /// Dense matrix FLOPs per second at the activations' precision.
    pub peak_flops: u64,
    /// Memory bandwidth \[B/s\].
    pub memory_bandwidth_bytes_per_s: u64,
    /// Share of the peak that matrix products reach, in (0, 1].
    pub matmul_efficiency: f64,
    /// Share of the memory bandwidth that is reached, in (0, 1].
    pub memory_efficiency: f64,
    /// Bytes that the optimizer reads and writes for each parameter.
    pub optimizer_bytes_per_parameter: u32,
    /// Times that take the roofline's place.
    pub measured: Vec<Measured>,
    /// Matrix products by shape, and at another precision.
    #[serde(default)]
    pub products: Products,
}

/// A time that was measured, or given by a source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What was timed: one layer's component on one GPU.
    pub component: Component,
    /// In which pass.
    pub pass: Pass,
    /// At how many sequences a micro-batch; other sizes are scaled linearly.
    pub micro_batch: u32,
    /// The time with balanced experts \[ps\].
    pub time_ps: u64,
    /// [`Origin::Measured`] or [`Origin::Given`].
    pub origin: Origin,
}

impl Compute {
    /// Checks rates, shares and measured times.
    ///
    /// # Errors
    /// Names the first key that is out of range.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        for (key, rate) in [
            ("compute.peak_flops", self.peak_flops),
            ("compute.memory_bandwidth_bytes_per_s", self.memory_bandwidth_bytes_per_s),
        ] {
            require(rate > 0, key, rate, || "must be above 0".into())?;
        }
        for (key, share) in [
            ("compute.matmul_efficiency", self.matmul_efficiency),
            ("compute.memory_efficiency", self.memory_efficiency),
        ] {
            require(share > 0.0 && share <= 1.0, key, share, || {
                "must be above 0 and at most 1".into()
            })?;
        }
        self.products.validate()?;
        within(
            "compute.optimizer_bytes_per_parameter",
            self.optimizer_bytes_per_parameter,
            0..=1024,
        )?;
        for (i, entry) in self.measured.iter().enumerate() {
            let key = |field: &str| format!("compute.measured[{i}].{field}");
            within(&key("micro_batch"), entry.micro_batch, 1..=1 << 20)?;
            require(
                (1..=LONGEST.ps()).contains(&entry.time_ps),
                &key("time_ps"),
                entry.time_ps,
                || format!("must be between 1 and {}", LONGEST.ps()),
            )?;
            let twin = self.measured[..i].iter().any(|other| {
                (other.component, other.pass, other.micro_batch)
                    == (entry.component, entry.pass, entry.micro_batch)
            });
            require(!twin, &key("micro_batch"), entry.micro_batch, || {
                format!(
                    "there is already a {} time of {:?} for it",
                    entry.pass.as_str(),
                    entry.component.as_str()
                )
            })?;
        }
        Ok(())
    }

    pub(crate) fn matmul_s(&self, flops: f64) -> f64 {
        flops / (self.peak_flops as f64 * self.matmul_efficiency)
    }

    pub(crate) fn memory_s(&self, bytes: f64) -> f64 {
        bytes / (self.memory_bandwidth_bytes_per_s as f64 * self.memory_efficiency)
    }

    pub(crate) fn roofline(&self, work: Work) -> Time {
        Time::from_secs_f64(self.matmul_s(work.flops).max(self.memory_s(work.bytes)))
    }

    /// FLOPs at the peak of bf16 that take as long as these at 8 bits.
    pub(crate) fn at_bf16(&self, flops: f64) -> f64 {
        flops * self.peak_flops as f64 / self.products.peak_fp8_flops as f64
    }

    /// The time of kernels by their shapes \[s\], and where it comes from: the least certain of all.
    pub(crate) fn kernels_s(&self, all: &Kernels) -> (f64, Origin) {
        let doubt = |origin| match origin {
            Origin::Measured => 0,
            Origin::Interpolated => 1,
            Origin::Extrapolated => 2,
            _ => 3,
        };
        let mut origin = if all.kernels.is_empty() { Origin::Roofline } else { Origin::Measured };
        let mut seconds = self.memory_s(all.other_bytes) + self.launches_s(all.launches);
        for kernel in &all.kernels {
            let (time, from) = self.kernel_s(kernel);
            seconds += time;
            if doubt(from) > doubt(origin) {
                origin = from;
            }
        }
        (seconds, origin)
    }

    /// The measured time of a component, scaled to `micro_batch` from the nearest size measured
    /// (the smaller of two), or from the forward pass.
    pub(crate) fn lookup(
        &self,
        component: Component,
        pass: Pass,
        micro_batch: u32,
    ) -> Option<(Time, Origin)> {
        let nearest = self
            .measured
            .iter()
            .filter(|entry| entry.component == component && entry.pass == pass)
            .min_by_key(|e| (e.micro_batch.abs_diff(micro_batch), e.micro_batch));
        match nearest {
            Some(entry) if entry.micro_batch == micro_batch => {
                Some((Time::from_ps(entry.time_ps), entry.origin))
            }
            Some(entry) => {
                let scale = f64::from(micro_batch) / f64::from(entry.micro_batch);
                let time = Time::from_secs_f64(entry.time_ps as f64 * 1e-12 * scale);
                Some((time, Origin::Scaled))
            }
            None if pass == Pass::Backward => self
                .lookup(component, Pass::Forward, micro_batch)
                .map(|(time, _)| (twice(time), Origin::Scaled)),
            None => None,
        }
    }
}

/// The backward pass takes two products for each one of the forward pass.
pub(crate) fn twice(time: Time) -> Time {
    time.saturating_add(time)
}
