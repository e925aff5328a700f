//! How packets find their way over a topology of RailX (Section 4.1).

mod minimal;
mod table;

pub use minimal::Minimal;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::railx::{Topology, channel_loads, throughput};
    use lightloom_fabric::railx::Grid;
    use lightloom_fabric::routers::{ChannelKind, RailxLinks, railx};

    /// The bounds of readings under Algorithm 1, at m = 4 and n = 2: rails carry 0.890 of a load of 1.
    #[test]
    fn loads_of_the_hyperx_of_1296_chips() {
        let topology = Topology::hyperx(Grid::new(4, 2, 128, 9, 9)).expect("nine nodes a line");
        let routing = Minimal::new(&topology, 1).expect("three classes");
        for (inside_width, bound) in [(1, 0.36), (2, 0.72), (4, 1.12), (8, 1.12)] {
            let links = RailxLinks { inside_width, ..RailxLinks::default() };
            let network = railx(&topology.layout, links);
            let loads = channel_loads(&network, &routing).expect("every packet arrives");
            let worst = |kind| {
                let of = network.channels().iter().zip(&loads).filter(|(c, _)| c.kind == kind);
                of.map(|(_, load)| *load).fold(0.0, f64::max)
            };
            assert!((worst(ChannelKind::Long) - 0.890).abs() < 0.001);
            assert!((worst(ChannelKind::Short) - 2.78).abs() < 0.01);
            assert!((throughput(&network, &loads) - bound).abs() < 0.005);
        }
    }
}
