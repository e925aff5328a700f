//! `lightloomd`: the daemons. `lightloom` calls it; it can be called alone.

fn main() {}
