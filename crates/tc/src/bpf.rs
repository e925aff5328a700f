//! The system call `bpf`: maps, programs, where programs are attached, and pins.
//!
//! Modelled: maps that are arrays, programs that look at frames, links to the two hooks of a NIC (TCX, Linux
//! 6.6), pins in a file system of type `bpf`, which outlive the process.
//! Ignored: everything else; nothing is read from object files.
//! Checked: `tests/kernel.rs`, on the kernel that runs the tests, where it may.

#![allow(unsafe_code)] // the one place: system calls and the memory that they are given

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use thiserror::Error;

/// What went wrong. Shown as one line.
#[derive(Debug, Error)]
pub enum Error {
    /// A NIC of that name is not in this network namespace.
    #[error("{0}: no such NIC here")]
    NoNic(String),
    /// The place for pins: what is wrong with it.
    #[error("{place}: {why}")]
    Place {
        /// The path.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The kernel would not.
    #[error("{what}: {why}")]
    Kernel {
        /// What it was asked to do.
        what: String,
        /// Its answer.
        why: io::Error,
    },
}

/// The hook of a NIC where a program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Frames that come in.
    Ingress = 46,
    /// Frames that are to leave, before they wait in a queue.
    Egress = 47,
}

const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const PROGRAM_LOAD: i32 = 5;
const PIN: i32 = 6;
const GET_PINNED: i32 = 7;
const GET_INFO: i32 = 15;
const LINK_CREATE: i32 = 28;

const BPF_FILE_SYSTEM: i64 = 0xcafe_4a11;

const TYPE_ARRAY: u32 = 2;
const TYPE_CLASSIFIER: u32 = 3;

/// An array in the kernel: entries of one size, numbered from 0.
#[derive(Debug)]
pub struct Map {
    file: OwnedFd,
    value: usize,
    entries: u32,
}

impl AsRawFd for Map {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Map {
    /// Makes an array of so many entries of `value` bytes each, all zero.
    ///
    /// # Errors
    /// If the kernel will not: no right to, as a rule.
    pub fn array(name: &str, value: usize, entries: u32) -> Result<Self, Error> {
        #[repr(C)]
        struct Attributes {
            kind: u32,
            key: u32,
            value: u32,
            entries: u32,
            flags: u32,
            inner: u32,
            numa: u32,
            name: [u8; 16],
        }
        let mut attributes = Attributes {
            kind: TYPE_ARRAY,
            key: 4,
            value: value as u32,
            entries,
            flags: 0,
            inner: 0,
            numa: 0,
            name: short(name),
        };
        let file = made(MAP_CREATE, &mut attributes, "making a map")?;
        Ok(Map { file, value, entries })
    }

    /// Opens an array that was pinned.
    ///
    /// # Errors
    /// If nothing is pinned there, or an array of another shape.
    pub fn pinned(path: &Path, value: usize) -> Result<Self, Error> {
        let file = pinned(path)?;
        // struct bpf_map_info: type, id, key size, value size, most entries.
        let info: [u32; 5] = info(&file)?;
        if info[0] != TYPE_ARRAY || info[2] != 4 || info[3] != value as u32 {
            let why = "is not a map that this program makes".into();
            return Err(Error::Place { place: path.display().to_string(), why });
        }
        Ok(Map { file, value, entries: info[4] })
    }

    /// How many entries there are.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// If there is none of that number.
    pub fn get(&self, key: u32) -> Result<Vec<u8>, Error> {
        // The kernel writes values in multiples of 8 bytes.
        let mut value = vec![0u64; self.value.div_ceil(8)];
        self.element(MAP_LOOKUP, key, value.as_mut_ptr() as u64, "reading a map")?;
        let bytes = value.iter().flat_map(|word| word.to_ne_bytes());
        Ok(bytes.take(self.value).collect())
    }

    /// Writes an entry. A frame sees all of it, or what was before.
    ///
    /// # Errors
    /// If there is none of that number.
    ///
    /// # Panics
    /// If `value` is not of the size that entries have.
    pub fn set(&self, key: u32, value: &[u8]) -> Result<(), Error> {
        assert_eq!(value.len(), self.value);
        self.element(MAP_UPDATE, key, value.as_ptr() as u64, "writing a map")
    }

