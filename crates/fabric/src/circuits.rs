//! The state of an optical switch: which of its ports are joined.
//!
//! Modelled: ports that send and receive, joined two by two, both ways; a port is joined to at most
//! one other. Ignored: circuits of one direction, loss, how long a change takes.
//! Checked: what is not legal is refused.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// No optical switch has more ports.
pub const MOST_PORTS: u32 = 4096;

/// A circuit that an optical switch cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CircuitError {
    /// There is no such port.
    #[error("port {port}: the switch has ports 0 to {}", ports.saturating_sub(1))]
    NoPort {
        /// The port that was asked for.
        port: u32,
        /// How many there are.
        ports: u32,
    },
    /// A port would be in two circuits, or in one with itself.
    #[error("port {0} is in two circuits; a port holds one")]
    Taken(u32),
    /// More ports than a switch has.
    #[error("{0} ports: a switch has at most {MOST_PORTS}")]
    TooLarge(u32),
}

/// A legal state of an optical switch. Its JSON names the ports and the pairs that are joined.
///
/// ```
/// use lightloom_fabric::CrossConnect;
/// let state = CrossConnect::new(8, [(0, 3), (2, 5)]).unwrap();
/// assert_eq!(state.pairs().collect::<Vec<_>>(), [(0, 3), (2, 5)]);
/// let json = serde_json::to_string(&state).unwrap();
/// assert_eq!(json, r#"{"ports":8,"pairs":[[0,3],[2,5]]}"#);
/// assert_eq!(serde_json::from_str::<CrossConnect>(&json).unwrap(), state);
///
/// let message = CrossConnect::new(8, [(0, 3), (5, 3)]).unwrap_err().to_string();
/// assert_eq!(message, "port 3 is in two circuits; a port holds one");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct CrossConnect {
    mates: Vec<Option<u32>>,
}

impl CrossConnect {
    /// A switch of `ports` ports that holds the circuits `pairs`.
    ///
    /// # Errors
    /// A port that the switch has not, one that would be joined twice or to itself, or more than
    /// 4096 ports.
    pub fn new(
        ports: u32,
        pairs: impl IntoIterator<Item = (u32, u32)>,
    ) -> Result<Self, CircuitError> {
        if ports > MOST_PORTS {
            return Err(CircuitError::TooLarge(ports));
        }
        let mut state = CrossConnect { mates: vec![None; ports as usize] };
        for (a, b) in pairs {
            state.join(a, b)?;
        }
        Ok(state)
    }
    /// How many ports the switch has.
    pub fn ports(&self) -> u32 {
        self.mates.len() as u32
    }
    /// The circuits, by their lower port, which comes first.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let joined = |(port, mate): (usize, &Option<u32>)| Some((port as u32, (*mate)?));
        self.mates.iter().enumerate().filter_map(joined).filter(|(a, b)| a < b)
    }

    fn join(&mut self, a: u32, b: u32) -> Result<(), CircuitError> {
        let ports = self.ports();
        for (port, mate) in [(a, b), (b, a)] {
            let held =
                self.mates.get_mut(port as usize).ok_or(CircuitError::NoPort { port, ports })?;
            if a == b || held.replace(mate).is_some() {
                return Err(CircuitError::Taken(port));
            }
        }
        Ok(())
    }
}

/// A state as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    ports: u32,
    pairs: Vec<(u32, u32)>,
}

impl From<CrossConnect> for Written {
    fn from(state: CrossConnect) -> Self {
        Written { ports: state.ports(), pairs: state.pairs().collect() }
    }
}

impl TryFrom<Written> for CrossConnect {
    type Error = CircuitError;
    fn try_from(written: Written) -> Result<Self, CircuitError> {
        CrossConnect::new(written.ports, written.pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_switch_can_hold_is_refused() {
        let of = |ports, pairs: &[(u32, u32)]| CrossConnect::new(ports, pairs.iter().copied());
        assert_eq!(of(4, &[(0, 4)]), Err(CircuitError::NoPort { port: 4, ports: 4 }));
        assert_eq!(of(4, &[(1, 1)]), Err(CircuitError::Taken(1)));
        assert_eq!(of(4, &[(0, 1), (2, 0)]), Err(CircuitError::Taken(0)));
        assert_eq!(of(4097, &[]), Err(CircuitError::TooLarge(4097)));
        let doubled = r#"{"ports":4,"pairs":[[0,1],[1,2]]}"#;
        let message = serde_json::from_str::<CrossConnect>(doubled).expect_err("twice").to_string();
        assert_eq!(message, "port 1 is in two circuits; a port holds one");
    }
}
