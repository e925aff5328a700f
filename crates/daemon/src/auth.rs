//! Who may see and do what.
//!
//! Modelled: tokens, known by their SHA-256 only, each with a role. Nobody comes without one. A region's file that has
//! none is allowed on loopback alone ([`may_listen`]): then the controller makes an [own
//! token](crate::own_token).
//! Ignored: users, sessions, expiry: whoever writes the region's file gives and takes tokens.
//! Checked: below, role by role.

use sha2::{Digest, Sha256};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{RwLock, RwLockReadGuard};
use thiserror::Error;

/// What the bearer of a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sees and does everything.
    Operator,
    /// Sees its own part of the region, and speaks for its own servers.
    Tenant(String),
    /// Sees everything and does nothing.
    Viewer,
}

/// What someone may see and do.
///
/// ```
/// use lightloom_daemon::auth::{Access, Role};
/// let blue = Access::new("blue's trainer", Role::Tenant("blue".into()));
/// assert!(blue.sees("blue") && blue.speaks_for("blue") && !blue.sees("red"));
/// assert!(!blue.sees_all() && !blue.operates());
/// let screen = Access::new("screen", Role::Viewer);
/// assert!(screen.sees("blue") && screen.sees_all());
/// assert!(!screen.speaks_for("blue") && !screen.operates());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    name: String,
    role: Role,
}

impl Access {
    /// Someone of this name, for logs, and role.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Access { name: name.into(), role }
    }

    /// The name, for logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What whoever has the token may do.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The tenant, of one that sees no more than its part.
    pub fn tenant(&self) -> Option<&str> {
        match &self.role {
            Role::Tenant(tenant) => Some(tenant),
            Role::Operator | Role::Viewer => None,
        }
    }

    /// Sees the whole region.
    pub fn sees_all(&self) -> bool {
        self.tenant().is_none()
    }

    /// Sees the servers, circuits and demand of a tenant.
    pub fn sees(&self, tenant: &str) -> bool {
        self.tenant().is_none_or(|own| own == tenant)
    }

    /// May attend as a server of a tenant: report for it and hear what it shall do.
    pub fn speaks_for(&self, tenant: &str) -> bool {
        match &self.role {
            Role::Operator => true,
            Role::Tenant(own) => own == tenant,
            Role::Viewer => false,
        }
    }

    /// May unblock ports and have the switch read.
    pub fn operates(&self) -> bool {
        self.role == Role::Operator
    }
}

/// A token, by its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    access: Access,
    sha256: [u8; 32],
}

/// A digest that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the SHA-256 of a token has 64 hexadecimal digits (printf %s TOKEN | sha256sum)")]
pub struct DigestError;

impl Token {
    /// This token.
    pub fn of(access: Access, secret: &str) -> Self {
        Token { access, sha256: Sha256::digest(secret).into() }
    }

    /// A token with this SHA-256, in hexadecimal.
    ///
    /// # Errors
    /// If that is not what 64 hexadecimal digits are.
    pub fn new(access: Access, sha256: &str) -> Result<Self, DigestError> {
        let mut bytes = [0; 32];
        if sha256.len() != 64 || !sha256.is_ascii() {
            return Err(DigestError);
        }
        for (byte, digits) in bytes.iter_mut().zip(sha256.as_bytes().chunks(2)) {
            let digit = |at: usize| char::from(digits[at]).to_digit(16);
            let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err(DigestError) };
            *byte = (high << 4 | low) as u8;
        }
        Ok(Token { access, sha256: bytes })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Token({:?})", self.access)
    }
}

/// Why someone is let in nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unknown {
    /// No token was sent.
    #[error("a token is required: send `Authorization: Bearer TOKEN`")]
    Missing,
    /// It is none of ours.
    #[error("this token is not known here")]
    Wrong,
}

/// The tokens of a region.
///
/// ```
/// use lightloom_daemon::auth::{Access, Role, Token, Tokens, Unknown};
/// // printf %s secret | sha256sum
/// let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
/// let token = Token::new(Access::new("admin", Role::Operator), digest).unwrap();
/// let tokens = Tokens::new(vec![token]);
/// assert!(tokens.access(Some("Bearer secret")).unwrap().operates());
/// assert_eq!(tokens.access(Some("Bearer guess")), Err(Unknown::Wrong));
/// assert_eq!(tokens.access(None), Err(Unknown::Missing));
/// assert_eq!(Tokens::default().access(None), Err(Unknown::Missing));
/// ```
#[derive(Debug, Default)]
pub struct Tokens(RwLock<Vec<Token>>);

impl Tokens {
    /// These tokens; without any nobody is let in.
    pub fn new(tokens: Vec<Token>) -> Self {
        Tokens(RwLock::new(tokens))
    }

    /// These tokens from now on, and no other.
    pub fn replace(&self, others: Tokens) {
        let others = others.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        *self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = others;
    }

