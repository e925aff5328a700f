//! What breaks during a run, and what is whole again: links, and the tasks that must wait.

use lightloom_fabric::LinkId;
use lightloom_units::{BitRate, Time};

/// Something that happens to the fabric, or to those who compute, at a time set beforehand.
///
/// A link that is down carries nothing; flows on it go where [`crate::Policy::displaced`] says. A
/// computation of a held task that is under way takes longer by `hold`; a held task that would start
/// earlier starts `hold` after the incident. Transfers under way go on.
///
/// ```
/// use lightloom_engine::Incident;
/// use lightloom_fabric::LinkId;
/// use lightloom_units::Time;
/// let cable = vec![LinkId(6), LinkId(7)];
/// let cut = Incident { at: Time::from_ms(3), down: cable.clone(), ..Incident::default() };
/// let spliced = Incident { at: Time::from_ms(9), up: cable, ..Incident::default() };
/// assert!(cut.at < spliced.at);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incident {
    /// When it happens.
    pub at: Time,
    /// Links that carry nothing from now on.
    pub down: Vec<LinkId>,
    /// Links that are whole again.
    pub up: Vec<LinkId>,
    /// Links that carry at another rate from now on, as bundles do of which a part breaks or heals. One
    /// that comes up without being named here has its own rate.
    pub rates: Vec<(LinkId, BitRate)>,
    /// Tasks that are held up.
    pub held: Vec<u32>,
    /// For how long.
    pub hold: Time,
}
