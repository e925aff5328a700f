//! The operator's token that a controller makes at its start when its file has no `[[token]]`, and how clients of the
//! same user find it.
//!
//! Modelled: another user of this machine, who can reach the port, and can have made any name where temporary files are. So
//! the directory must be of this user alone, and the file in it, too; neither is reached over a symbolic link. The name
//! has address and port: a token is never sent to who listens on another address with the same port.
//! Ignored: root; other programs of the same user; who takes the port while no controller has it (TLS tells).
//! Checked: that it stays below; with real daemons in `tests/all/controller/own_token.rs`.

mod place;

pub use place::TokenError;

use crate::auth::{Access, Role, Token, Tokens};
use crate::failure::Failure;
use place::{Directory, Place, Rule, name, places, split};
use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_NOW, futimens, unlinkat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// How often it is looked whether the file is still there: logins that end and cleaners of temporary files take it away.
const LOOK: Duration = Duration::from_secs(60);

/// Where a controller that listens there writes the token that it makes, unless its file names another place.
pub fn usual_path(address: SocketAddr) -> PathBuf {
    // There is always the last.
    let place = places(false).into_iter().next().map(|place| place.path);
    place.unwrap_or_default().join(name(address))
}

/// The token that a controller of this user, which listens there, has made. None if there is no such file.
///
/// # Errors
/// [`Failure::Input`] if it is not of this user alone.
pub fn find(address: SocketAddr) -> Result<Option<String>, Failure> {
    let found = || {
        for Place { path, rule } in places(true) {
            let Some(directory) = Directory::open(&path, rule)? else { continue };
            if let Some((token, _)) = directory.read(&name(address))? {
                return Ok(Some(token));
            }
        }
        Ok(None)
    };
    found().map_err(|why: TokenError| why.ends("--token-file"))
}

/// A token that was made, and its file, which goes with it.
pub struct OwnToken {
    secret: String,
    address: SocketAddr,
    /// The place, if it is named.
    named: Option<PathBuf>,
    path: PathBuf,
}

impl OwnToken {
    /// Makes one for a controller that has bound this address, and writes it to the file that is named, or else
    /// where clients of this user look.
    ///
    /// # Errors
    /// [`Failure::Input`] if the directory is not of this user alone; [`Failure::Run`] if it cannot be written.
    pub fn make(address: SocketAddr, named: Option<&Path>) -> Result<Self, Failure> {
        let mut bytes = [0; 32];
        let got = getrandom(&mut bytes, GetRandomFlags::empty());
        if got != Ok(bytes.len()) {
            return Err(Failure::Run("the system has no random numbers for a token".into()));
        }
        let secret = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut made =
            OwnToken { secret, address, named: named.map(Path::to_owned), path: PathBuf::new() };
        made.write().map_err(|why| why.ends("listen.token_file, or a [[token]]"))?;
        Ok(made)
    }

    /// Makes one if there are no tokens, and lets it in: for who has begun to listen, and answers nobody yet.
    ///
    /// # Errors
    /// As [`OwnToken::make`].
    pub fn unless(
        tokens: &Tokens,
        listener: &TcpListener,
        named: Option<&Path>,
    ) -> Result<Option<Self>, Failure> {
        if !tokens.is_empty() {
            return Ok(None);
        }
        let address = listener.local_addr().map_err(|why| Failure::Run(why.to_string()))?;
        let made = OwnToken::make(address, named)?;
        tokens.replace(Tokens::new(vec![made.token()]));
        tracing::info!(file = %made.path().display(), "an operator's token is there for this user");
        Ok(Some(made))
    }

