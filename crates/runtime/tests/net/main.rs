//! Nodes on sockets of this computer: what moves, what breaks, who ends, who is a stranger.

#[allow(dead_code)] // tests of what breaks come next
mod cluster;
mod moves;
