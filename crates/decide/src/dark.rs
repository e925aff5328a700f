//! How long ports are dark when circuits change, on average: what a change is weighed by.

use lightloom_fabric::{ActivationDelay, ReconfigurationDelay};
use lightloom_units::Time;

/// The delays of an optical switch and of the NICs behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Dark {
    /// From the command until light returns.
    pub switch: ReconfigurationDelay,
    /// From light until the NIC works again.
    pub activation: Time,
}

impl Dark {
    /// Of a switch whose NICs start anew unless their transceivers loop their light back.
    pub fn new(switch: ReconfigurationDelay, activation: &ActivationDelay, loopback: bool) -> Self {
        let activation = match *activation {
            _ if loopback => Time::ZERO,
            ActivationDelay::Fixed { ps } => ps,
            ActivationDelay::Lognormal { mean_ps, .. } => mean_ps,
        };
        Dark { switch, activation }
    }

    /// The mean dark time if so many circuits are new.
    ///
    /// ```
    /// use lightloom_decide::Dark;
    /// use lightloom_fabric::{ActivationDelay, ReconfigurationDelay};
    /// use lightloom_units::Time;
    /// let switch = ReconfigurationDelay::Fixed { ps: Time::from_ms(25) };
    /// let nics = ActivationDelay::Fixed { ps: Time::from_ms(5) };
    /// assert_eq!(Dark::new(switch.clone(), &nics, false).expected(3), Time::from_ms(30));
    /// assert_eq!(Dark::new(switch, &nics, true).expected(3), Time::from_ms(25));
    /// ```
    pub fn expected(&self, circuits: u32) -> Time {
        let switch = match &self.switch {
            ReconfigurationDelay::Fixed { ps } => *ps,
            ReconfigurationDelay::Lognormal { pairs, mean_ps, .. } => {
                Time::from_ps(interpolate(pairs, mean_ps, circuits).round() as u64)
            }
        };
        switch.saturating_add(self.activation)
    }
}

/// The value at `x` of what was measured `at` rising points \[ps\]; held beyond the first and the last.
pub fn interpolate(at: &[u32], values: &[Time], x: u32) -> f64 {
    let value = |i: usize| values[i].ps() as f64;
    let above = at.partition_point(|&p| p < x);
    match above {
        0 => value(0),
        n if n == at.len() => value(n - 1),
        n => {
            let (low, high) = (f64::from(at[n - 1]), f64::from(at[n]));
            value(n - 1) + (value(n) - value(n - 1)) * (f64::from(x) - low) / (high - low)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_interpolated_and_held_at_the_ends() {
        let (at, values) = ([1, 4, 16], [10, 20, 44].map(Time::from_ps));
        let known = [(0, 10.0), (1, 10.0), (2, 40.0 / 3.0), (4, 20.0), (10, 32.0), (99, 44.0)];
        for (pairs, value) in known {
            assert!((interpolate(&at, &values, pairs) - value).abs() < 1e-9);
        }
    }
}
