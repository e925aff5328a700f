//! The operator's token that a controller makes at its start when its file has no `[[token]]`, and how clients of the
//! same user find it.
//!
//! Modelled: another user of this machine, who can reach the port, and can have made any name under `/tmp`. So the
//! directory must be of this user alone, and the file in it, too; neither is reached over a symbolic link. The name
//! has address and port: a token is never sent to who listens on another address with the same port.
//! Ignored: root; other programs of the same user; who takes the port while no controller has it (TLS tells).
//! Checked: below, and with real daemons in `tests/all/controller/own_token.rs`.

use crate::auth::{Access, Role, Token, Tokens};
use crate::failure::Failure;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, fchmod, fstat, futimens,
    mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// No token is longer \[B\].
const LONGEST: u64 = 4096;
/// How often it is looked whether the file is still there: logins that end and cleaners of `/tmp` take it away.
const LOOK: Duration = Duration::from_secs(60);

/// Why a token cannot be written, or may not be used.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The directory or the file is not this user's alone.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// The directory or the file.
        path: PathBuf,
        /// What is wrong with it, and what is allowed.
        why: String,
    },
    /// It cannot be read or written.
    #[error("{}: {}", path.display(), std::io::Error::from(*why))]
    Failed {
        /// The directory or the file.
        path: PathBuf,
        /// Why not.
        why: Errno,
    },
}

impl TokenError {
    /// The end of a process: with exit code 2 if the place is unsafe. `instead` says how to name another.
    fn ends(self, instead: &str) -> Failure {
        match self {
            TokenError::Unsafe { .. } => Failure::Input(format!("{self} (or give {instead})")),
            TokenError::Failed { .. } => Failure::Run(format!("{self} (or give {instead})")),
        }
    }
}

/// A directory that is open, whatever its name leads to later.
struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    owner: u32,
}

/// Who may own a directory, and which bits of its mode must be clear.
#[derive(Clone, Copy)]
enum Rule {
    /// This user, and nobody else may enter.
    Ours,
    /// This user or root, and nobody else may write.
    Named,
    /// As `Ours`, but root also takes what is of the service's user.
    Service,
}

