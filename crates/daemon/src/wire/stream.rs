//! Byte streams to a switch: TCP, TLS over it, or a process that carries them (`ssh`).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Where a switch is, and how to get there.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// `host:port`.
    Tcp {
        /// `host:port` of the switch.
        address: String,
    },
    /// The same, over TLS.
    Tls {
        /// `host:port` of the switch.
        address: String,
        /// What its certificate says: [`crate::tls::name`].
        name: ServerName<'static>,
        /// Whom to trust: [`crate::tls::client`].
        config: Arc<ClientConfig>,
    },
    /// A process whose standard input and output are the stream: `ssh -s switch netconf`. It is ended
    /// with the stream.
    Command {
        /// The program, by its path or found on the PATH.
        program: String,
        /// The arguments of the program.
        arguments: Vec<String>,
    },
}

impl Endpoint {
    /// Whether it is on this machine, without TLS.
    pub fn is_loopback(&self) -> bool {
        let ip = |address: &str| address.parse().map(|address: SocketAddr| address.ip());
        matches!(self, Endpoint::Tcp { address } if ip(address).is_ok_and(|ip| ip.is_loopback()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { address } => f.write_str(address),
            Endpoint::Tls { address, .. } => write!(f, "{address} over TLS"),
            Endpoint::Command { program, arguments } => {
                f.write_str(program)?;
                arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
            }
        }
    }
}

/// An open stream.
pub struct Stream {
    /// Bytes from the switch.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Bytes for the switch.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// The last line that the process has complained with, if there is a process and a complaint.
    complaint: Arc<Mutex<Option<String>>>,
    /// Held for its end.
    child: Option<Child>,
}

impl Stream {
    fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (reader, writer) = (Box::new(reader), Box::new(writer));
        Stream { reader, writer, complaint: Arc::default(), child: None }
    }

    /// Why it ended: what the process last wrote on its standard error, or else this.
    pub async fn ended(&mut self, why: &str) -> String {
        if self.complaint().is_none() && self.child.is_some() {
            // It may yet come: it takes another pipe than that which has just ended.
            sleep(Duration::from_millis(50)).await;
        }
        self.complaint().unwrap_or_else(|| why.to_owned())
    }

    fn complaint(&self) -> Option<String> {
        self.complaint.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Opens a stream. It takes as long as the network lets it: give it a time-out.
///
/// # Errors
/// If there is nobody, or TLS does not trust whoever is there.
pub async fn open(endpoint: &Endpoint) -> io::Result<Stream> {
    match endpoint {
        Endpoint::Tcp { address } => {
            let (reader, writer) = connect(address).await?.into_split();
            Ok(Stream::new(reader, writer))
        }
        Endpoint::Tls { address, name, config } => {
            let tcp = connect(address).await?;
            let tls = TlsConnector::from(config.clone()).connect(name.clone(), tcp).await?;
            let (reader, writer) = tokio::io::split(tls);
            Ok(Stream::new(reader, writer))
        }
        Endpoint::Command { program, arguments } => {
            let mut child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .map_err(|why| io::Error::new(why.kind(), format!("{program}: {why}")))?;
            let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
                return Err(io::Error::other(format!("{program}: no pipes")));
            };
            let mut stream = Stream::new(output, input);
            if let Some(errors) = child.stderr.take() {
                tokio::spawn(listen(errors, program.clone(), stream.complaint.clone()));
            }
            stream.child = Some(child);
            Ok(stream)
        }
    }
}

async fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // Orders are small and somebody waits for each.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Until the process ends.
async fn listen(errors: ChildStderr, program: String, complaint: Arc<Mutex<Option<String>>>) {
    let mut lines = BufReader::new(errors).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line: String = String::from_utf8_lossy(&line).trim().chars().take(200).collect();
        if !line.is_empty() {
            tracing::warn!(program, "{line}");
            *complaint.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(line);
        }
    }
}
