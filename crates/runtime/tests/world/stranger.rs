//! Somebody dials an endpoint and does not know the job's secret.

use super::invariant::{STRANGERS, broken};
use super::scenario::World;
use lightloom_runtime::exchange::*;
use lightloom_runtime::planted::Planted;
use lightloom_units::Time;

impl World {
    /// Somebody without the secret dials an endpoint.
    pub fn stranger(&mut self, at: usize) {
        let Some(spec) = self.shape.lanes[at].iter().find(|it| usize::from(it.peer) < at).copied()
        else {
            return;
        };
        self.tally("strangers");
        let peer = usize::from(spec.peer);
        let life = self.nodes[peer].life + self.chance.below(2);
        let settings =
            Settings { secret: b"a guess".to_vec(), life, ..self.shape.settings[peer].clone() };
        let lanes = self.shape.lanes[peer].iter();
        let lanes = lanes.filter(|it| it.medium == Medium::Packet && usize::from(it.peer) == at);
        let lanes: Vec<_> = lanes.copied().collect();
        let Some(nic) = lanes.first().map(|it| it.peer_nic) else { return };
        let mut rogue = Exchange::new(settings, lanes, self.now).expect("as the peer's");
        rogue.plant(Some(Planted::TrustsStrangers));
        let (now, one, other) = (self.now, self.chance.nonce(), self.chance.nonce());
        let Ok(dialed) = rogue.dialed(now, LaneId(0), one) else { return };
        let Some(exchange) = &mut self.nodes[at].exchange else { return };
        let Ok(accepted) = exchange.accepted(now, nic, other) else { return };
        for _ in 0..3 {
            pump((&mut rogue, dialed), (exchange, accepted), now);
            pump((exchange, accepted), (&mut rogue, dialed), now);
        }
        let mut outputs: Vec<Output> = Vec::new();
        while let Some(output) = exchange.poll() {
            outputs.push(output);
        }
        if outputs.iter().any(|it| matches!(it, Output::Up { .. })) {
            return self.fail(broken(STRANGERS, format!("endpoint {at}: {outputs:?}")));
        }
        for output in outputs {
            let theirs = matches!(output, Output::Close { connection, .. } | Output::Send { connection } if connection == accepted);
            if !theirs {
                self.output(at, output);
            }
        }
        self.dirty.insert(at);
    }
}

/// All that one has to send to the other.
fn pump(from: (&mut Exchange, ConnectionId), to: (&mut Exchange, ConnectionId), now: Time) {
    while let Some(Transmit { head, body: None }) = from.0.transmit(now, from.1) {
        let bytes = head.to_vec();
        from.0.sent(now, from.1, bytes.len());
        let mut rest = bytes.as_slice();
        while let (false, Some(Space::Buffer(buffer))) = (rest.is_empty(), to.0.space(to.1)) {
            let read = rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&rest[..read]);
            to.0.filled(now, to.1, read);
            rest = &rest[read..];
        }
    }
}
