//! What happens when a queue is full: one a file, one line in the list below. What one is stands in
//! [`plug`], what packets make of it in `switch.rs`.

pub(crate) mod plug;

use plug::{Buffer, Capabilities, Overflow, Pause};

macro_rules! overflows {
    ($($module:ident::$Name:ident),* $(,)?) => {
        lightloom_units::kinds! {
            /// The settings of one of [`OVERFLOWS`], as the table `engine.switch.overflow` has them.
            settings OverflowSpec;
            /// What happens when a queue is full.
            family OVERFLOWS: Capabilities = "overflow", "What happens when a queue is full.";
            $($module::$Name),*
        }

        impl OverflowSpec {
            /// When senders are paused, if they are.
            pub fn pause(&self) -> Option<Pause> {
                match self {
                    $(OverflowSpec::$Name(settings) => $module::$Name::pause(settings)),*
                }
            }
            /// What the queues of a switch share, if they do.
            pub fn buffer(&self) -> Option<Buffer> {
                match self {
                    $(OverflowSpec::$Name(settings) => $module::$Name::buffer(settings)),*
                }
            }
        }
    };
}

overflows! {
    drop::Drop,
    trim::Trim,
    pfc::Pfc,
    shared::Shared,
}
