//! TL1, the language of optical switches (Telcordia GR-831 and GR-833), as Polatis switches speak it:
//! both sides, without I/O. The commands and codes are in `docs/tl1.md`.

mod client;
mod code;
mod command;
mod frame;
mod guarded;
mod reply;
mod server;

pub use client::{Login, LoginError, Options, PROTOCOL, Tl1Driver};
pub use code::{Code, Denial};
pub use command::{Command, Ports, Request, Secret};
pub use frame::{Frame, Framer};
pub use guarded::User;
pub use reply::{Alarm, Message, Stamp, lines};
pub use server::{SessionId, Settings, Tl1Server};
