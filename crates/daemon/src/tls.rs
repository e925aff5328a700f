//! TLS from PEM files, for those who listen and those who call.
//!
//! Modelled: a listener shows a certificate; a caller trusts one authority, that of a file, and checks
//! the listener's name. Ignored: certificates of callers, who show tokens or passwords instead; the
//! system's authorities, since a switch or a controller is nobody's public site; revocation.
//! Checked: over a real connection, with the right authority, another one and another name.

mod expiry;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use thiserror::Error;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};

/// A file that TLS cannot use.
#[derive(Debug, Error)]
pub enum TlsError {
    /// It cannot be read, or holds no such thing.
    #[error("{}: no {what} in PEM: {why}", file.display())]
    File {
        /// Path of the certificate or key.
        file: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The key is not the certificate's, or neither can be used.
    #[error("{}: {why}", file.display())]
    Pair {
        /// The file of the certificate.
        file: PathBuf,
        /// What is wrong with it.
        why: rustls::Error,
    },
    /// The certificate has ended.
    #[error("{}: the certificate has expired: make a new one", .0.display())]
    Expired(PathBuf),
    /// A name that no certificate can have.
    #[error("{0}: not the name of a host, as certificates have it")]
    Name(String),
}

/// A listener with this certificate, its chain after it, and its key. `protocols` are those of ALPN,
/// the best first (`b"h2"`, `b"http/1.1"`); none for a protocol without a name.
///
/// # Errors
/// If a file cannot be read, or they do not belong together.
pub fn server(
    certificate: &Path,
    key: &Path,
    protocols: &[&[u8]],
) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|why| file(key, "private key", why))?;
    let pair = |why| TlsError::Pair { file: certificate.into(), why };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(pair)?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

/// When a listener's certificate ends: the earliest end in its chain. Of one in a form that is not known, never.
///
/// # Errors
/// If the file cannot be read, or that time is over.
pub fn expiry(certificate: &Path) -> Result<Option<SystemTime>, TlsError> {
    let chain = certificates(certificate)?;
    let end = chain.iter().filter_map(|one| expiry::not_after(one)).min();
    match end {
        Some(end) if end <= SystemTime::now() => Err(TlsError::Expired(certificate.into())),
        end => Ok(end),
    }
}

/// A caller that trusts the authorities of a file.
///
/// # Errors
/// If the file cannot be read, or holds none.
pub fn client(authorities: &Path) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    let wrong = |why| TlsError::Pair { file: authorities.into(), why };
    for certificate in certificates(authorities)? {
        roots.add(certificate).map_err(wrong)?;
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The name, or the IP address, that a listener's certificate must have.
///
/// ```
/// use lightloom_daemon::tls;
/// assert!(tls::name("ocs.example").is_ok() && tls::name("::1").is_ok());
/// assert!(tls::name("no name").is_err());
/// ```
///
/// # Errors
/// If it can be neither.
pub fn name(text: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(text.to_owned()).map_err(|_| TlsError::Name(text.to_owned()))
}

/// Named here, so that nothing depends on which one another crate has made the process's.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::File { file: path.into(), what: "certificate", why };
    let all: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|why| file(path, "certificate", why))?;
    if all.is_empty() { Err(wrong("there is none".into())) } else { Ok(all) }
}

fn file(path: &Path, what: &'static str, why: rustls::pki_types::pem::Error) -> TlsError {
    TlsError::File { file: path.into(), what, why: why.to_string() }
}
