//! What can be wrong with a fabric's specification, or with a question to a fabric.

use crate::ids::{GpuId, NicId, ServerId};
use lightloom_units::kind::Form;
use lightloom_units::{BitRate, Time};
use std::fmt::Display;

/// A value of the specification that no fabric can be built from.
///
/// The message is `key = value: reason`, with the key as in the TOML specification and a reason that
/// says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {reason}")]
pub struct FabricError {
    /// The key, such as `fabric.eps.radix`.
    pub key: String,
    /// The value that was given.
    pub value: String,
    /// What is wrong with it, and what is allowed.
    pub reason: String,
}

/// The slowest and the fastest link; the sum over a largest cluster fits 64 bits.
const RATES: [BitRate; 2] = [BitRate::from_bps(1_000_000), BitRate::from_gbps(10_000)];
const LONGEST_DELAY: Time = Time::from_ms(1_000);
/// What a key may be that is the rate of a link.
pub(crate) const LINK_RATE: Form = Form::Rate { min: RATES[0].bps(), max: RATES[1].bps() };
/// What a key may be that is the delay of a link.
pub(crate) const DELAY: Form = Form::Time { min: 0, max: LONGEST_DELAY.ps() };

impl FabricError {
    /// The value of a key will not do; the reason says what is allowed.
    pub fn new(key: &str, value: impl Display, reason: impl Into<String>) -> Self {
        FabricError { key: key.into(), value: value.to_string(), reason: reason.into() }
    }
    /// Whether the value of a key can be the rate of a link.
    ///
    /// # Errors
    /// What is allowed.
    pub fn check_rate(key: &str, rate: BitRate) -> Result<(), Self> {
        Self::check_between(key, rate, RATES)
    }
    /// Inside a server rates may be ten times as high: nothing adds them up over a cluster.
    pub(crate) fn check_scale_up(key: &str, rate: BitRate) -> Result<(), Self> {
        let [least, most] = RATES;
        Self::check_between(key, rate, [least, BitRate::from_bps(10 * most.bps())])
    }
    fn check_between(key: &str, rate: BitRate, [least, most]: [BitRate; 2]) -> Result<(), Self> {
        match (least..=most).contains(&rate) {
            true => Ok(()),
            false => Err(Self::new(key, rate, format!("must be from {least} to {most}"))),
        }
    }
    /// Whether a packet switch can have so many ports.
    pub(crate) fn check_switch_ports(ports: u32) -> Result<(), Self> {
        match (2..=4096).contains(&ports) {
            true => Ok(()),
            false => Err(Self::new("fabric.switch_ports", ports, "must be from 2 to 4096")),
        }
    }
    /// Whether the value of a key can be the delay of a link.
    ///
    /// # Errors
    /// What is allowed.
    pub fn check_delay(key: &str, delay: Time) -> Result<(), Self> {
        match delay <= LONGEST_DELAY {
            true => Ok(()),
            false => Err(Self::new(key, delay, format!("must be at most {LONGEST_DELAY}"))),
        }
    }
}

/// Why there is no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The cluster has no such GPU.
    #[error("no GPU {}: the cluster has {gpus}", gpu.0)]
    UnknownGpu {
        /// The GPU that was asked for.
        gpu: GpuId,
        /// How many there are.
        gpus: u32,
    },
    /// The cluster has no such NIC.
    #[error("no NIC {}: the cluster has {nics}", nic.0)]
    UnknownNic {
        /// The NIC that was asked for.
        nic: NicId,
        /// How many there are.
        nics: u32,
    },
    /// The NIC is wired to an optical switch or a patch panel, not to packet switches.
    #[error("NIC {} is not on the packet fabric", nic.0)]
    NotOnPacketFabric {
        /// The NIC that was asked for.
        nic: NicId,
    },
    /// The circuits or links that are wired do not join the two servers.
    #[error("no path from server {} to server {}", from.0, to.0)]
    NoPath {
        /// The server that sends.
        from: ServerId,
        /// The server that receives.
        to: ServerId,
    },
}
