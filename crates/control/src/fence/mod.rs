//! A gateway in front of a switch that cannot fence: it is the switch's only client, issues terms, and refuses what
//! has an older one.
//!
//! Controllers speak the line protocol to it, version 2 ([`crate::drivers::line`]); it drives the switch with any driver.
//! It does no I/O, as everything here: what it wants done is in [`Gateway::poll`], in order.
//!
//! Modelled: terms by port. A claim is about ports and fences whoever claimed one of them before, so regions that share
//! a switch do not fence each other. One order at a time is with the switch; a claim waits for it, so that nothing of
//! an older term comes after the answer to the claim. Changes that came one after the other from one session go to the
//! switch together, and are answered together. The last terms are safe before a claim is answered. While the switch is
//! away all sessions are closed and nobody is let in, so that a controller sees the same as without a gateway: circuits
//! that stand stay in use. If the switch went away during a change, that lasts until late commands are carried out.
//! Ignored: what others tell the switch; let nobody else in.
//! Checked: by the suite of all drivers, with the emulated TL1 switch behind; below.

mod carry;
mod command;
mod gateway;
mod terms;
#[cfg(test)]
mod tests;

pub use gateway::{Gateway, GatewayOutput, GatewaySettings};
pub use terms::Terms;
