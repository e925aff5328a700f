//! NETCONF, as optical switches speak it: frames, XML, a [`Driver`](crate::Driver) and an emulated switch.

mod call;
mod client;
mod datastore;
mod frame;
mod job;
mod lock;
mod manner;
mod reply;
mod server;
mod steps;
mod xml;

pub use client::{NetconfDriver, NetconfSettings, PROTOCOL};
pub use frame::{FrameError, Framer, MAX_MESSAGE, chunk, mark};
pub use manner::Manner;
pub use server::NetconfServer;
pub use xml::{Element, MAX_DEPTH, MAX_ELEMENTS, Space};
