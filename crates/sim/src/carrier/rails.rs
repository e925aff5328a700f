//! RailS as flows: each server deals its chunks to rails by LPT ([`lightloom_rails::Lpt`]), and they land
//! on the same rail.

use super::form::{CarrierKind, Split, Travel};
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

fn rails(split: &Split<'_>, travel: &mut Travel) {
    let (n, count, chunk) = (split.servers.len(), split.rails(), split.chunk.get());
    let (_, gpu_of) = split.own();
    // Sender's server, receiver's GPU in its own, and the message between.
    let mut sent = vec![];
    split.for_each(|from, to, bytes| {
        let ((a, source), (b, destination)) = (split.place(from), split.place(to));
        let (source, receiver) = (source as u32, destination as u32);
        let message = Message { bytes, destination: b as u32, source, receiver };
        sent.push((a as u32, destination as u32, message));
    });
    sent.sort_by_key(|&(a, ..)| a);
    let (mut lpt, mut messages) = (Lpt::new(count), vec![]);
    let mut rails = vec![0; n * n * count];
    for sent in sent.chunk_by(|x, y| x.0 == y.0) {
        messages.clear();
        messages.extend(sent.iter().map(|&(.., message)| message));
        lpt.assign(&messages, chunk, sent[0].0);
        for (index, &(a, destination, message)) in sent.iter().enumerate() {
            let (a, b, source) =
                (a as usize, message.destination as usize, message.source as usize);
            for (rail, size) in lpt.shares(index) {
                let rail = usize::from(rail);
                rails[(a * n + b) * count + rail] += size;
                let gpu = gpu_of[rail];
                travel.gather[split.at(a, source, gpu)] += size;
                travel.scatter[split.at(b, gpu, destination as usize)] += size;
            }
        }
    }
    super::form::exchange(split, &rails, travel);
}
