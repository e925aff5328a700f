//! Where a controller is, and the token that it is shown.
//!
//! Controllers start anew under agents, and one that makes its own token has another then. So the token is read
//! again for every stream, and an agent that is refused has only failed if its token is still the same.

use crate::failure::Failure;
use crate::own_token;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Uri};
use tonic::{Code, Request, Status};

/// A controller is reached by then, or tried anew.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Where a controller is, and who we are to it.
#[derive(Clone, Debug, clap::Args)]
pub struct Controller {
    /// Address of the controller
    #[arg(long = "controller", default_value = "http://127.0.0.1:8470", value_name = "URL")]
    pub url: String,
    /// A file with our token; without it, on this machine, the token that the controller has made for this user
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A file with the authority of its certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

impl Controller {
    /// That a stream to it could be opened, but for its answer.
    ///
    /// # Errors
    /// If the address, the token or the authority cannot be used.
    pub fn check(&self) -> Result<(), Failure> {
        self.token().and_then(|_| self.endpoint()).map(drop)
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::Input(format!("--controller: {}: {why}", self.url))
        };
        let tls = match self.url.split_once("://") {
            Some(("http", _)) => false,
            Some(("https", _)) => true,
            _ => return Err(wrong(&"must begin with http:// or https://")),
        };
        let endpoint = Endpoint::from_shared(self.url.clone()).map_err(|why| wrong(&why))?;
        // A name can have several addresses, and a token is for who listens on one.
        let endpoint = match self.own() {
            Some(address) if !tls => {
                Endpoint::from_shared(format!("http://{address}")).map_err(|why| wrong(&why))?
            }
            _ => endpoint,
        };
        let endpoint = endpoint
            .connect_timeout(PATIENCE)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(2))
            .keep_alive_timeout(PATIENCE);
        let Some(ca) = &self.ca else {
            return if tls { Err(wrong(&"needs --ca, whom to trust")) } else { Ok(endpoint) };
        };
        if !tls {
            return Err(wrong(&"--ca is for https://"));
        }
        let pem = std::fs::read(ca)
            .map_err(|why| Failure::Input(format!("--ca: {}: {why}", ca.display())))?;
        let trust = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
        endpoint.tls_config(trust).map_err(|why| wrong(&why))
    }

    /// The address on this machine by which it is called. `localhost` is the first of loopback.
    fn here(&self) -> Option<SocketAddr> {
        let uri: Uri = self.url.parse().ok()?;
        let host = uri.host()?.trim_matches(['[', ']']);
        let ip: IpAddr = match host.eq_ignore_ascii_case("localhost") {
            true => Ipv4Addr::LOCALHOST.into(),
            false => host.parse().ok()?,
        };
        let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let address = SocketAddr::new(ip, uri.port_u16().unwrap_or(usual));
        ip.is_loopback().then_some(address)
    }

    /// The address of whose own token is looked for.
    fn own(&self) -> Option<SocketAddr> {
        self.here().filter(|_| self.token_file.is_none())
    }

    /// A token goes over TLS, or stays on this machine.
    fn may_tell(&self) -> Result<(), Failure> {
        // What is no address is said elsewhere.
        let Ok(uri) = self.url.parse::<Uri>() else { return Ok(()) };
        if self.here().is_some() || uri.scheme_str() == Some("https") {
            return Ok(());
        }
        let url = &self.url;
        Err(Failure::Input(format!(
            "--controller: {url}: a token goes over https:// off this machine"
        )))
    }

    /// The token as it is now. None if no file is named, and there is none that a controller has made.
    fn token(&self) -> Result<Option<MetadataValue<Ascii>>, Failure> {
        let header = |token: &str| -> Option<MetadataValue<Ascii>> {
            let mut header: MetadataValue<Ascii> = format!("Bearer {token}").parse().ok()?;
            header.set_sensitive(true);
            Some(header)
        };
        let Some(file) = &self.token_file else {
            let Some(address) = self.own() else { return Ok(None) };
            return Ok(own_token::find(address)?.and_then(|token| header(&token)));
        };
        self.may_tell()?;
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::Input(format!("--token-file: {}: {why}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(|why| wrong(&why))?;
        header(text.trim()).ok_or_else(|| wrong(&"not a token")).map(Some)
    }
}

/// The token of a link.
pub(crate) struct Bearer {
    controller: Controller,
    shown: Option<MetadataValue<Ascii>>,
}

impl Bearer {
    /// The token of now.
    ///
    /// # Errors
    /// If it cannot be used; not if there is none yet.
    pub fn new(controller: &Controller) -> Result<Self, Failure> {
        Ok(Bearer { controller: controller.clone(), shown: controller.token()? })
    }

    /// Reads it again; says whether it is another. What cannot be read now is what it was.
    pub async fn renew(&mut self) -> bool {
        let controller = self.controller.clone();
        // A file may be on a disk that hangs.
        let read = tokio::task::spawn_blocking(move || controller.token()).await;
        let found = match read {
            Ok(Ok(found)) => found,
            Ok(Err(why)) => {
                tracing::debug!(%why, "the token cannot be read again");
                None
            }
            Err(_) => None,
        };
        let is_new = found.is_some() && found != self.shown;
        if is_new {
            self.shown = found;
        }
        is_new
    }

    /// After a refusal: whether another token is there, to be tried at once.
    pub async fn is_outdated(&mut self, why: &Status) -> bool {
        why.code() == Code::Unauthenticated && self.renew().await
    }

    /// A message that shows it.
    pub fn with<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.shown {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    /// What a refusal says, and where no token was found if that is why.
    pub fn words(&self, status: &Status) -> String {
        let words = match status.message() {
            "" => format!("{:?}", status.code()),
            words => words.into(),
        };
        let address = self.controller.own().filter(|_| status.code() == Code::Unauthenticated);
        let Some(address) = address else { return words };
        let path = own_token::usual_path(address);
        let found = if self.shown.is_none() { "this user has none" } else { "it is not the one" };
        format!("{words}; {found} at {} (--token-file)", path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Controller {
        Controller { url: url.into(), token_file: None, ca: None }
    }

    #[test]
    fn this_machine_is_told_from_others() {
        for (url, address) in [
            ("http://127.0.0.1:8470", "127.0.0.1:8470"),
            ("http://localhost:8470", "127.0.0.1:8470"),
            ("https://LocalHost", "127.0.0.1:443"),
            ("http://[::1]:9/", "[::1]:9"),
            ("http://127.9.9.9", "127.9.9.9:80"),
        ] {
            assert_eq!(at(url).here().map(|at| at.to_string()).as_deref(), Some(address), "{url}");
        }
        for url in ["http://10.0.0.1:8470", "https://control-0:8470", "http://[2001:db8::1]", "x"] {
            assert_eq!(at(url).here(), None, "{url}");
        }
        let named = Controller { token_file: Some("token".into()), ..at("http://127.0.0.1:8470") };
        assert_eq!((named.own(), at("https://control-0").own()), (None, None));
    }

    #[test]
    fn a_token_is_for_one_address_and_not_for_all_of_a_name() {
        let endpoint = at("http://localhost:8470").endpoint().expect("an endpoint");
        assert_eq!(endpoint.uri().to_string(), "http://127.0.0.1:8470/");
    }
}