    fn element(&self, command: i32, key: u32, value: u64, what: &str) -> Result<(), Error> {
        #[repr(C)]
        struct Attributes {
            map: u32,
            pad: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let key = &raw const key as u64;
        let map = self.file.as_raw_fd() as u32;
        let mut attributes = Attributes { map, pad: 0, key, value, flags: 0 };
        call(command, &mut attributes, what).map(drop)
    }

    /// Keeps it under a name in a file system of type `bpf`.
    ///
    /// # Errors
    /// If it is no such file system, or the name is taken.
    pub fn pin(&self, path: &Path) -> Result<(), Error> {
        pin(&self.file, path)
    }
}

/// A program that the kernel has verified.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Loads a program that looks at frames.
    ///
    /// # Errors
    /// If the kernel's verifier refuses it; with the end of what it says.
    pub fn classifier(name: &str, code: &[u8]) -> Result<Self, Error> {
        #[repr(C)]
        struct Attributes {
            kind: u32,
            instructions: u32,
            code: u64,
            license: u64,
            log_level: u32,
            log_size: u32,
            log: u64,
            kernel: u32,
            flags: u32,
            name: [u8; 16],
        }
        let mut log = vec![0u8; 1 << 16];
        let mut attributes = Attributes {
            kind: TYPE_CLASSIFIER,
            instructions: (code.len() / 8) as u32,
            code: code.as_ptr() as u64,
            license: c"Apache-2.0".as_ptr() as u64,
            log_level: 1,
            log_size: log.len() as u32,
            log: log.as_mut_ptr() as u64,
            kernel: 0,
            flags: 0,
            name: short(name),
        };
        let loaded = made(PROGRAM_LOAD, &mut attributes, "loading a program");
        loaded.map(Program).map_err(|error| match error {
            Error::Kernel { what, why } if log[0] != 0 => {
                let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
                let said = String::from_utf8_lossy(&log[..end]).into_owned();
                let line = said.lines().rfind(|line| !line.starts_with("processed")).unwrap_or("");
                Error::Kernel { what: format!("{what}: {line}"), why }
            }
            error => error,
        })
    }

    /// Attaches it to a NIC of this network namespace. It is gone when the [`Link`] is closed, unless that is
    /// pinned, and when the NIC is.
    ///
    /// # Errors
    /// If there is no such NIC, or the kernel is older than Linux 6.6.
    pub fn attach(&self, nic: &str, hook: Hook) -> Result<Link, Error> {
        #[repr(C)]
        struct Attributes {
            program: u32,
            nic: u32,
            hook: u32,
            flags: u32,
            relative: u32,
            pad: u32,
            revision: u64,
        }
        let program = self.0.as_raw_fd() as u32;
        let (nic_number, hook) = (number_of(nic)?, hook as u32);
        let (flags, relative, pad, revision) = (0, 0, 0, 0);
        let nic_and = format!("attaching a program to {nic}");
        let nic = nic_number;
        let mut attributes = Attributes { program, nic, hook, flags, relative, pad, revision };
        made(LINK_CREATE, &mut attributes, &nic_and).map(Link)
    }
}

/// A program at the hook of a NIC.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Opens one that was pinned.
    ///
    /// # Errors
    /// If nothing is pinned there.
    pub fn pinned(path: &Path) -> Result<Self, Error> {
        pinned(path).map(Link)
    }

    /// As [`Map::pin`].
    ///
    /// # Errors
    /// As there.
    pub fn pin(&self, path: &Path) -> Result<(), Error> {
        pin(&self.0, path)
    }

    /// The NIC's name, or none if it is gone or in another network namespace.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn nic(&self) -> Result<Option<String>, Error> {
        // struct bpf_link_info: type, id, program, -, and of TCX the NIC's number and the hook.
        let info: [u32; 6] = info(&self.0)?;
        Ok(name_of(info[4]))
    }
}

