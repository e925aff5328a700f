//! Every test of the interfaces of this crate, in one program: linking costs more than compiling.

mod besides;
mod folding;
mod graph;
mod memory;
mod overlap;
mod products;
mod recompute;
mod spec;
