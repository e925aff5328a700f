//! `[listen]` and `[[token]]`: where agents, nodes and operators come, and who may.

use super::file::File;
use super::raw;
use crate::auth::{Access, Role, Token, Tokens, may_listen};
use crate::failure::Failure;
use crate::tls;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use tokio_rustls::rustls::ServerConfig;

/// What `[listen]` and `[[token]]` say.
pub(super) struct Listen {
    pub address: SocketAddr,
    /// The certificate and key, if there are any,
    pub tls: Option<Arc<ServerConfig>>,
    /// and when it ends, if it is known.
    pub expiry: Option<SystemTime>,
    /// The tokens of the file.
    pub tokens: Tokens,
    /// Where the controller writes its own, if the file has none and says so.
    pub token_file: Option<PathBuf>,
}

pub(super) fn listen(
    file: &File<'_>,
    raw: &raw::Listen,
    known: &[raw::Token],
    tenants: &[String],
) -> Result<Listen, Failure> {
    let text = raw.address.as_deref().unwrap_or("127.0.0.1:8470");
    let address: SocketAddr = text.parse().map_err(|_| {
        file.wrong("listen.address", text, "must be an IP address and a port: 127.0.0.1:8470")
    })?;
    let mut tokens = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, token) in known.iter().enumerate() {
        let key = |key: &str| format!("token[{at}].{key}");
        if token.name.is_empty() || !seen.insert(&token.name) {
            return Err(file.wrong(&key("name"), &token.name, "must be a name of its own"));
        }
        let role = match (token.role, &token.tenant) {
            (raw::RoleName::Operator, None) => Role::Operator,
            (raw::RoleName::Viewer, None) => Role::Viewer,
            (raw::RoleName::Tenant, Some(tenant)) if tenants.contains(tenant) => {
                Role::Tenant(tenant.clone())
            }
            (raw::RoleName::Tenant, tenant) => {
                let all = tenants.join(", ");
                let value = tenant.as_deref().unwrap_or("none given");
                return Err(file.wrong(&key("tenant"), value, format!("must be one of {all}")));
            }
            (_, Some(tenant)) => {
                return Err(file.wrong(&key("tenant"), tenant, "only role \"tenant\" has one"));
            }
        };
        let access = Access::new(&token.name, role);
        // A wrong digest is not shown: it may be the token itself.
        tokens.push(
            Token::new(access, &token.sha256).map_err(|why| file.lacks(&key("sha256"), why))?,
        );
    }
    let mut expiry = None;
    let tls = match (&raw.certificate, &raw.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            let (certificate, key) = (file.beside(certificate), file.beside(key));
            let config = tls::server(&certificate, &key, &[b"h2", b"http/1.1"]);
            let config = config.map_err(|why| file.lacks("listen.certificate", why))?;
            let end = tls::expiry(&certificate);
            expiry = end.map_err(|why| file.lacks("listen.certificate", why))?;
            Some(config)
        }
        (Some(_), None) => return Err(file.lacks("listen.key", "missing, with a certificate")),
        (None, Some(_)) => return Err(file.lacks("listen.certificate", "missing, with a key")),
    };
    may_listen(address, tls.is_some(), !tokens.is_empty())
        .map_err(|why| file.lacks("listen.address", why))?;
    if let (Some(path), false) = (&raw.token_file, tokens.is_empty()) {
        let allowed = "is for a controller without [[token]], which makes one";
        return Err(file.wrong("listen.token_file", path.display(), allowed));
    }
    let token_file = raw.token_file.as_deref().map(|path| file.beside(path));
    Ok(Listen { address, tls, expiry, tokens: Tokens::new(tokens), token_file })
}
