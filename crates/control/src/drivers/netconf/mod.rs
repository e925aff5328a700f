//! NETCONF, as optical switches speak it: frames, XML and a [`Driver`](crate::Driver).

mod call;
mod client;
mod frame;
mod job;
mod lock;
mod reply;
mod steps;
mod xml;

pub use client::{NetconfDriver, NetconfSettings, PROTOCOL};
pub use frame::{FrameError, Framer, MAX_MESSAGE, chunk, mark};
pub use xml::{Element, MAX_DEPTH, MAX_ELEMENTS, Space};