impl Directory {
    /// Opens one. None if there is none.
    fn open(path: &Path, rule: Rule) -> Result<Option<Self>, TokenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let wrong = |why: String| TokenError::Unsafe { path: path.into(), why };
        let failed = |why| TokenError::Failed { path: path.into(), why };
        let fd = match openat(CWD, path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(wrong("must be a directory, and no symbolic link".into()));
            }
            Err(why) => return Err(failed(why)),
        };
        let found = fstat(&fd).map_err(failed)?;
        let (user, owner, mode) = (geteuid().as_raw(), found.st_uid, found.st_mode & 0o777);
        let (may_own, must_not, allowed) = match rule {
            Rule::Ours => (owner == user, 0o077, "0700"),
            Rule::Named => (owner == user || owner == 0, 0o022, "0755 or less"),
            Rule::Service => (owner == user || user == 0, 0o077, "0700"),
        };
        if !may_own {
            return Err(wrong(format!("is of user {owner}: must be of this user, {user}")));
        }
        if mode & must_not != 0 {
            return Err(wrong(format!("its mode is {mode:04o}: must be {allowed}")));
        }
        Ok(Some(Directory { fd, path: path.into(), owner }))
    }

    /// Opens one, or makes it.
    fn make(path: &Path) -> Result<Self, TokenError> {
        let failed = |why| TokenError::Failed { path: path.into(), why };
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(why) => return Err(failed(why)),
        }
        Directory::open(path, Rule::Ours)?.ok_or_else(|| failed(Errno::NOENT))
    }

    /// The token in a file of this directory. None if there is no such file.
    fn read(&self, name: &str) -> Result<Option<(String, File)>, TokenError> {
        let path = self.path.join(name);
        let wrong = |why: String| TokenError::Unsafe { path: path.clone(), why };
        let failed = |why| TokenError::Failed { path: path.clone(), why };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(wrong("must be a file, and no symbolic link".into())),
            Err(why) => return Err(failed(why)),
        };
        let found = fstat(&fd).map_err(failed)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(wrong("must be a file".into()));
        }
        let (owner, mode) = (found.st_uid, found.st_mode & 0o777);
        if owner != self.owner {
            return Err(wrong(format!("is of user {owner}: must be of user {}", self.owner)));
        }
        if mode & 0o077 != 0 {
            return Err(wrong(format!("others may use it, its mode is {mode:04o}: must be 0600")));
        }
        let (mut file, mut text) = (File::from(fd), String::new());
        let read = (&mut file).take(LONGEST).read_to_string(&mut text);
        let token = text.trim();
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if read.is_err() || !is_token {
            return Err(wrong("must hold one token, in one line".into()));
        }
        Ok(Some((token.into(), file)))
    }

    /// Writes a file of this directory, whole or not at all, in place of the one that may be there.
    fn write(&self, name: &str, token: &str) -> Result<(), TokenError> {
        let failed = |why| TokenError::Failed { path: self.path.join(name), why };
        let draft = format!(".{name}.new");
        // One that is left of a controller that was killed: nobody else can write here.
        let _ = unlinkat(&self.fd, draft.as_str(), AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = openat(&self.fd, draft.as_str(), flags | OFlags::CLOEXEC, mode);
        let fd = fd.map_err(failed)?;
        let written = fchmod(&fd, mode).and_then(|()| {
            let mut file = File::from(fd);
            let written = writeln!(file, "{token}");
            written.map_err(|why| Errno::from_io_error(&why).unwrap_or(Errno::IO))
        });
        let written = written.and_then(|()| renameat(&self.fd, draft.as_str(), &self.fd, name));
        written.map_err(|why| {
            // Nothing half-written is left.
            let _ = unlinkat(&self.fd, draft.as_str(), AtFlags::empty());
            failed(why)
        })
    }
}

/// A directory that tokens may be in.
struct Place {
    path: PathBuf,
    rule: Rule,
}

/// Where tokens of this user may be, the best first. To write, root takes none that is another's.
fn places(to_read: bool) -> Vec<Place> {
    let user = geteuid().as_raw();
    let is_ours = |path: &Path| {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0)
    };
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = PathBuf::from(format!("/run/user/{user}"));
    let mut bases: Vec<PathBuf> = named.filter(|path| path.is_absolute()).into_iter().collect();
    if !bases.contains(&usual) {
        bases.push(usual);
    }
    let bases = bases.into_iter().filter(|base| is_ours(base)).map(|base| base.join("lightloom"));
    let mut places: Vec<Place> = bases.map(|path| Place { path, rule: Rule::Ours }).collect();
    // Of a service: only root can have made it.
    let service = PathBuf::from("/run/lightloom");
    let owner = std::fs::symlink_metadata(&service).ok().filter(|found| found.is_dir());
    if owner.is_some_and(|found| found.uid() == user || to_read && user == 0) {
        places.push(Place { path: service, rule: Rule::Service });
    }
    places.push(Place { path: format!("/tmp/lightloom-{user}").into(), rule: Rule::Ours });
    places
}

fn name(address: SocketAddr) -> String {
    match address.port() {
        0 => format!("{}-PORT.token", address.ip()),
        port => format!("{}-{port}.token", address.ip()),
    }
}

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

/// The directory of a file, open, and the file's name.
fn split(path: &Path, rule: Rule) -> Result<(Directory, String), TokenError> {
    let failed = |why| TokenError::Failed { path: path.into(), why };
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(failed(Errno::INVAL))?;
    let parent = path.parent().map(Path::as_os_str).unwrap_or_default();
    let parent = if parent.is_empty() { OsString::from(".") } else { parent.to_owned() };
    let directory = Directory::open(parent.as_ref(), rule)?.ok_or(failed(Errno::NOENT))?;
    Ok((directory, name.into()))
}
