//! NETCONF, the second protocol of optical switches: frames, XML and a [`Driver`](crate::Driver).

mod call;
mod client;
mod frame;
mod reply;
mod xml;

pub use client::{NetconfDriver, NetconfSettings};
pub use frame::{FrameError, Framer, MAX_MESSAGE, chunk, mark};
pub use xml::{Element, MAX_DEPTH, MAX_ELEMENTS, Space};
