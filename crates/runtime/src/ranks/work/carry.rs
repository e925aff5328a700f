//! Operations begin, go on round by round, and end.

use super::Work;
use super::plan::planner;
use crate::exchange::Transfer;
use crate::net::Landings;
use crate::ranks::arena::{Piece, lend};
use crate::ranks::group::{Group, Who};
use crate::ranks::heard::Heard;
use crate::ranks::message::Said;
use crate::ranks::operation::{Kind, Maker, Moves, Operation, Pieces, Times};
use serde_json::{Value, json};
use std::sync::Arc;

impl Work {
    /// Begins what a group may begin.
    pub(super) fn begin(&mut self, group: u32) {
        while let Some(calls) = self.groups.get_mut(&group).and_then(Group::next) {
            let it = &self.groups[&group];
            let maker = Maker { job: &self.job, me: self.me, group: it, arenas: &self.arenas };
            let asks: Vec<Who> = calls.values().map(|(who, _)| *who).collect();
            let name = calls.values().next().map_or("", |(_, call)| call.name());
            let begun = self.now();
            match maker.make(&calls) {
                Ok((kind, path)) => {
                    let id = self.next;
                    self.next += 1;
                    let times = Times { begun, ..Times::default() };
                    let operation = Operation {
                        group,
                        name,
                        asks,
                        path,
                        kind,
                        under_way: 0,
                        failed: None,
                        times,
                        landings: None,
                    };
                    self.operations.insert(id, operation);
                    self.start(id);
                }
                Err(why) => {
                    for who in asks {
                        self.answer(who, Said::Failed(why.clone()));
                    }
                    self.fail(group, &why, true);
                }
            }
        }
    }

    pub(super) fn start(&mut self, id: u64) {
        let now = self.now();
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.times.exchange = now;
        let group = operation.group;
        let copies = match &mut operation.kind {
            Kind::Once { moves, copies } => {
                let (moves, copies) = (moves.take(), std::mem::take(copies));
                if let Some(moves) = moves {
                    self.exchange(id, 0, moves);
                }
                copies
            }
            Kind::Rounds(_) => vec![],
        };
        // Between ranks of this server, while the network works.
        let begun = self.now();
        copies.iter().for_each(|(from, into)| from.copy_to(into));
        let ended = self.now();
        if let Some(operation) = self.operations.get_mut(&id) {
            if !copies.is_empty() {
                operation.times.local = (begun, ended);
            }
            if let Some(group) = self.groups.get_mut(&group) {
                group.at_work = Some(id);
            }
        }
        self.go_on(id);
    }

    /// Begins the rounds that may begin, and ends an operation of which nothing is left.
    pub(super) fn go_on(&mut self, id: u64) {
        while let Some((round, moves)) = self.next_round(id) {
            self.exchange(id, round, moves);
        }
        let Some(operation) = self.operations.get(&id) else { return };
        let group = operation.group;
        let (begun, over) = match &operation.kind {
            _ if operation.failed.is_some() => (true, operation.under_way == 0),
            Kind::Once { .. } => (true, operation.under_way == 0),
            Kind::Rounds(it) if it.is_alone() => (true, true),
            Kind::Rounds(it) => (it.run.is_begun(), it.run.is_over()),
        };
        if over {
            self.end(id);
        }
        if let Some(group) =
            self.groups.get_mut(&group).filter(|it| begun && it.at_work == Some(id))
        {
            group.at_work = None;
        }
        if begun {
            self.begin(group);
        }
    }

    pub(super) fn next_round(&mut self, id: u64) -> Option<(usize, Moves)> {
        let operation = self.operations.get_mut(&id).filter(|it| it.failed.is_none())?;
        match &mut operation.kind {
            Kind::Rounds(it) if !it.is_alone() => {
                let round = it.run.begin()?;
                Some((round, it.moves(round)))
            }
            _ => None,
        }
    }

    /// Hands an operation to the network.
    pub(super) fn exchange(&mut self, id: u64, round: usize, moves: Moves) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let Some(group) = self.groups.get_mut(&operation.group) else { return };
        let transfers = |pieces: &Pieces| -> Vec<Transfer> {
            let bytes = |pieces: &[Piece]| pieces.iter().map(|it| it.bytes()).sum();
            pieces.iter().map(|(peer, it)| Transfer { peer: *peer, bytes: bytes(it) }).collect()
        };
        let (sends, receives) = (transfers(&moves.sends), transfers(&moves.receives));
        operation.under_way += 1;
        let heard = self.heard.clone();
        let Some(memory) = lend(&moves.sends, &moves.receives) else {
            let result = Err("memory beyond an arena".into());
            let _ = heard.send(Heard::Over { operation: id, round, result });
            return;
        };
        let noted = self.job.spread.as_ref().map(|_| {
            let lengths = |pieces: &[Piece]| pieces.iter().map(Piece::bytes).collect();
            let pieces = moves.receives.iter().map(|(peer, pieces)| (*peer, lengths(pieces)));
            Arc::new(Landings::new(pieces.collect()))
        });
        let memory = match &noted {
            Some(noted) => memory.watched(noted.clone()),
            None => memory,
        };
        operation.landings = noted;
        let number = group.number;
        group.number += 1;
        let plan = planner(&self.job, self.me, operation.path, moves.blocks, self.lanes.clone());
        self.node.post(operation.group, number, sends, receives, plan, memory, move |result| {
            let result = result.map(|_| ()).map_err(|why| why.to_string());
            let _ = heard.send(Heard::Over { operation: id, round, result });
        });
    }

    pub(super) fn over(&mut self, id: u64, round: usize, result: Result<(), String>) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.under_way -= 1;
        let group = operation.group;
        match result {
            Ok(()) => {
                if let Kind::Rounds(it) = &mut operation.kind {
                    it.fold(round);
                    it.run.end(round);
                }
            }
            Err(why) => {
                operation.failed.get_or_insert_with(|| why.clone());
                self.fail(group, &why, false);
            }
        }
        self.go_on(id);
    }

    /// When all bytes of each rank elsewhere were here, by receiving rank: source, destination, and when \[ns\].
    fn landed(&self, group: u32, landings: &Landings) -> Value {
        let Some(group) = self.groups.get(&group) else { return Value::Null };
        let mut rows = Vec::new();
        for &server in group.servers.iter().filter(|&&server| server != self.me) {
            let mut times = landings.times(server).into_iter();
            for source in group.on(&self.job, server) {
                for (&target, at) in group.here.iter().zip(&mut times) {
                    rows.push((source, target, at));
                }
            }
        }
        rows.retain(|row| row.2 > 0); // where nothing was sent
        json!(rows)
    }

    /// All of its memory is back.
    pub(super) fn end(&mut self, id: u64) {
        let Some(mut operation) = self.operations.remove(&id) else { return };
        let now = self.now();
        operation.times.exchanged = now;
        if let (Kind::Rounds(it), None) = (&operation.kind, &operation.failed) {
            it.after.iter().for_each(|(from, into)| from.copy_to(into));
            if !it.after.is_empty() {
                operation.times.local = (now, self.now());
            }
        }
        let mut said = operation.times.said(self.now());
        if let (Kind::Once { .. }, Some(landings)) = (&operation.kind, &operation.landings) {
            said["landed_ns"] = self.landed(operation.group, landings);
        }
        for who in std::mem::take(&mut operation.asks) {
            match &operation.failed {
                None => self.done(who, said.clone()),
                Some(why) => self.answer(who, Said::Failed(format!("{}: {why}", operation.name))),
            }
        }
    }
}
