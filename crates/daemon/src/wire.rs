//! A driver at work: its stream opened, carried and opened anew when it breaks.
//!
//! One task carries one [`Driver`]. Nothing in it waits without end: connecting and writing have
//! time-outs, what is read is the driver's to judge, and an answer that never comes is the controller's
//! to give up. Streams are numbered, and so are orders by the stream that their giver has seen: one that
//! was given for a stream that has broken since is never sent over the next.
//! Checked: below, against listeners that do not answer, do not read, close, or come back.

mod stream;

pub use stream::{Endpoint, Stream, open};

use crate::clock::Clock;
use lightloom_control::{Driver, DriverEvent, Input, Order};
use lightloom_units::Time;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};

/// How patient a task is with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A stream is open by then, TLS and all.
    pub connect: Duration,
    /// Something of what is to be sent goes out by then.
    pub write: Duration,
    /// Between the end of a stream and the next attempt; doubled after each that fails.
    pub reconnect: Duration,
    /// But never more than this.
    pub longest: Duration,
    /// An order that is not answered by then is given up, and its stream closed: nothing more of it is sent.
    pub order: Duration,
}

impl Timing {
    /// With so long between the end of a stream and the next attempt, and until an order is given up.
    pub fn new(reconnect: Duration, order: Duration) -> Self {
        let (connect, write) = (Duration::from_secs(5), Duration::from_secs(5));
        let longest = (reconnect * 16).min(Duration::from_secs(30));
        Timing { connect, write, reconnect, longest, order }
    }
}

/// A controller's end of a switch.
#[derive(Debug)]
pub struct SwitchHandle {
    calls: mpsc::UnboundedSender<(u64, Call)>,
    events: mpsc::Receiver<(u64, Input)>,
    /// The stream of the last event.
    stream: u64,
}

#[derive(Debug)]
enum Call {
    Order { id: u64, order: Order, given: Instant },
    Claim,
    Reconnect,
}

impl SwitchHandle {
    /// The next [`Input::SwitchUp`], [`Input::SwitchDown`], [`Input::Answer`], [`Input::Term`] or [`Input::Fenced`]; none if the task is
    /// gone. A call that is given up loses nothing.
    pub async fn next(&mut self) -> Option<Input> {
        let (stream, input) = self.events.recv().await?;
        self.stream = stream;
        Some(input)
    }

    /// [`lightloom_control::Output::Order`]. While the switch is down, or if it went down since the
    /// last event, the order is dropped: the event that says so comes, or has come. `given` is when it was asked for.
    pub fn order(&self, id: u64, order: Order, given: Instant) {
        // A task that is gone says so by its events.
        let _ = self.calls.send((self.stream, Call::Order { id, order, given }));
    }

    /// [`lightloom_control::Output::Claim`]: now, or over the next stream.
    pub fn claim(&self) {
        let _ = self.calls.send((self.stream, Call::Claim));
    }

    /// [`lightloom_control::Output::Reconnect`].
    pub fn reconnect(&self) {
        let _ = self.calls.send((self.stream, Call::Reconnect));
    }
}

/// What comes next from any of these switches, with its place among them. A call that is given up loses nothing.
pub async fn next(switches: &mut [SwitchHandle]) -> (usize, Option<Input>) {
    poll_fn(|context| {
        for (at, switch) in switches.iter_mut().enumerate() {
            let one = pin!(switch.next());
            if let Poll::Ready(input) = one.poll(context) {
                return Poll::Ready((at, input));
            }
        }
        Poll::Pending
    })
    .await
}

/// Carries a driver from now on, until the handle is dropped. What it says is of the switch of this number.
pub fn spawn(
    switch: usize,
    endpoint: Endpoint,
    driver: Box<dyn Driver + Send>,
    timing: Timing,
) -> SwitchHandle {
    let (calls, asked) = mpsc::unbounded_channel();
    // Answers are no more than orders; what else comes may wait in the stream.
    let (events, inputs) = mpsc::channel(64);
    let clock = Clock::start();
    let task = Task { switch, endpoint, driver, timing, clock, stream: 0, asked, events };
    tokio::spawn(task.run());
    SwitchHandle { calls, events: inputs, stream: 0 }
}

struct Task {
    switch: usize,
    endpoint: Endpoint,
    driver: Box<dyn Driver + Send>,
    timing: Timing,
    clock: Clock,
    /// The number of the stream; rises by one for each.
    stream: u64,
    asked: mpsc::UnboundedReceiver<(u64, Call)>,
    events: mpsc::Sender<(u64, Input)>,
}

/// Why a stream is closed whose orders are too old.
const LATE: &str = "an order was not answered in time";

/// The handle is gone.
struct Gone;

impl Task {
    async fn run(mut self) {
        let mut wait = self.timing.reconnect;
        loop {
            self.stream += 1;
            let (up, why) = match timeout(self.timing.connect, open(&self.endpoint)).await {
                Ok(Ok(stream)) => {
                    self.driver.connected(self.now());
                    let Ok(ended) = self.carry(stream).await else { return };
                    self.driver.disconnected(self.now());
                    // What it still had to say is of a stream that is no more.
                    while self.driver.event().is_some() {}
                    while self.driver.transmit().is_some() {}
                    ended
                }
                Ok(Err(why)) => (false, format!("no connection: {why}")),
                Err(_) => (false, format!("no connection within {:?}", self.timing.connect)),
            };
            wait = if up { self.timing.reconnect } else { wait };
            tracing::warn!(switch = %self.endpoint, why, retry_ms = wait.as_millis() as u64, "switch down");
            if self.tell(Input::SwitchDown { switch: self.switch, why }).await.is_err() {
                return;
            }
            if timeout(wait, self.drop_calls()).await.is_ok() {
                return;
            }
            if !up {
                wait = (wait * 2).min(self.timing.longest);
            }
        }
    }

