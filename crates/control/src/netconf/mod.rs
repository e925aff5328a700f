//! NETCONF, the second protocol of optical switches: frames, XML and a [`Driver`](crate::Driver).

mod frame;

pub use frame::{FrameError, Framer, MAX_MESSAGE, chunk, mark};