/// Whether something can be pinned there.
///
/// # Errors
/// If that is not in a file system of type `bpf`.
///
/// ```
/// let why = lightloom_tc::bpf::may_be_pinned(std::path::Path::new("/filter")).unwrap_err();
/// assert!(why.to_string().starts_with("/filter: must be in a file system of type bpf"));
/// ```
pub fn may_be_pinned(path: &Path) -> Result<(), Error> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let name = c_path(directory)?;
    // SAFETY: all zero is a value of this type.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero, and `found` is what the call writes.
    if unsafe { libc::statfs(name.as_ptr(), &mut found) } != 0 {
        let why = io::Error::last_os_error();
        return Err(at(directory, Error::Kernel { what: String::new(), why }));
    }
    if found.f_type as i64 != BPF_FILE_SYSTEM {
        let why = "must be in a file system of type bpf, such as /sys/fs/bpf".into();
        return Err(Error::Place { place: path.display().to_string(), why });
    }
    Ok(())
}

fn pin(file: &OwnedFd, path: &Path) -> Result<(), Error> {
    let (name, mut attributes) = object(path, file.as_raw_fd() as u32)?;
    let done = call(PIN, &mut attributes, "");
    drop(name);
    done.map(drop).map_err(|error| at(path, error))
}

fn pinned(path: &Path) -> Result<OwnedFd, Error> {
    let (name, mut attributes) = object(path, 0)?;
    let file = made(GET_PINNED, &mut attributes, "");
    drop(name);
    file.map_err(|error| at(path, error))
}

#[repr(C)]
struct Object {
    path: u64,
    file: u32,
    flags: u32,
}

/// The path as the kernel wants it, which must live as long as what names it.
fn object(path: &Path, file: u32) -> Result<(CString, Object), Error> {
    let name = c_path(path)?;
    let attributes = Object { path: name.as_ptr() as u64, file, flags: 0 };
    Ok((name, attributes))
}

fn c_path(path: &Path) -> Result<CString, Error> {
    let zero = || Error::Place {
        place: path.display().to_string(),
        why: "a path has no zero byte".into(),
    };
    CString::new(path.as_os_str().as_bytes()).map_err(|_| zero())
}

fn at(path: &Path, error: Error) -> Error {
    let place = path.display().to_string();
    match error {
        Error::Kernel { why, .. } => Error::Place { place, why: why.to_string() },
        error => error,
    }
}

/// The first words of what the kernel says of a map or a link.
fn info<const WORDS: usize>(file: &OwnedFd) -> Result<[u32; WORDS], Error> {
    #[repr(C)]
    struct Attributes {
        file: u32,
        size: u32,
        info: u64,
    }
    let mut words = [0u32; WORDS];
    let mut attributes = Attributes {
        file: file.as_raw_fd() as u32,
        size: size_of_val(&words) as u32,
        info: words.as_mut_ptr() as u64,
    };
    call(GET_INFO, &mut attributes, "asking what is pinned").map(|_| words)
}

/// At most 15 characters, and a zero.
fn short(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    bytes
}

fn made<T>(command: i32, attributes: &mut T, what: &str) -> Result<OwnedFd, Error> {
    let file = call(command, attributes, what)?;
    // SAFETY: these commands answer with a new file descriptor, which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

fn call<T>(command: i32, attributes: &mut T, what: &str) -> Result<RawFd, Error> {
    // SAFETY: each caller gives the attributes of its command, `repr(C)` and whole; the memory that they point
    // to is of the size that they say, and outlives the call.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes as *mut T, size_of::<T>() as libc::c_uint)
    };
    if answer < 0 {
        return Err(Error::Kernel { what: what.into(), why: io::Error::last_os_error() });
    }
    Ok(answer as RawFd)
}

/// The number of a NIC of this network namespace.
///
/// # Errors
/// If there is none of that name.
pub fn number_of(nic: &str) -> Result<u32, Error> {
    let no_nic = || Error::NoNic(nic.into());
    let name = CString::new(nic).map_err(|_| no_nic())?;
    // SAFETY: the name ends with a zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(no_nic()),
        number => Ok(number),
    }
}

fn name_of(number: u32) -> Option<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: there is room for the longest name.
    let found = unsafe { libc::if_indextoname(number, name.as_mut_ptr().cast()) };
    let end = name.iter().position(|&byte| byte == 0)?;
    (!found.is_null()).then(|| String::from_utf8_lossy(&name[..end]).into_owned())
}
