//! A region's file in short.

use serde::Serialize;

/// A region in short: `lightloomd controller check`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The name of the region.
    pub region: String,
    /// Number of servers.
    pub servers: usize,
    /// Optical ports of each server.
    pub ports_each: usize,
    /// Names of tenants, by number.
    pub tenants: Vec<String>,
    /// Its switches, by number.
    pub switches: Vec<SwitchSummary>,
    /// Where the controller listens.
    pub listen: String,
    /// Whether it listens with TLS.
    pub tls: bool,
    /// Number of tokens in the file.
    pub tokens: usize,
    /// Where the controller writes the token that it makes, if the file has none.
    pub own_token: Option<String>,
    /// `timed` or `algorithm-1`.
    pub decision: String,
    /// The journal's file.
    pub journal: String,
}

/// A switch in short.
#[derive(Clone, Debug, Serialize)]
pub struct SwitchSummary {
    /// Its name.
    pub name: String,
    /// Its protocol, and where it is.
    pub at: String,
    /// Its duplex ports.
    pub ports: u16,
}
