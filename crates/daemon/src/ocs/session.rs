//! One session of an emulated switch: its stream carried to the server and back, within bounds.
//!
//! While a session does not read what we say we do not hear what it says, so it cannot pile up work;
//! what others' changes have for it meanwhile is bounded by the server. A session that says no more
//! (`printf ... | nc`) is closed when what it said is answered.

use super::shared::Shared;
use lightloom_control::drivers::tl1::{Framer, SessionId};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// A session is open, TLS and all, within this.
const OPEN: Duration = Duration::from_secs(10);
/// A command of a session is no longer \[B\], as in TL1's own server.
const MOST_COMMAND: usize = 64 << 10;
/// A session that has been denied so often before anyone logged in is closed.
const MOST_GUESSES: usize = 10;

/// How long a session may let us wait: from the settings of the emulator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) login: Duration,
    pub(super) idle: Duration,
    pub(super) stall: Duration,
}

/// A session, to its end: why it ended.
pub(super) async fn serve(
    tcp: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    shared: &Shared,
    patience: Patience,
) -> &'static str {
    // Answers are small and somebody waits for each.
    if tcp.set_nodelay(true).is_err() {
        return "closed";
    }
    let Some(tls) = tls else { return session(tcp, shared, patience).await };
    match timeout(OPEN, TlsAcceptor::from(tls).accept(tcp)).await {
        Ok(Ok(stream)) => session(stream, shared, patience).await,
        Ok(Err(_)) | Err(_) => "no TLS",
    }
}

async fn session(
    stream: impl AsyncRead + AsyncWrite,
    shared: &Shared,
    patience: Patience,
) -> &'static str {
    let waker = Arc::new(Notify::new());
    let id = {
        let mut inner = shared.lock();
        let id = inner.server.open();
        inner.wakers.insert(id, waker.clone());
        id
    };
    let open = Open { shared, id };
    open.carry(stream, &waker, patience).await
}

/// Closed when dropped: also when the task is.
struct Open<'a> {
    shared: &'a Shared,
    id: SessionId,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.server.close(self.id);
        inner.wakers.remove(&self.id);
    }
}

impl Open<'_> {
    async fn carry(
        &self,
        stream: impl AsyncRead + AsyncWrite,
        waker: &Notify,
        patience: Patience,
    ) -> &'static str {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut framer = Framer::commands(MOST_COMMAND);
        let mut buffer = vec![0; 16 << 10];
        let (mut logged_in, mut guesses, mut silent) = (false, 0, false);
        let mut deadline = Instant::now() + patience.login;
        loop {
            let (said, still) = self.shared.take(self.id);
            if !said.delay.is_zero() {
                sleep(said.delay).await;
            }
            // The server completes nothing before somebody is logged in.
            if !logged_in && count(&said.bytes, b" COMPLD\r\n") > 0 {
                logged_in = true;
                deadline = Instant::now() + patience.idle;
            }
            if !logged_in {
                guesses += count(&said.bytes, b" DENY\r\n");
            }
            let mut left = &said.bytes[..];
            while !left.is_empty() {
                match timeout(patience.stall, writer.write(left)).await {
                    Ok(Ok(count)) if count > 0 => left = &left[count..],
                    Ok(_) => return "closed by the other side",
                    Err(_) => return "it does not read",
                }
            }
            if !said.bytes.is_empty() && timeout(patience.stall, writer.flush()).await.is_err() {
                return "it does not read";
            }
            let ends = [
                (!still.open, "too much at once"),
                (said.broken, "broken, as asked"),
                (guesses >= MOST_GUESSES, "too many guesses"),
                (silent && !still.owes, "closed by the other side"),
            ];
            if let Some((_, why)) = ends.into_iter().find(|(ends, _)| *ends) {
                // What has been said shall still arrive.
                let _ = timeout(patience.stall, writer.shutdown()).await;
                return why;
            }
            tokio::select! {
                read = reader.read(&mut buffer), if !silent => match read {
                    Err(_) => return "closed by the other side",
                    Ok(0) => silent = true,
                    Ok(count) => {
                        self.shared.receive(self.id, &mut framer, &buffer[..count]);
                        if logged_in {
                            deadline = Instant::now() + patience.idle;
                        }
                    }
                },
                () = waker.notified() => {}
                () = sleep_until(deadline) => {
                    return if logged_in { "idle" } else { "nobody logged in" };
                }
            }
        }
    }
}

fn count(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).filter(|window| *window == what).count()
}
