//! How much whoever comes may ask, before it is known who that is and after.
//!
//! Modelled: a *guest* is a connection on which nobody has shown a token yet. An address has [`GUESTS`] of them at
//! most, each for [`STAY`]; what they ask is counted by address. Who is known is counted by tenant, or by the token's
//! name if it is no tenant's: what one asks for leaves the others their share. What agents report over a stream is taken at a pace that no
//! agent needs ([`Pace`]); one that is faster is held up by its own stream.
//! Ignored: how much work a request is. None is much: answers are read off a snapshot.
//! Checked: below with a clock of its own; against a real controller in `tests/all/controller/limits.rs`.

use crate::auth::{Access, Tokens};
use crate::border::{Refusal, Refused};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Connections of one address on which nobody is known.
pub const GUESTS: usize = 256;
/// The same of all addresses: half of all connections are left for those who are known.
pub const ALL_GUESTS: usize = 4096;
/// By then somebody is known on a connection, or it is closed.
pub const STAY: Duration = Duration::from_secs(10);
/// Requests of an address by which nobody is known: a second, and at once.
const UNKNOWN: Rate = Rate { per_s: 20.0, at_once: 200.0 };
/// The same of one tenant, or one token; and for each server of the region so many more.
const KNOWN: Rate = Rate { per_s: 200.0, at_once: 400.0 };
const OF_SERVER: Rate = Rate { per_s: 4.0, at_once: 16.0 };
/// Reports of one agent.
const REPORTS: Rate = Rate { per_s: 1000.0, at_once: 200.0 };
/// So many addresses or tokens are remembered.
const REMEMBERED: usize = 16_384;

/// So many a second, and so many at once.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_s: f64,
    at_once: f64,
}

/// What is left of a rate.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn new(rate: Rate, now: Instant) -> Self {
        Bucket { left: rate.at_once, at: now }
    }

    /// Takes one; else says how long until there is one.
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * rate.per_s).min(rate.at_once);
        self.at = now;
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / rate.per_s));
        }
        self.left -= 1.0;
        Ok(())
    }
}

/// One count for each of these.
type Buckets<Key> = Mutex<HashMap<Key, Bucket>>;

/// The limits of one controller.
#[derive(Debug)]
pub struct Limits {
    tokens: Arc<Tokens>,
    refused: Arc<Refused>,
    known: Rate,
    guests: Mutex<HashMap<IpAddr, usize>>,
    unknown: Buckets<IpAddr>,
    callers: Buckets<String>,
}

/// A connection.
#[derive(Debug)]
pub struct Seat {
    from: IpAddr,
    limits: Arc<Limits>,
    known: AtomicBool,
}

impl Limits {
    /// The limits of a region of so many servers.
    pub fn new(tokens: Arc<Tokens>, refused: Arc<Refused>, servers: usize) -> Arc<Self> {
        let known = Rate {
            per_s: KNOWN.per_s + OF_SERVER.per_s * servers as f64,
            at_once: KNOWN.at_once + OF_SERVER.at_once * servers as f64,
        };
        let (guests, unknown, callers) = Default::default();
        Arc::new(Limits { tokens, refused, known, guests, unknown, callers })
    }

    /// A connection comes. None if there are too many of whom nothing is known: it is to be closed.
    pub fn enter(self: &Arc<Self>, from: SocketAddr) -> Option<Arc<Seat>> {
        let from = network(from.ip());
        let mut guests = lock(&self.guests);
        let all: usize = guests.values().sum();
        let own = guests.entry(from).or_default();
        if *own >= GUESTS || all >= ALL_GUESTS {
            self.refused.count(Refusal::Connections);
            return None;
        }
        *own += 1;
        let (limits, known) = (self.clone(), AtomicBool::new(false));
        Some(Arc::new(Seat { from, limits, known }))
    }

    /// All these routes behind the limits. [`Seat`] is an extension of every request.
    pub fn around(self: &Arc<Self>, routes: Router) -> Router {
        routes.layer(from_fn_with_state(self.clone(), pass))
    }

    /// A request comes.
    fn asks(&self, now: Instant, seat: Option<&Seat>, request: &Request) -> Result<(), Refusal> {
        let shown = request.headers().get(header::AUTHORIZATION);
        let shown = shown.map(|value| value.to_str().unwrap_or_default());
        let taken = match (self.tokens.access(shown), seat) {
            (Ok(access), seat) => {
                if let Some(seat) = seat {
                    seat.is_known();
                }
                take(&self.callers, name(&access), self.known, now)
            }
            (Err(_), Some(seat)) => take(&self.unknown, seat.from, UNKNOWN, now),
            (Err(_), None) => Ok(()),
        };
        taken.map_err(|_| Refusal::Rate)
    }
}

impl Seat {
    /// Somebody has shown a token.
    fn is_known(&self) {
        if !self.known.swap(true, Ordering::Relaxed) {
            self.leave();
        }
    }

    /// Whether nobody has shown one yet.
    pub fn is_guest(&self) -> bool {
        !self.known.load(Ordering::Relaxed)
    }

