//! Where tokens of this user may be, and files there that are this user's alone.

use crate::failure::Failure;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// No token is longer \[B\].
const LONGEST: u64 = 4096;

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
    pub(super) fn ends(self, instead: &str) -> Failure {
        match self {
            TokenError::Unsafe { .. } => Failure::Input(format!("{self} (or give {instead})")),
            TokenError::Failed { .. } => Failure::Run(format!("{self} (or give {instead})")),
        }
    }
}

/// A directory that is open, whatever its name leads to later.
pub(super) struct Directory {
    pub fd: OwnedFd,
    pub path: PathBuf,
    owner: u32,
}

/// Who may own a directory, and which bits of its mode must be clear.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// This user, and nobody else may enter.
    Ours,
    /// This user or root, and nobody else may write.
    Named,
    /// This user, and for root any other: that of a service. Nobody else may write.
    Service,
}

impl Directory {
    /// Opens one. None if there is none.
    pub fn open(path: &Path, rule: Rule) -> Result<Option<Self>, TokenError> {
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
            Rule::Service => (owner == user || user == 0, 0o022, "0755 or less"),
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
    pub fn make(path: &Path) -> Result<Self, TokenError> {
        let failed = |why| TokenError::Failed { path: path.into(), why };
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(why) => return Err(failed(why)),
        }
        Directory::open(path, Rule::Ours)?.ok_or_else(|| failed(Errno::NOENT))
    }

    /// The token in a file of this directory. None if there is no such file.
    pub fn read(&self, name: &str) -> Result<Option<(String, File)>, TokenError> {
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
    pub fn write(&self, name: &str, token: &str) -> Result<(), TokenError> {
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
pub(super) struct Place {
    pub path: PathBuf,
    pub rule: Rule,
}

/// Where tokens of this user may be, the best first. To write, root takes none that is another's.
pub(super) fn places(to_read: bool) -> Vec<Place> {
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

pub(super) fn name(address: SocketAddr) -> String {
    match address.port() {
        0 => format!("{}-PORT.token", address.ip()),
        port => format!("{}-{port}.token", address.ip()),
    }
}

/// The directory of a file, open, and the file's name.
pub(super) fn split(path: &Path, rule: Rule) -> Result<(Directory, String), TokenError> {
    let failed = |why| TokenError::Failed { path: path.into(), why };
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(failed(Errno::INVAL))?;
    let parent = path.parent().map(Path::as_os_str).unwrap_or_default();
    let parent = if parent.is_empty() { OsString::from(".") } else { parent.to_owned() };
    let directory = Directory::open(parent.as_ref(), rule)?.ok_or(failed(Errno::NOENT))?;
    Ok((directory, name.into()))
}
