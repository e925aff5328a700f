//! What a run does about circuits: ports that change go dark at once and carry light again later.

use crate::settling::mark;
use crate::{Event, NONE, Run};
use lightloom_engine::{EngineError, Patches};
use lightloom_fabric::LinkId;
use lightloom_units::Time;

impl Run<'_> {
    pub(crate) fn reconfigure(
        &mut self,
        task: u32,
        patches: &Patches,
        now: Time,
    ) -> Result<(), EngineError> {
        let mut links = Vec::with_capacity(patches.patches.len() * 2);
        for patch in &patches.patches {
            for link in self.ledger.circuits.touched(patch).into_iter().flatten() {
                let id = self.component_of[link.0 as usize];
                if id != NONE {
                    let component = &mut self.components[id as usize];
                    component.advance(now, &mut self.done);
                    if component.live() > 0 {
                        return Err(EngineError::CircuitInUse { tx: patch.tx, now });
                    }
                    mark(&mut self.components, &mut self.dissolving, id);
                }
                links.push(link);
            }
            self.ledger.circuits.join(patch);
        }
        self.deliver(now);
        for link in &links {
            self.capacity[link.0 as usize] = 0.0;
        }
        let wake = self.ledger.darkened(task, patches, links, now);
        self.queue.push(wake.at, Event::Due(wake.due));
        Ok(())
    }

    pub(crate) fn light(&mut self, links: &[LinkId]) {
        for &link in links {
            let at = link.0 as usize;
            if self.capacity[at] > 0.0 {
                continue; // named twice
            }
            self.capacity[at] = self.ledger.scenario.fabric.link(link).rate.bytes_per_ps();
            mark(&mut self.components, &mut self.dissolving, self.component_of[at]);
        }
    }
}
