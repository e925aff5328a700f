//! Every test of the interfaces of this crate, in one program: linking costs more than compiling.

mod bills;
mod graphs;
mod list;
mod properties;