    /// Until the handle is gone: orders of the last stream are dropped; a wish to reconnect is being granted.
    async fn drop_calls(&mut self) {
        while let Some((_, call)) = self.asked.recv().await {
            if let Call::Claim = call {
                self.driver.claim(self.clock.now());
            }
        }
    }

    /// Carries bytes until the stream ends: whether the switch was up, and why it ended.
    async fn carry(&mut self, mut stream: Stream) -> Result<(bool, String), Gone> {
        let mut up = false;
        let mut out: Vec<u8> = Vec::new();
        let mut sent = 0;
        let mut flushed = true;
        let mut deadline = Instant::now();
        let mut buffer = vec![0; 64 << 10];
        // Orders that are not answered, and when they were given.
        let mut open: VecDeque<(u64, Instant)> = VecDeque::new();
        loop {
            while let Some(event) = self.driver.event() {
                match event {
                    DriverEvent::Up { device, ports } => {
                        up = true;
                        tracing::info!(switch = %self.endpoint, device, ports, "switch up");
                        let switch = self.switch;
                        self.tell(Input::SwitchUp { switch, device, ports }).await?;
                    }
                    DriverEvent::Answer { id, answer } => {
                        // What it says may be as old as the order: read before this process was stopped.
                        if open.iter().any(|(of, given)| *of == id && self.is_late(given)) {
                            return Ok((up, LATE.into()));
                        }
                        open.retain(|order| order.0 != id);
                        self.tell(Input::Answer { id, answer }).await?;
                    }
                    DriverEvent::Term(term) => {
                        self.tell(Input::Term { switch: self.switch, term }).await?
                    }
                    DriverEvent::Fenced(why) => {
                        self.tell(Input::Fenced { switch: self.switch, why }).await?
                    }
                    DriverEvent::Notice(words) => tracing::debug!(words, "the switch says"),
                    DriverEvent::Down(why) => return Ok((up, why)),
                }
            }
            // This process may have been stopped since: another controller may have taken over.
            if open.front().is_some_and(|(_, given)| self.is_late(given)) {
                return Ok((up, LATE.into()));
            }
            while let Some(more) = self.driver.transmit() {
                if sent == out.len() {
                    (sent, deadline) = (0, Instant::now() + self.timing.write);
                    out.clear();
                }
                out.extend_from_slice(&more);
            }
            let timer = self.driver.next_timeout().map(|at| self.clock.at(at));
            let writes = sent < out.len();
            tokio::select! {
                read = stream.reader.read(&mut buffer) => match read {
                    Ok(0) => return Ok((up, stream.ended("it closed the stream").await)),
                    Ok(count) => {
                        let now = self.now();
                        self.driver.receive(now, &buffer[..count]);
                    }
                    Err(why) => return Ok((up, stream.ended(&why.to_string()).await)),
                },
                pushed = push(&mut stream.writer, &out[sent..]), if writes || !flushed => match pushed {
                    Ok(Some(0)) => return Ok((up, stream.ended("it takes no more").await)),
                    Ok(Some(count)) => {
                        sent += count;
                        (flushed, deadline) = (false, Instant::now() + self.timing.write);
                    }
                    Ok(None) => flushed = true,
                    Err(why) => return Ok((up, stream.ended(&why.to_string()).await)),
                },
                () = sleep_until(deadline.into()), if writes || !flushed => {
                    return Ok((up, format!("it does not read for {:?}", self.timing.write)));
                }
                () = sleep_until(timer.unwrap_or_else(Instant::now).into()), if timer.is_some() => {
                    let now = self.now();
                    self.driver.timeout(now);
                }
                call = self.asked.recv() => match call {
                    None => return Err(Gone),
                    Some((_, Call::Claim)) => {
                        let now = self.now();
                        self.driver.claim(now);
                    }
                    // Asked by one who has not seen this stream.
                    Some((seen, _)) if seen != self.stream => {}
                    Some((_, Call::Reconnect)) => return Ok((up, "as asked".into())),
                    Some((_, Call::Order { id, order, given })) => {
                        let now = self.now();
                        open.push_back((id, given));
                        self.driver.order(now, id, &order);
                    }
                },
            }
        }
    }

    async fn tell(&mut self, input: Input) -> Result<(), Gone> {
        self.events.send((self.stream, input)).await.map_err(|_| Gone)
    }

    fn is_late(&self, given: &Instant) -> bool {
        given.elapsed() > self.timing.order
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

/// Writes some, or flushes when there is nothing to write: TLS keeps bytes until then. Both may be
/// given up at any time.
async fn push(
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    bytes: &[u8],
) -> io::Result<Option<usize>> {
    if bytes.is_empty() {
        writer.flush().await.map(|()| None)
    } else {
        writer.write(bytes).await.map(Some)
    }
}
