//! What a run does about circuits: ports that change go dark at once and carry light again later.

use crate::settling::mark;
use crate::{Event, NONE, Run};
use lightloom_engine::{EngineError, Patch, Reconfiguration};
use lightloom_units::Time;

impl Run<'_> {
    pub(crate) fn reconfigure(
        &mut self,
        task: u32,
        patches: &[Patch],
        delay: Time,
        now: Time,
    ) -> Result<(), EngineError> {
        if patches.is_empty() {
            return Ok(());
        }
        let ready = now.saturating_add(delay);
        let mut links = Vec::with_capacity(patches.len() * 2);
        for patch in patches {
            let tx = patch.tx.0;
            let old = self.circuit[tx as usize];
            for link in [Some(tx), (old != NONE).then_some(old), patch.rx.map(|rx| rx.0)] {
                let Some(link) = link else { continue };
                if self.component_of[link as usize] != NONE {
                    let id = self.component_of[link as usize];
                    let component = &mut self.components[id as usize];
                    component.advance(now, &mut self.done);
                    if component.live() > 0 {
                        return Err(EngineError::CircuitInUse { tx: patch.tx, now });
                    }
                    mark(&mut self.components, &mut self.dissolving, id);
                }
                links.push(link);
            }
            join(&mut self.circuit, &mut self.fed_by, patch);
        }
        self.deliver(now);
        for &link in &links {
            self.dark_until[link as usize] = self.dark_until[link as usize].max(ready);
            self.capacity[link as usize] = 0.0;
        }
        self.queue.push(ready, Event::Light(self.patched_links.len() as u32));
        self.patched_links.push(links);
        self.outcome.reconfigurations.push(Reconfiguration {
            task,
            at: now,
            ready,
            patches: patches.len() as u32,
        });
        Ok(())
    }

    pub(crate) fn light(&mut self, reconfiguration: u32, now: Time) {
        for link in std::mem::take(&mut self.patched_links[reconfiguration as usize]) {
            let at = link as usize;
            if self.dark_until[at] > now || self.capacity[at] > 0.0 {
                continue; // dark again by a later change, or named twice
            }
            self.capacity[at] = self.scenario.fabric.links()[at].rate.bytes_per_ps();
            mark(&mut self.components, &mut self.dissolving, self.component_of[at]);
        }
    }
}

/// Makes a patch: what either end was joined to before is joined to nothing then.
pub(crate) fn join(circuit: &mut [u32], fed_by: &mut [u32], patch: &Patch) {
    let (tx, rx) = (patch.tx.0, patch.rx.map_or(NONE, |rx| rx.0));
    let old = std::mem::replace(&mut circuit[tx as usize], rx);
    if old != NONE {
        fed_by[old as usize] = NONE;
    }
    if rx != NONE {
        let other = std::mem::replace(&mut fed_by[rx as usize], tx);
        if other != NONE {
            circuit[other as usize] = NONE;
        }
    }
}
