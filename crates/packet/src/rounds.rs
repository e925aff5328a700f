//! A window of all shards, on as many threads as there are.

use crate::crew::Crew;
use crate::run::Run;
use crate::shard::Shard;
use crate::transit::Bag;
use std::sync::{Mutex, PoisonError};

/// Packets under way that are worth more threads than one for a window.
const WORTH_THREADS: usize = if cfg!(test) { 1 } else { 1 << 12 };

impl Run<'_> {
    /// All shards do what happens in a window before `end`: one a thread if there is enough to do.
    pub(crate) fn work(&mut self, window: u64, end: u64) {
        let length = self.layout.window;
        let crew = self.crew.take();
        let (shards, common) = self.split();
        let all = shards.len();
        let due: Vec<&mut Shard<'_>> =
            shards.iter_mut().filter(|shard| shard.first_window(length) == Some(window)).collect();
        let load: usize = due.iter().map(|shard| shard.load()).sum();
        if due.len() > 1 && load >= WORTH_THREADS {
            let crew = crew.unwrap_or_else(|| Crew::new(all));
            let due: Vec<_> = due.into_iter().map(Mutex::new).collect();
            crew.all(due.len(), &|part| {
                due[part].lock().unwrap_or_else(PoisonError::into_inner).work(&common, window, end);
            });
            self.crew = Some(crew);
        } else {
            due.into_iter().for_each(|shard| shard.work(&common, window, end));
            self.crew = crew;
        }
        self.exchange();
    }

    /// Gives shards what others sent them.
    fn exchange(&mut self) {
        let shards = &mut self.shards;
        if shards.len() == 1 {
            return;
        }
        for from in 0..shards.len() {
            for to in 0..shards.len() {
                if shards[from].transit.out[to].letters.is_empty() {
                    continue;
                }
                let bag = std::mem::replace(&mut shards[from].transit.out[to], Bag::EMPTY);
                let read = std::mem::replace(&mut shards[to].inbags[from], bag);
                if read.letters.is_empty() {
                    shards[from].transit.out[to] = read;
                } else {
                    shards[to].inbags[from].join(read); // it has not come to read the last one
                }
            }
        }
    }
}
