//! A region's file as messages name it, and values that are read from it with bounds.

use crate::failure::Failure;
use lightloom_units::{BitRate, Time};
use std::path::{Path, PathBuf};

/// Where messages come from.
pub(super) struct File<'a> {
    pub path: &'a Path,
}

impl File<'_> {
    pub fn beside(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    pub fn wrong(&self, key: &str, value: impl ToString, allowed: impl ToString) -> Failure {
        let (value, allowed) = (value.to_string(), allowed.to_string());
        Failure::Input(format!("{}: {key}: {value}: {allowed}", self.path.display()))
    }

    pub fn lacks(&self, key: &str, why: impl ToString) -> Failure {
        Failure::Input(format!("{}: {key}: {}", self.path.display(), why.to_string()))
    }

    pub fn syntax(&self, text: &str, why: &toml::de::Error) -> Failure {
        let line =
            why.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let message = why.message().replace('\n', "; ");
        Failure::Input(format!("{}{line}: {message}", self.path.display()))
    }

    /// A time within bounds, or what it is when the file does not say.
    pub fn time(
        &self,
        key: &str,
        text: &Option<String>,
        default: Time,
        bounds: (Time, Time),
    ) -> Result<Time, Failure> {
        let Some(text) = text else { return Ok(default) };
        let time: Time = text.parse().map_err(|why| self.lacks(key, why))?;
        let (least, most) = bounds;
        if time < least || time > most {
            return Err(self.wrong(key, text, format!("must be from {least} to {most}")));
        }
        Ok(time)
    }

    pub fn rate(&self, key: &str, text: &Option<String>, default: u64) -> Result<u64, Failure> {
        let Some(text) = text else { return Ok(default) };
        let rate: BitRate = text.parse().map_err(|why| self.lacks(key, why))?;
        if rate.bps() == 0 {
            return Err(self.wrong(key, text, "must be more than nothing"));
        }
        Ok(rate.bps())
    }
}