    fn write(&mut self) -> Result<(), TokenError> {
        if let Some(path) = &self.named {
            let (directory, name) = split(path, Rule::Named)?;
            directory.write(&name, &self.secret)?;
            self.path = path.clone();
            return Ok(());
        }
        let name = name(self.address);
        let mut places = places(false).into_iter();
        let Some(Place { path, rule }) = places.next() else { return Ok(()) };
        let directory = match rule {
            Rule::Service => Directory::open(&path, rule)?
                .ok_or(TokenError::Failed { path, why: Errno::NOENT })?,
            _ => Directory::make(&path)?,
        };
        directory.write(&name, &self.secret)?;
        self.path = directory.path.join(&name);
        // The address is ours: what other controllers have left of it is worth nothing.
        for Place { path, rule } in places {
            if let Ok(Some(directory)) = Directory::open(&path, rule) {
                let _ = unlinkat(&directory.fd, name.as_str(), AtFlags::empty());
            }
        }
        Ok(())
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of it: its digest, and that an operator has it.
    pub fn token(&self) -> Token {
        Token::of(Access::new("own token", Role::Operator), &self.secret)
    }

    /// Has the file stay for as long as the controller runs. One that another controller has written, which has
    /// the same address in another network namespace, is left. Never ends.
    pub async fn stay(own: &mut Option<Self>) {
        loop {
            sleep(LOOK).await;
            if let Some(Err(why)) = own.as_mut().map(OwnToken::renew) {
                tracing::warn!(%why, "the file of the token");
            }
        }
    }

    fn renew(&mut self) -> Result<(), TokenError> {
        match self.found() {
            Ok(Some((_, found, file))) => {
                if found == self.secret {
                    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
                    let _ =
                        futimens(&file, &Timestamps { last_access: now, last_modification: now });
                }
                Ok(())
            }
            Ok(None) => self.write(),
            Err(why) => Err(why),
        }
    }

    /// The file as it is now, and what it holds.
    fn found(&self) -> Result<Option<(Directory, String, File)>, TokenError> {
        let rule = if self.named.is_some() { Rule::Named } else { Rule::Service };
        let (directory, name) = match split(&self.path, rule) {
            Err(TokenError::Failed { why: Errno::NOENT, .. }) => return Ok(None),
            other => other?,
        };
        let found = directory.read(&name)?;
        Ok(found.map(|(token, file)| (directory, token, file)))
    }
}

impl Drop for OwnToken {
    fn drop(&mut self) {
        if let Ok(Some((directory, found, _))) = self.found()
            && found == self.secret
            && let Some(name) = self.path.file_name()
        {
            let _ = unlinkat(&directory.fd, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{DirBuilder, read_to_string, write};
    use std::os::unix::fs::DirBuilderExt;

    #[test]
    fn it_is_there_for_as_long_as_its_controller_and_no_longer() {
        let name = format!("lightloom-own-token-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        DirBuilder::new().mode(0o700).create(&folder).expect("a folder");
        let (file, address) = (folder.join("token"), "127.0.0.1:1".parse().expect("an address"));
        let mut own = OwnToken::make(address, Some(&file)).expect("made");
        let tokens = Tokens::new(vec![own.token()]);
        let held = || read_to_string(&file).ok().map(|text| format!("Bearer {}", text.trim()));
        assert!(tokens.access(held().as_deref()).expect("known").operates());
        // What somebody takes away comes back,
        std::fs::remove_file(&file).expect("it is there");
        own.renew().expect("written again");
        assert!(tokens.access(held().as_deref()).is_ok());
        // and what another controller has written since is left, at the end, too.
        let other = OwnToken::make(address, Some(&file)).expect("made");
        own.renew().expect("nothing is wrong");
        drop(own);
        assert_eq!(held(), Some(format!("Bearer {}", other.secret)));
        drop(other);
        assert_eq!(held(), None);
        // A place that is gone is no reason to fail later.
        let mut own = OwnToken::make(address, Some(&file)).expect("made");
        std::fs::remove_dir_all(&folder).expect("it is ours");
        assert!(matches!(own.renew(), Err(TokenError::Failed { .. })));
        write(&folder, "no folder").expect("written");
        assert!(matches!(own.renew(), Err(TokenError::Unsafe { .. })));
        drop(own);
        std::fs::remove_file(&folder).expect("it is ours");
    }

    #[test]
    fn a_name_has_address_and_port() {
        let of = |text: &str| name(text.parse().expect("an address"));
        assert_eq!(of("127.0.0.1:8470"), "127.0.0.1-8470.token");
        assert_eq!(of("[::1]:8470"), "::1-8470.token");
        assert_eq!(of("127.0.0.1:0"), "127.0.0.1-PORT.token");
    }
}
