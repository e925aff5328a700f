//! Nodes on sockets of this computer: what moves, what breaks, who ends, who is a stranger.

mod choppy;
mod circuits;
mod cluster;
mod cuts;
mod ends;
mod moves;
mod proxy;
mod scarce;
mod strangers;
