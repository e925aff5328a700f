//! Hello: who is there when a connection begins, and the proof.
//!
//! The dialer sends its hello. The accepter answers with its own and a tag: the HMAC-SHA256 by the job's secret
//! of both hellos, with the word `accepts` before them. The dialer sends the tag of the word `dials` and both. Each
//! hello has a nonce that its sender has drawn, so no tag of an earlier connection fits; each side puts another word
//! first, so neither can be sent back what it said. Everything that a hello says is under both tags.
//! Ignored: whoever can change bytes after that; the job's network must see to it.

use super::fields::part;
use super::name::{Endpoint, Nic, Tunnel};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use thiserror::Error;

/// The length of a hello \[B\].
pub(crate) const HELLO: usize = 56;
/// The length of a tag \[B\].
pub(crate) const TAG: usize = 32;
/// The version of the frames.
pub(crate) const VERSION: u16 = 3;
const MAGIC: [u8; 8] = *b"lightlm\0";

/// What an endpoint says of itself and of whom it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub from: Endpoint,
    pub nic: Nic,
    pub to: Endpoint,
    pub to_nic: Nic,
    /// Which of the lanes between these NICs.
    pub way: u16,
    pub job: u64,
    pub life: u64,
    /// How much it keeps for what the other sends early \[B\].
    pub allowance: u32,
    pub nonce: [u8; 16],
}

/// Why whoever is there is no peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HelloError {
    /// It speaks another protocol.
    #[error("a connection begins with other bytes than a hello does")]
    Magic,
    /// It speaks another version.
    #[error("a hello is of version {found}; {VERSION} is allowed")]
    Version {
        /// Its version.
        found: u16,
    },
    /// It is of another job.
    #[error("a hello is of job {found:#x}; {allowed:#x} is allowed")]
    Job {
        /// Its job.
        found: u64,
        /// Ours.
        allowed: u64,
    },
    /// It wants somebody else, or comes to a NIC where no lane of it ends.
    #[error(
        "a hello joins endpoint {from}, NIC {nic}, to endpoint {to}, NIC {to_nic}: no lane here"
    )]
    Lane {
        /// Who it says it is.
        from: Endpoint,
        /// Its NIC.
        nic: Nic,
        /// Whom it wants.
        to: Endpoint,
        /// Whose NIC it wants.
        to_nic: Nic,
    },
    /// It does not know the secret.
    #[error("endpoint {from} does not prove that it knows the job's secret")]
    Proof {
        /// Who it says it is.
        from: Endpoint,
    },
    /// It is a life that is over.
    #[error("endpoint {from} has life {found}; {allowed} or more is allowed")]
    Life {
        /// Who it is.
        from: Endpoint,
        /// Its life.
        found: u64,
        /// The least that is not over.
        allowed: u64,
    },
}

/// Which side makes a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Dials,
    Accepts,
}

