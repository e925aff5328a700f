//! The lock that a session holds as long as it lasts, for a controller that has the switch for itself.
//!
//! NETCONF has no terms, but a lock has one holder, and an operator may end the holder's session
//! (RFC 6241, Sections 7.5 and 7.9). So the number of the session that holds it serves as the term.

/// Whose the lock is, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    /// It is to be held as long as the session lasts. Otherwise nothing here counts.
    pub wanted: bool,
    /// This session has it.
    pub held: bool,
    /// The last session of this controller that had it. It may be there yet, without anyone at its other end.
    ours: Option<u64>,
    /// Another one was found to have it, in words: it is left alone until an operator says that it is nobody.
    pub other: Option<String>,
    /// An operator has said so.
    pub claimed: bool,
    /// Sessions that were ended for it since.
    ended: u8,
}

/// What is to be done when the lock is denied.
pub(super) enum Denied {
    /// End this session, and try again.
    End(u64),
    /// It is another controller's.
    Leave(String),
}

impl Lock {
    /// One that nobody was seen to have.
    pub fn new(wanted: bool) -> Self {
        Lock { wanted, ..Lock::default() }
    }

    /// Whether it is to be asked for now.
    pub fn is_due(&self) -> bool {
        self.wanted && !self.held && (self.claimed || self.other.is_none())
    }

    /// A session of this controller had it.
    pub fn remember(&mut self, session: u64) {
        self.ours = Some(session);
    }

    /// This session has it.
    pub fn got(&mut self, session: u64) {
        *self = Lock { wanted: true, held: true, ours: Some(session), ..Lock::default() };
    }

    /// The session is over, and with it the lock.
    pub fn lost(&mut self) {
        (self.held, self.ended) = (false, 0);
    }

    /// Another session has it. One of this controller's own is ended, and any if an operator says so.
    pub fn denied(&mut self, holder: u64, words: &str) -> Denied {
        if holder > 0 && self.ended < 3 && (self.claimed || self.ours == Some(holder)) {
            self.ended += 1;
            return Denied::End(holder);
        }
        let why = format!("session {holder} holds the lock: {words}");
        (self.claimed, self.ended, self.other) = (false, 0, Some(why.clone()));
        Denied::Leave(why)
    }
}