    fn known(&self) -> RwLockReadGuard<'_, Vec<Token>> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.known().is_empty()
    }

    /// What the sender of this `Authorization` header, or gRPC metadata, may see and do.
    ///
    /// # Errors
    /// If it has no token that is known.
    pub fn access(&self, authorization: Option<&str>) -> Result<Access, Unknown> {
        let (scheme, token) =
            authorization.and_then(|header| header.split_once(' ')).ok_or(Unknown::Missing)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Unknown::Missing);
        }
        let digest: [u8; 32] = Sha256::digest(token.trim()).into();
        // All are compared to the end: how long it takes says nothing about any.
        let mut found = None;
        for known in self.known().iter() {
            if same(&known.sha256, &digest) {
                found = Some(known.access.clone());
            }
        }
        found.ok_or(Unknown::Wrong)
    }
}

fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

/// Whether to listen here: off loopback only with TLS and something that is asked of whoever comes.
///
/// ```
/// use lightloom_daemon::auth::may_listen;
/// assert!(may_listen("127.0.0.1:8470".parse().unwrap(), false, false).is_ok());
/// let refused = may_listen("0.0.0.0:8470".parse().unwrap(), true, false).unwrap_err();
/// assert_eq!(refused.to_string(), "0.0.0.0:8470 is not loopback: a token is required");
/// ```
///
/// # Errors
/// What is missing.
pub fn may_listen(address: SocketAddr, tls: bool, asks: bool) -> Result<(), Exposed> {
    if address.ip().is_loopback() || (tls && asks) {
        return Ok(());
    }
    Err(Exposed { address, tls, asks, secret: "a token" })
}

/// An address that others reach, without what keeps them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposed {
    address: SocketAddr,
    tls: bool,
    asks: bool,
    secret: &'static str,
}

impl Exposed {
    /// Of one who asks for something else than a token.
    pub fn asking(self, secret: &'static str) -> Self {
        Exposed { secret, ..self }
    }
}

impl fmt::Display for Exposed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is not loopback: ", self.address)?;
        match (self.tls, self.asks) {
            (true, _) => write!(out, "{} is required", self.secret),
            (_, true) => write!(out, "a certificate and its key are required"),
            _ => write!(out, "a certificate, its key and {} are required", self.secret),
        }
    }
}

impl std::error::Error for Exposed {}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str, role: Role, secret: &str) -> Token {
        let digest: String =
            Sha256::digest(secret).iter().map(|byte| format!("{byte:02X}")).collect();
        Token::new(Access::new(name, role), &digest).expect("64 digits, in capitals")
    }

    #[test]
    fn each_token_opens_what_its_role_may() {
        let tokens = Tokens::new(vec![
            token("root", Role::Operator, "r00t"),
            token("trainer", Role::Tenant("blue".into()), "azure"),
            token("screen", Role::Viewer, "look"),
        ]);
        let access =
            |secret: &str| tokens.access(Some(&format!("bearer {secret}"))).expect("known");
        let seen: Vec<_> = ["r00t", "azure", "look"]
            .map(access)
            .iter()
            .map(|who| (who.sees_all(), who.sees("red"), who.speaks_for("blue"), who.operates()))
            .collect();
        let (yes, no) = (true, false);
        assert_eq!(seen, [(yes, yes, yes, yes), (no, no, yes, no), (yes, yes, no, no)]);
    }

    #[test]
    fn nothing_else_opens_anything() {
        let tokens = Tokens::new(vec![token("root", Role::Operator, "r00t")]);
        for wrong in ["Bearer R00T", "Bearer ", "Bearer r00t r00t", "Bearer r00", "bearer r00tt"] {
            assert_eq!(tokens.access(Some(wrong)), Err(Unknown::Wrong), "{wrong}");
        }
        for wrong in [None, Some(""), Some("r00t"), Some("Basic r00t"), Some("Bearer")] {
            assert_eq!(tokens.access(wrong), Err(Unknown::Missing), "{wrong:?}");
        }
    }

    #[test]
    fn digests_are_64_digits() {
        let new = |digest: &str| Token::new(Access::new("x", Role::Viewer), digest).err();
        assert_eq!(new(&"0".repeat(64)), None);
        for wrong in ["", "secret", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(new(wrong), Some(DigestError), "{wrong}");
        }
    }

    #[test]
    fn nothing_listens_off_loopback_bare() {
        for here in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1"] {
            assert!(may_listen(here.parse().expect("an address"), false, false).is_ok());
        }
        for there in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:127.0.0.1]:1"] {
            let there = there.parse().expect("an address");
            let allowed = [(false, false), (false, true), (true, false), (true, true)]
                .map(|(tls, secret)| may_listen(there, tls, secret).is_ok());
            assert_eq!(allowed, [false, false, false, true]);
        }
    }
}
