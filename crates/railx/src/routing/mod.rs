//! How packets find their way over a topology of RailX (Section 4.1).

mod adaptive;
mod chips;
mod crossing;
mod dragonfly;
mod dragonfly_adaptive;
mod minimal;
mod nonminimal;
mod rounds;
mod table;

pub use adaptive::Adaptive;
pub use chips::ChipTorus;
pub use crossing::{NodeRoutes, RailEnd};
pub use dragonfly::Dragonfly;
pub use dragonfly_adaptive::AdaptiveDragonfly;
pub use minimal::Minimal;
pub use nonminimal::NonMinimal;

use crate::topology::{Form, Topology};
use lightloom_fabric::routers::Routing;

/// The names that [`select`] knows.
pub const ROUTINGS: [&str; 4] = ["deterministic", "adaptive", "non-minimal", "bubble"];

/// A routing function by name, with at most `vcs` virtual channels at a port.
///
/// `deterministic` is straight on along the chips of a torus, local-global-local on a dragonfly,
/// Algorithm 1 on all else. `non-minimal` and `bubble` make up to three free hops: one astray, and
/// one in either dimension; on a dragonfly one hop astray, to another group. Virtual channels beyond what is needed go evenly to all classes.
///
/// ```
/// use lightloom_fabric::railx::Grid;
/// use lightloom_railx::{Topology, select};
/// let topology = Topology::hyperx(Grid::new(4, 2, 128, 9, 9)).unwrap();
/// assert_eq!(select(&topology, "deterministic", 7).unwrap().vcs(), 6); // three classes of two
/// let message = select(&topology, "adaptive", 2).err().unwrap();
/// assert_eq!(message, "vcs = 2: adaptive routing on this topology is free of deadlock from 3 on");
/// ```
///
/// # Errors
/// An unknown name, a topology for which there is no such routing, or too few virtual channels:
/// the message says which are known, or how many are needed.
pub fn select(topology: &Topology, name: &str, vcs: u8) -> Result<Box<dyn Routing + Send>, String> {
    let vcs = vcs.min(16);
    let enough = |needed: u32| match u32::from(vcs) / needed {
        _ if needed > 16 => Err(format!(
            "routing = \"{name}\": takes {needed} virtual channels on this topology; at most 16 are \
             possible"
        )),
        0 => Err(format!(
            "vcs = {vcs}: {name} routing on this topology is free of deadlock from {needed} on"
        )),
        each => Ok(each as u8),
    };
    let refused = |reason: String| format!("routing = \"{name}\": {reason}");
    // One hop astray, and what corrects both dimensions.
    let free = |of_class: u32| -> Result<Box<dyn Routing + Send>, String> {
        let classes = enough(of_class)?.min(4);
        let each = vcs / (classes * of_class as u8);
        let made = NonMinimal::new(topology, classes - 1, of_class == 1, each);
        Ok(Box::new(made.map_err(refused)?))
    };
    Ok(match name {
        "deterministic" if topology.form == Form::Dragonfly => {
            let each = enough(Dragonfly::CLASSES.into())?;
            Box::new(Dragonfly::new(topology, each).map_err(refused)?)
        }
        "deterministic" if ChipTorus::suits(topology) => {
            let each = enough(ChipTorus::CLASSES.into())?;
            Box::new(ChipTorus::new(topology, each).map_err(refused)?)
        }
        "deterministic" => {
            let each = enough(Minimal::classes(topology).map_err(refused)?)?;
            Box::new(Minimal::new(topology, each).map_err(refused)?)
        }
        "adaptive" | "non-minimal" if topology.form == Form::Dragonfly => {
            let astray = name == "non-minimal";
            let each = enough(AdaptiveDragonfly::classes(astray).into())?;
            Box::new(AdaptiveDragonfly::new(topology, astray, each).map_err(refused)?)
        }
        "adaptive" => {
            let each = enough(Adaptive::classes(topology).map_err(refused)?)?;
            Box::new(Adaptive::new(topology, each).map_err(refused)?)
        }
        "non-minimal" => free(2)?,
        "bubble" => free(1)?,
        _ => {
            let allowed = ROUTINGS.join(", ");
            return Err(format!("routing = \"{name}\": is not known; allowed: {allowed}"));
        }
    })
}

#[cfg(test)]
mod tests;
