//! The patches of an emulated switch in a file, as those of a real one stay in its mirrors.

use crate::failure::Failure;
use lightloom_control::Patch;
use lightloom_control::ocs::Switch;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Patches as they are kept in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    pub(super) ports: u16,
    pub(super) patches: Vec<Patch>,
}

impl Kept {
    /// Replaces the file as a whole: it is never half written.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        std::fs::write(&beside, serde_json::to_vec(self)?)?;
        std::fs::rename(&beside, path)
    }
}

/// The patches of a file are on the switch from the beginning. No file is no patches.
pub(super) fn restore(path: &Path, switch: &mut Switch) -> Result<Vec<Patch>, Failure> {
    let wrong = |why: String| Failure::Input(format!("--state: {}: {why}", path.display()));
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(wrong(why.to_string())),
    };
    let kept: Kept = serde_json::from_slice(&text).map_err(|why| wrong(why.to_string()))?;
    if kept.ports != switch.ports() {
        let ports = switch.ports();
        return Err(wrong(format!("patches of {} ports; the switch has {ports}", kept.ports)));
    }
    switch.tamper(&[], &kept.patches);
    if !switch.patches().eq(kept.patches.iter().copied()) {
        return Err(wrong("patches that the switch cannot hold".into()));
    }
    Ok(kept.patches)
}
