//! Parts of a split as they are written: `ring:3*1,all:8*7`.

use super::{DimensionSpec, Share, Wiring, refused};
use lightloom_fabric::FabricError;
use lightloom_fabric::railx::Grid;
use std::fmt::{Display, Formatter, Result as Written};

impl DimensionSpec {
    /// Reads the parts of an axis. Rails are dealt evenly, the first parts having more, if no part
    /// says how many it gets.
    ///
    /// ```
    /// use lightloom_fabric::railx::Grid;
    /// use lightloom_railx::{DimensionSpec, Share};
    /// let hall = Grid::new(4, 2, 128, 1, 1);
    /// let parts = DimensionSpec::read("x", "ring:3*1, all:8*7", hall, Share::Uneven)?;
    /// assert_eq!(parts[1].to_string(), "all:8*7");
    /// let dealt = DimensionSpec::read("x", "ring:3,ring:4,ring:2", hall, Share::Uneven)?;
    /// assert_eq!(dealt.iter().map(|part| part.rails).collect::<Vec<_>>(), [3, 3, 2]);
    /// # Ok::<(), lightloom_fabric::FabricError>(())
    /// ```
    ///
    /// # Errors
    /// If the text is something else, or some parts say how many rails they get and some do not.
    pub fn read(key: &str, text: &str, hall: Grid, share: Share) -> Result<Vec<Self>, FabricError> {
        let parts: Option<Vec<_>> = text.split(',').map(|part| read_part(part.trim())).collect();
        let Some(parts) = parts else {
            return Err(refused(key, text, "must be parts such as ring:3*1,all:3*1"));
        };
        let said = parts.iter().filter(|part| part.2.is_some()).count();
        if said != 0 && said != parts.len() {
            let reason = "all parts must say how many rails they get, or none";
            return Err(refused(key, text, reason));
        }
        let (owned, count) = (share.units(hall), parts.len() as u32);
        let dealt = |at: u32| owned / count + u32::from(at < owned % count);
        let part = |(at, (wiring, scale, rails)): (u32, (Wiring, u32, Option<u32>))| {
            DimensionSpec { wiring, scale, rails: rails.unwrap_or_else(|| dealt(at)) }
        };
        Ok((0..).zip(parts).map(part).collect())
    }
}

fn read_part(part: &str) -> Option<(Wiring, u32, Option<u32>)> {
    let number = |text: &str| {
        let digits = (1..=6).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let (name, rest) = part.split_once(':')?;
    let wiring = match name {
        "ring" => Wiring::Ring,
        "all" => Wiring::AllToAll,
        _ => return None,
    };
    Some(match rest.split_once('*') {
        Some((scale, rails)) => (wiring, number(scale)?, Some(number(rails)?)),
        None => (wiring, number(rest)?, None),
    })
}

impl Display for DimensionSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let name = if self.wiring == Wiring::Ring { "ring" } else { "all" };
        write!(f, "{name}:{}*{}", self.scale, self.rails)
    }
}

impl Share {
    /// What is dealt of an axis: rails of a chip edge, or of the node.
    pub fn units(self, hall: Grid) -> u32 {
        match self {
            Share::Balanced => hall.ports,
            Share::Uneven => hall.rails(),
        }
    }
}
