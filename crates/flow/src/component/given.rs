//! What a component's links have given, and notes of it, so that it can be taken back
//! ([`filling`](super::filling)).

/// What flows have been given of a component's links.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// What is left of each link.
    pub left: Vec<f64>,
    /// How many flows still want it: none once it is frozen. A flow that goes wants less than nothing until
    /// what it took is given back.
    pub wanted: Vec<f64>,
    /// What was taken, in that order, of which so many places are in use; and for each link that serves flows
    /// where that begins.
    pub taken: Vec<Taken>,
    pub notes: usize,
    pub from: Vec<usize>,
    /// More than half was given back when a flow went: notes are worth less than they take.
    pub off: bool,
}

impl Given {
    /// Nothing yet.
    pub fn clear(&mut self) {
        self.from.clear();
        (self.notes, self.off) = (0, false);
    }
}

/// What flows took of a link that another serves, or that it gave those that it serves itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    pub link: u32,
    pub flows: u32,
    /// Of the link, before.
    pub left: f64,
}
