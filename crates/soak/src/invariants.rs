//! What must be true after every step.

use crate::plane::Plane;
use lightloom_control::{
    Alarm, Controller, Directive, Mark, Memory, Patch, PortId, Report, Runtime, Settings, Stage,
};
use lightloom_units::Time;
use std::collections::BTreeSet;

/// An invariant: its name, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariant {
    /// Its name in messages and in docs/soak.md.
    pub name: &'static str,
    /// What must hold, in words.
    pub says: &'static str,
}

macro_rules! invariants {
    ($($id:ident, $name:literal, $says:literal;)*) => {
        $(pub(crate) const $id: Invariant = Invariant { name: $name, says: $says };)*
        /// Every invariant that a scenario checks.
        pub const INVARIANTS: &[Invariant] = &[$($id),*];
    };
}

invariants! {
    SLICE, "slice", "every patch that the controller orders is within the region's slice";
    ONE_PATCH, "one-patch", "an ingress or egress is in at most one patch";
    CONNECTED, "connected", "while a data plane may send over a port, or has sent, or its filter is open, the switch has both patches of that circuit in force";
    FILTERED, "filtered", "the filter of an optical NIC refuses nothing that its data plane may send, once the agent knows that the port is drained";
    HELD, "held", "nobody may send over a port whose circuit the switch is ordered to change";
    RECORDED, "recorded", "the journal says that the switch is touched before it is";
    SETTLED, "settled", "the journal says that circuits were verified only when no command that was ordered may yet be carried out";
    SOUND, "sound", "no circuit is planned over a part of which the controller has heard that it failed";
    AWAKE, "awake", "a controller that was stopped orders no change before it has read the switch anew";
    READ_BACK, "read-back", "circuits that agents may use were read back after the last order that touches their ports";
    LEGAL, "legal", "circuits that are released join two servers of one tenant, and every port at most once";
    RISING, "rising", "generations rise in the journal, and one that agents have heard of means no other plan, even if its record was lost";
    REPLAY, "replay", "the journal, replayed, is what the controller knows";
    STALE, "stale", "a directive that is older than the last that was obeyed changes nothing";
    ONWARD, "onward", "what an agent has obeyed never goes back";
    KEPT, "kept", "a plan that an agent has resumed is in the journal";
    FOLLOWED, "followed", "an agent that says that it resumes has a data plane that has resumed";
    ALONE, "alone", "a controller that has read circuits of another one orders nothing until an operator says that it is alone, and stops for nothing else";
    ALARMS, "alarms", "an agent that reports is not called silent, and one that is silent is not called stuck";
    ROUNDS, "rounds", "a server is told that a round is answered only if its tenant asked for it, whatever others say";
    SHARE, "share", "a plan that waits for other tenants' servers alone is given up after the share of a lease that it has";
    GATHERED, "gathered", "a decision counts a round once all present servers of its tenant have asked for it, or were waited for long enough";
    CALM, "calm", "nobody is called without end";
    PROGRESS, "progress", "once faults stop, demand is answered, alarms end, and controller, journal, switch and agents agree";
}

/// An invariant that does not hold, and how.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub invariant: Invariant,
    pub what: String,
}

pub(crate) type Holds = Result<(), Broken>;

pub(crate) fn holds(invariant: Invariant, true_: bool, what: impl FnOnce() -> String) -> Holds {
    if true_ { Ok(()) } else { Err(Broken { invariant, what: what() }) }
}

/// What a directive did to an agent that had obeyed a later one.
pub(crate) fn stale(
    server: u16,
    directive: &Directive,
    obeyed: Mark,
    before: &[Option<PortId>],
    after: &[Option<PortId>],
) -> Holds {
    let same = directive.mark >= obeyed || before == after;
    holds(STALE, same, || {
        format!("server {server} had obeyed {obeyed:?}; {directive:?} made {after:?} of {before:?}")
    })
}

/// The journal says what the controller knows.
pub(crate) fn replay(disk: &Memory, controller: &Controller) -> Holds {
    holds(REPLAY, disk == controller.memory(), || {
        format!("{disk:?} in the journal, {:?} in the controller", controller.memory())
    })
}

/// An agent speaks for its data plane only once that has obeyed.
pub(crate) fn followed(server: u16, report: &Report, plane: &Plane) -> Holds {
    let obeyed = report.obeyed;
    let ours = plane.runtime.as_ref().filter(|_| plane.agent == report.incarnation);
    let mark = ours.map(Runtime::mark).unwrap_or_default();
    holds(FOLLOWED, obeyed.stage == Stage::Hold || mark >= obeyed, || {
        format!("server {server} has resumed {obeyed:?}, and its data plane is at {mark:?}")
    })
}

/// Alarms tell agents that say nothing from those that do not let go.
pub(crate) fn alarms(now: Time, controller: &Controller, settings: &Settings) -> Holds {
    let named = |alarm: &Alarm| match *alarm {
        Alarm::ServerSilent { server } => Some((server, true)),
        Alarm::DrainStuck { server } => Some((server, false)),
        _ => None,
    };
    for (server, silent) in controller.alarms().filter_map(|(alarm, _)| named(alarm)) {
        let heard = controller.heard(server);
        let reports = heard.is_some_and(|at| now < at + settings.lease + settings.grace);
        holds(ALARMS, reports != silent, || {
            let name = if silent { "silent" } else { "stuck" };
            format!("server {server} is called {name}, heard at {heard:?}")
        })?;
    }
    Ok(())
}

/// Nothing is wanted in the past.
pub(crate) fn calm(who: &str, now: Time, next: Time) -> Holds {
    holds(CALM, next > now, || format!("{who} wants to be called at {next}, and it is {now}"))
}

/// A port is in one patch at most.
pub(crate) fn one_patch(patches: impl Iterator<Item = Patch>) -> Holds {
    let mut ports = BTreeSet::new();
    for patch in patches {
        let once = ports.insert(patch.ingress) && ports.insert(patch.egress);
        holds(ONE_PATCH, once, || format!("{patch:?} is not alone"))?;
    }
    Ok(())
}

/// Nothing is left to be done.
pub(crate) fn progress(left: Option<String>) -> Holds {
    match left {
        None => Ok(()),
        Some(what) => Err(Broken { invariant: PROGRESS, what }),
    }
}
