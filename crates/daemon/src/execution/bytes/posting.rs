//! Operations of the exchange: all that is to come is posted at once, what is to go when it may.

use super::carrier::{Carrier, Happened};
use super::job::part;
use crate::clock::boottime_ns;
use crate::failure::Failure;
use lightloom_control::execution::Transmission;
use lightloom_runtime::exchange::{Transfer, striped};
use lightloom_runtime::net::Memory;

impl Carrier {
    /// Posts all that is to come, in the order in which each peer sends it over each plane.
    pub(super) fn expect_all(&mut self) -> Result<(), Failure> {
        let of = &self.of;
        let (me, planes) = (of.node, of.plan.planes());
        for peer in (0..of.plan.nodes()).filter(|&peer| peer != me) {
            for plane in 0..planes {
                let all = of.plan.over(peer, plane).into_iter().filter(|one| one.peer == me);
                let all: Vec<_> = all.collect();
                if !all.is_empty() {
                    self.join(of.job.group(peer, me, plane), peer)?;
                }
                for (number, one) in (0..).zip(all) {
                    let (step, bytes) = (one.step, one.bytes.get());
                    let offset = of.offsets[peer as usize][&part(&one)];
                    let (tell, source) = (of.happen.clone(), peer as u16);
                    let memory = Memory::owned(vec![], vec![(source, bytes as usize)]);
                    of.net.post(
                        of.job.group(peer, me, plane),
                        number,
                        vec![],
                        vec![Transfer { peer: source, bytes }],
                        |_| vec![],
                        memory,
                        move |result| {
                            let come = result.map(|memory| memory.into_received());
                            let come = come.map(|mut all| all.pop().map_or(vec![], |it| it.1));
                            let come = come.map_err(|why| why.to_string());
                            let _ = tell.send(Happened::Came(step, offset, come));
                        },
                    );
                }
                if of.plan.over(me, plane).iter().any(|one| one.peer == peer) {
                    self.join(of.job.group(me, peer, plane), peer)?;
                }
            }
        }
        Ok(())
    }

    fn join(&self, group: u32, peer: u32) -> Result<(), Failure> {
        let joined = self.of.net.join(group, vec![(self.of.node as u16, 1), (peer as u16, 1)]);
        joined.map_err(|why| Failure::Run(why.to_string()))
    }

    /// Begins what may be sent now.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        loop {
            let (of, up) = (&mut self.of, &self.up);
            let now = of.net.clock().now();
            let free = self.record.without.is_some();
            let there =
                |one: &Transmission| free || up.contains(&of.sending[&(one.peer, one.plane)]);
            let Some(one) = of.run.next_if(now, there) else { return Ok(()) };
            if let Some(step) = one.after_step {
                of.member.settle(step);
            }
            let offset = of.offsets[of.node as usize][&part(&one)];
            let bytes = of.member.read(one.step, offset, one.bytes.get()).ok_or_else(|| {
                let (node, step) = (of.node, one.step);
                Failure::Run(format!("node {node}: has not what step {step} sends"))
            })?;
            let lanes = match free {
                true => of.packets[&one.peer].clone(),
                false => vec![of.sending[&(one.peer, one.plane)]],
            };
            let (peer, length, chunk) = (one.peer as u16, one.bytes.get(), of.job.chunk);
            let number = self.numbers.entry((one.peer, one.plane)).or_default();
            let (tell, port) = (of.happen.clone(), one.plane);
            of.net.post(
                of.job.group(of.node, one.peer, one.plane),
                *number,
                vec![Transfer { peer, bytes: length }],
                vec![],
                move |_| striped(peer, length, &lanes, chunk),
                Memory::owned(vec![(peer, bytes)], vec![]),
                move |result| {
                    let sent = result.map(drop).map_err(|why| why.to_string());
                    let _ = tell.send(Happened::Sent(port, sent));
                },
            );
            *number += 1;
            self.under_way.insert(one.plane, (one, boottime_ns()));
        }
    }
}