    fn leave(&self) {
        let mut guests = lock(&self.limits.guests);
        if let Some(own) = guests.get_mut(&self.from) {
            *own -= 1;
            if *own == 0 {
                guests.remove(&self.from);
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.is_guest() {
            self.leave();
        }
    }
}

async fn pass(State(limits): State<Arc<Limits>>, request: Request, next: Next) -> Response {
    let seat = request.extensions().get::<Arc<Seat>>().cloned();
    match limits.asks(Instant::now(), seat.as_deref(), &request) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            limits.refused.count(why);
            why.into_response()
        }
    }
}

/// How fast reports of one stream are taken.
#[derive(Debug)]
pub struct Pace(Bucket);

impl Default for Pace {
    fn default() -> Self {
        Pace(Bucket::new(REPORTS, Instant::now()))
    }
}

impl Pace {
    /// Waits until one more report may be taken.
    pub async fn wait(&mut self) {
        while let Err(long) = self.0.take(REPORTS, Instant::now()) {
            sleep(long).await;
        }
    }
}

/// Takes one of the count of this key. Those that are full again are forgotten when there are many.
fn take<Key: std::hash::Hash + Eq>(
    buckets: &Buckets<Key>,
    key: Key,
    rate: Rate,
    now: Instant,
) -> Result<(), Duration> {
    let mut buckets = lock(buckets);
    if buckets.len() >= REMEMBERED {
        let full = Duration::from_secs_f64(rate.at_once / rate.per_s);
        buckets.retain(|_, bucket| now.saturating_duration_since(bucket.at) < full);
    }
    buckets.entry(key).or_insert_with(|| Bucket::new(rate, now)).take(rate, now)
}

/// Who is counted as one.
fn name(access: &Access) -> String {
    match access.tenant() {
        Some(tenant) => format!("tenant {tenant}"),
        None => format!("token {}", access.name()),
    }
}

/// Addresses that one host can have are one: of IPv6 the first half.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(long) => {
            let half = u128::from(long) & !u128::from(u64::MAX);
            IpAddr::V6(if long.is_loopback() { long } else { half.into() })
        }
        short => short,
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Role, Token};
    use axum::body::Body;
    use sha2::{Digest, Sha256};

    const HERE: &str = "10.0.0.1:5000";

    fn limits(secrets: &[&str]) -> (Arc<Limits>, Arc<Refused>) {
        let token = |&secret: &&str| {
            let digest: String =
                Sha256::digest(secret).iter().map(|b| format!("{b:02x}")).collect();
            Token::new(Access::new(secret, Role::Tenant(secret.into())), &digest)
                .expect("64 digits")
        };
        let tokens = Tokens::new(secrets.iter().map(token).collect());
        let refused = Arc::<Refused>::default();
        (Limits::new(Arc::new(tokens), refused.clone(), 0), refused)
    }

    fn request(token: Option<&str>) -> Request {
        let request = Request::builder().uri("/v1/status");
        let request = match token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        request.body(Body::empty()).expect("a request")
    }

    #[test]
    fn a_bucket_gives_its_rate_and_no_more() {
        let (rate, now) = (Rate { per_s: 10.0, at_once: 5.0 }, Instant::now());
        let mut bucket = Bucket::new(rate, now);
        let mut given = 0;
        for ms in 0..2000 {
            given += u32::from(bucket.take(rate, now + Duration::from_millis(ms)).is_ok());
        }
        assert_eq!(given, 5 + 19, "five at once, then ten a second");
        let wait = bucket.take(rate, now + Duration::from_millis(1999)).expect_err("empty");
        assert!(bucket.take(rate, now + Duration::from_millis(2000) + wait).is_ok());
    }

    #[test]
    fn guests_are_few_by_address_and_those_who_are_known_do_not_count() {
        let (limits, refused) = limits(&["blue"]);
        let here = HERE.parse().expect("an address");
        let mut seats: Vec<_> = (0..GUESTS).map(|_| limits.enter(here).expect("room")).collect();
        assert!(limits.enter(here).is_none() && refused.of(Refusal::Connections) == 1);
        assert!(limits.enter("10.0.0.2:1".parse().expect("another")).is_some());
        let now = Instant::now();
        // A wrong token makes nobody known.
        assert_eq!(limits.asks(now, Some(&seats[0]), &request(Some("guess"))), Ok(()));
        assert!(seats[0].is_guest() && limits.enter(here).is_none());
        assert_eq!(limits.asks(now, Some(&seats[0]), &request(Some("blue"))), Ok(()));
        assert!(!seats[0].is_guest());
        seats.push(limits.enter(here).expect("room for one more"));
        assert!(limits.enter(here).is_none());
        seats.clear();
        assert!(limits.guests.lock().expect("alone").is_empty(), "nothing is left");
    }

    #[test]
    fn one_tenants_requests_leave_the_others_theirs_and_guesses_are_few() {
        let (limits, _) = limits(&["blue", "red"]);
        let seat = limits.enter(HERE.parse().expect("an address")).expect("room");
        let now = Instant::now();
        let asked = |token: Option<&str>, times: usize| {
            let passes = |_: &usize| limits.asks(now, Some(&seat), &request(token)).is_ok();
            (0..times).filter(passes).count()
        };
        assert_eq!(asked(Some("blue"), 5000), KNOWN.at_once as usize);
        assert_eq!(asked(Some("guess"), 5000), UNKNOWN.at_once as usize);
        assert_eq!(asked(None, 10), 0, "they are one address's");
        assert_eq!(asked(Some("red"), 10), 10);
    }

    #[test]
    fn addresses_of_one_host_are_one() {
        let of = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