impl Hello {
    pub fn encode(&self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[0..8].copy_from_slice(&MAGIC);
        let shorts = [VERSION, self.from, self.nic, self.to, self.to_nic];
        for (place, short) in bytes[8..18].chunks_exact_mut(2).zip(shorts) {
            place.copy_from_slice(&short.to_le_bytes());
        }
        bytes[18..22].copy_from_slice(&self.allowance.to_le_bytes());
        bytes[22..24].copy_from_slice(&self.way.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.job.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.life.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads a hello of this job.
    pub fn decode(bytes: &[u8; HELLO], job: u64) -> Result<Self, HelloError> {
        if bytes[0..8] != MAGIC {
            return Err(HelloError::Magic);
        }
        let short = |at| u16::from_le_bytes(part(bytes, at));
        let found = short(8);
        if found != VERSION {
            return Err(HelloError::Version { found });
        }
        let found = u64::from_le_bytes(part(bytes, 24));
        if found != job {
            return Err(HelloError::Job { found, allowed: job });
        }
        Ok(Hello {
            from: short(10),
            nic: short(12),
            to: short(14),
            to_nic: short(16),
            way: short(22),
            allowance: u32::from_le_bytes(part(bytes, 18)),
            job,
            life: u64::from_le_bytes(part(bytes, 32)),
            nonce: part(bytes, 40),
        })
    }

    /// That no lane joins these NICs.
    pub fn misfit(&self) -> HelloError {
        let Hello { from, nic, to, to_nic, .. } = *self;
        HelloError::Lane { from, nic, to, to_nic }
    }
}

/// A nonce for a hello over a relay, which nobody can foresee who does not know the secret, and which is never the same
/// again: `there` was drawn for the connection to the relay, which has no two tunnels of the same name.
pub(crate) fn drawn(secret: &[u8], there: &[u8; 16], me: Endpoint, tunnel: Tunnel) -> [u8; 16] {
    // HMAC takes keys of every length.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(secret).expect("any key will do");
    mac.update(b"lightloom draws");
    mac.update(there);
    [me, tunnel.source, tunnel.target].iter().for_each(|it| mac.update(&it.to_le_bytes()));
    mac.update(&tunnel.number.to_le_bytes());
    part(&mac.finalize().into_bytes(), 0)
}

fn mac(secret: &[u8], side: Side, dialer: &[u8; HELLO], accepter: &[u8; HELLO]) -> Hmac<Sha256> {
    // HMAC takes keys of every length.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(secret).expect("any key will do");
    let word: &[u8] = if side == Side::Dials { b"lightloom dials" } else { b"lightloom accepts" };
    [word, dialer, accepter].iter().for_each(|part| mac.update(part));
    mac
}

/// The proof of one side.
pub(crate) fn tag(
    secret: &[u8],
    side: Side,
    dialer: &[u8; HELLO],
    accepter: &[u8; HELLO],
) -> [u8; TAG] {
    mac(secret, side, dialer, accepter).finalize().into_bytes().into()
}

/// Whether this is the proof of that side, in a time that does not tell how much of it is right.
pub(crate) fn proves(
    secret: &[u8],
    side: Side,
    dialer: &[u8; HELLO],
    accepter: &[u8; HELLO],
    tag: &[u8],
) -> bool {
    mac(secret, side, dialer, accepter).verify_slice(tag).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        let (job, life, allowance, nonce) = (5, 6, 7, [8; 16]);
        Hello { from: 1, nic: 2, to: 3, to_nic: 4, way: 9, job, life, allowance, nonce }
    }

    #[test]
    fn a_tag_fits_one_side_one_secret_and_both_hellos() {
        let (one, mut other) = (hello().encode(), hello().encode());
        let dials = tag(b"secret", Side::Dials, &one, &other);
        assert!(proves(b"secret", Side::Dials, &one, &other, &dials));
        assert!(!proves(b"secret", Side::Accepts, &one, &other, &dials));
        assert!(!proves(b"Secret", Side::Dials, &one, &other, &dials));
        assert!(!proves(b"secret", Side::Dials, &one, &other, &dials[1..]));
        other[55] ^= 1;
        assert!(!proves(b"secret", Side::Dials, &one, &other, &dials));
    }

    #[test]
    fn hellos_of_others_are_refused_with_a_reason() {
        let said = |change: fn(&mut [u8; HELLO])| {
            let mut bytes = hello().encode();
            change(&mut bytes);
            Hello::decode(&bytes, 5).unwrap_err().to_string()
        };
        assert_eq!(said(|it| it[0] = 0), "a connection begins with other bytes than a hello does");
        assert_eq!(said(|it| it[8] = 9), "a hello is of version 9; 3 is allowed");
        assert_eq!(said(|it| it[24] = 9), "a hello is of job 0x9; 0x5 is allowed");
        let misfit = "a hello joins endpoint 1, NIC 2, to endpoint 3, NIC 4: no lane here";
        assert_eq!(hello().misfit().to_string(), misfit);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_hello_or_an_error(mut bytes: [u8; HELLO], begins: bool) {
            if begins {
                bytes[0..10].copy_from_slice(&hello().encode()[0..10]);
                bytes[24..32].copy_from_slice(&5u64.to_le_bytes());
            }
            if let Ok(hello) = Hello::decode(&bytes, 5) {
                prop_assert_eq!(hello.encode(), bytes);
            }
        }
    }
}
