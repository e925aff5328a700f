//! How circuits are chosen unless a region's file says otherwise: the preset of fabric `mixnet`, which
//! simulations use, too. Its values stand in one place, with their sources.

use lightloom_circuits::Rates;
use lightloom_decide::{Ahead, Dark, Settings, rule};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::{BitRate, Time};
use toml::{Table, Value};

const DEFAULTS: &str = include_str!("../../../python/lightloom/presets/defaults.toml");
const FABRIC: &str = include_str!("../../../python/lightloom/presets/fabrics/mixnet.toml");
/// The optical switch that [`FABRIC`] names.
const DEVICE: &str = include_str!("../../../python/lightloom/presets/devices/polatis.toml");

/// The preset's settings.
///
/// # Errors
/// Which key of the preset is not what it should be.
///
/// ```
/// let settings = lightloom_daemon::preset::settings().unwrap();
/// assert_eq!((settings.rule.name(), settings.hysteresis), ("timed", true));
/// ```
pub fn settings() -> Result<Settings, String> {
    let defaults = Preset::new(DEFAULTS)?;
    let (fabric, device) = (Preset::new(FABRIC)?, Preset::new(DEVICE)?);
    if fabric.text("fabric.ocs.device")? != device.text("fabric.ocs.device")? {
        return Err("fabric.ocs.device: another optical switch than the one built in".into());
    }
    let rate = |key: &str| -> Result<u64, String> {
        let rate: Result<BitRate, _> = fabric.text(key)?.parse();
        rate.map(BitRate::bps).map_err(|why| format!("{key}: {why}"))
    };
    let delay: Time = device
        .text("fabric.ocs.delay")?
        .parse()
        .map_err(|why| format!("fabric.ocs.delay: {why}"))?;
    let nics = defaults.number("cluster.nics_per_server")?;
    let optical = fabric.number("fabric.optical_nics")?;
    Ok(Settings {
        rule: rule(fabric.text("fabric.decision")?)?,
        hysteresis: fabric.flag("fabric.hysteresis")?,
        keep_going: fabric.flag("fabric.greedy_continue")?,
        rates: Rates {
            optical_bps: rate("fabric.ocs.link_bandwidth")?,
            packet_bps: rate("fabric.eps.link_bandwidth")?,
            packet_nics: nics.saturating_sub(optical),
            share_eps: fabric.flag("fabric.share_eps")?,
        },
        dark: Dark { switch: ReconfigurationDelay::Fixed { ps: delay }, activation: Time::ZERO },
        ahead: Ahead::default(),
    })
}

/// A preset's keys.
struct Preset(Table);

impl Preset {
    fn new(text: &str) -> Result<Self, String> {
        text.parse().map(Preset).map_err(|why| why.to_string())
    }

    fn get(&self, key: &str) -> Result<&Value, String> {
        let mut parts = key.split('.');
        let first = parts.next().and_then(|part| self.0.get(part));
        let found = parts.fold(first, |table, part| table.and_then(|table| table.get(part)));
        found.ok_or_else(|| format!("{key}: missing in the preset"))
    }

    fn text(&self, key: &str) -> Result<&str, String> {
        self.get(key)?.as_str().ok_or_else(|| format!("{key}: must be text"))
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        self.get(key)?.as_bool().ok_or_else(|| format!("{key}: must be true or false"))
    }

    fn number(&self, key: &str) -> Result<u32, String> {
        let number = self.get(key)?.as_integer().and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| format!("{key}: must be a number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A decider without a preset is one of the preset.
    #[test]
    fn the_preset_is_what_a_decider_is_by_default() {
        let (preset, plain) = (settings().expect("a preset"), Settings::default());
        assert_eq!(format!("{preset:?}"), format!("{plain:?}"));
    }
}
