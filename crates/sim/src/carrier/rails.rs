//! RailS as flows: each server deals its chunks to rails by LPT ([`lightloom_rails::Lpt`]), and they land
//! on the same rail.

use super::form::{CarrierKind, Split};
use lightloom_rails::lpt::sizes;
use lightloom_rails::{Lpt, Message};
use lightloom_units::kind::Kind;

pub(crate) static KIND: CarrierKind = CarrierKind {
    about: Kind {
        name: "rails",
        summary: "Chunks dealt to rails by LPT, each landing on its rail",
        source: Some("RailS"),
        keys: &[],
        capabilities: (),
    },
    hands_over: true,
    split: Some(rails),
};

fn rails(split: &mut Split<'_>) {
    let (n, gpus, chunk) = (split.servers.len(), split.gpus(), split.chunk.get());
    let mut messages = vec![vec![]; n];
    let mut ends = vec![vec![]; n];
    for &(from, to, bytes) in split.pairs {
        let ((a, source), (b, destination)) = (split.place(from), split.place(to));
        messages[a].push(Message { bytes, destination: b as u32, source: source as u32 });
        ends[a].push(destination);
    }
    let mut lpt = Lpt::new(gpus);
    let mut rails = vec![0; n * n * gpus];
    for a in 0..n {
        lpt.assign(&messages[a], chunk);
        for (index, (message, &destination)) in messages[a].iter().zip(&ends[a]).enumerate() {
            let (b, source) = (message.destination as usize, message.source as usize);
            for (&rail, size) in lpt.chunks(index).iter().zip(sizes(message.bytes, chunk)) {
                let rail = usize::from(rail);
                rails[(a * n + b) * gpus + rail] += size;
                let (before, after) = (split.at(a, source, rail), split.at(b, rail, destination));
                split.travel.gather[before] += size;
                split.travel.scatter[after] += size;
            }
        }
    }
    super::form::exchange(split, &rails);
}
