//! The terms that were issued, by port of the switch.

use serde::{Deserialize, Serialize};

/// The last terms that were issued, by port.
///
/// ```
/// use lightloom_control::fence::Terms;
/// let mut terms = Terms::new(8, 40);
/// assert_eq!(terms.claim(&[1, 2, 3]), 41);
/// assert_eq!(terms.claim(&[3, 4]), 42);
/// assert_eq!(terms.check(41, &[1, 2]), Ok(()));
/// assert_eq!(terms.check(41, &[2, 3]), Err(42));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// No term that was issued is greater.
    last: u64,
    /// By port, from port 1: the term of the last claim; 0 if there was none.
    of_port: Vec<u64>,
}

impl Terms {
    /// A switch of so many ports, of which none is claimed. Terms will be greater than `after`.
    pub fn new(ports: u16, after: u64) -> Self {
        Terms { last: after, of_port: vec![0; usize::from(ports)] }
    }

    /// Whether they can be those of a switch of so many ports.
    pub fn fit(&self, ports: u16) -> bool {
        let most = self.of_port.iter().copied().max().unwrap_or(0);
        self.of_port.len() == usize::from(ports) && most <= self.last && self.last < 1 << 62
    }

    /// Issues a term for these ports.
    pub fn claim(&mut self, ports: &[u16]) -> u64 {
        self.last += 1;
        for &port in ports {
            self.of_port[usize::from(port) - 1] = self.last;
        }
        self.last
    }

    /// Whether a term is the last of all these ports.
    ///
    /// # Errors
    /// The greatest that is another; 0 if the ports are not claimed.
    pub fn check(&self, term: u64, ports: &[u16]) -> Result<(), u64> {
        let last = ports.iter().map(|&port| self.of_port[usize::from(port) - 1]);
        last.filter(|&last| last != term).max().map_or(Ok(()), Err)
    }
}
