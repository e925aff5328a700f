//! One session of a gateway: its stream, carried to the machine and back.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A controller says something by then, once it is connected,
const HELLO: Duration = Duration::from_secs(10);
/// and then at least so often: it reads the switch from time to time.
const IDLE: Duration = Duration::from_secs(3600);
/// It reads by then what it is told.
const STALL: Duration = Duration::from_secs(10);

/// What becomes of a session.
pub(super) enum Heard {
    /// The controller says something.
    Bytes(Vec<u8>),
    /// The stream is closed, and why.
    Closed(&'static str),
}

/// Carries a session to its end: that of the stream, or of what it is to be told.
pub(super) async fn carry(
    stream: TcpStream,
    session: u64,
    hears: mpsc::Sender<(u64, Heard)>,
    told: mpsc::Receiver<String>,
) {
    let why = exchange(stream, session, &hears, told).await;
    // A gateway that is gone needs no word.
    let _ = hears.send((session, Heard::Closed(why))).await;
}

async fn exchange(
    mut stream: TcpStream,
    session: u64,
    hears: &mpsc::Sender<(u64, Heard)>,
    mut told: mpsc::Receiver<String>,
) -> &'static str {
    // Answers are small and somebody waits for each.
    if stream.set_nodelay(true).is_err() {
        return "closed";
    }
    let (mut reader, mut writer) = stream.split();
    let mut buffer = vec![0; 64 << 10];
    let mut patience = HELLO;
    loop {
        tokio::select! {
            text = told.recv() => {
                let Some(text) = text else {
                    let _ = timeout(STALL, writer.shutdown()).await;
                    return "closed here";
                };
                if !matches!(timeout(STALL, writer.write_all(text.as_bytes())).await, Ok(Ok(()))) {
                    return "it does not read";
                }
            }
            read = timeout(patience, reader.read(&mut buffer)) => match read {
                Ok(Ok(count @ 1..)) => {
                    patience = IDLE;
                    let bytes = buffer[..count].to_vec();
                    if hears.send((session, Heard::Bytes(bytes))).await.is_err() {
                        return "the gateway ends";
                    }
                }
                Ok(_) => return "closed by the other side",
                Err(_) => return "it says nothing",
            },
        }
    }
}
