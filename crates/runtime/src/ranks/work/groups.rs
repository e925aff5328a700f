//! Groups are joined, called and left, and fail.

use super::{PAIRS, RANK_BITS, Work};
use crate::exchange::Endpoint;
use crate::ranks::group::{Group, Who};
use crate::ranks::message::{Call, Place, Said};
use serde_json::Value;

impl Work {
    pub(super) fn join(
        &mut self,
        who: Who,
        group: u32,
        ranks: &[u32],
        rank: u32,
    ) -> Result<(), String> {
        if group >= PAIRS {
            return Err(format!("a group's number is {group}; 0 to {} is allowed", PAIRS - 1));
        }
        let new = Group::new(&self.job, self.me, ranks, rank)?;
        let dead = new.here.iter().find(|rank| !self.arenas.contains_key(rank)).copied();
        let came = self.came == usize::from(self.job.ranks_per_server);
        let it = self.groups.entry(group).or_insert(new);
        if it.ranks != ranks {
            return Err(format!("group {group} is of other ranks at another rank of this server"));
        }
        if it.joined || it.joining.contains_key(&rank) {
            return Err(format!("group {group} was joined before"));
        }
        if let Some(why) = it.failed.clone() {
            return Err(why);
        }
        it.joining.insert(rank, who);
        if let (Some(dead), true) = (dead, came) {
            self.fail(group, &format!("rank {dead} has ended"), true);
        } else if it.joining.len() == it.here.len() {
            self.joined(group)?;
        }
        Ok(())
    }

    /// All members here want it.
    pub(super) fn joined(&mut self, group: u32) -> Result<(), String> {
        let Some(it) = self.groups.get_mut(&group) else { return Ok(()) };
        it.joined = true;
        let asked: Vec<Who> = std::mem::take(&mut it.joining).into_values().collect();
        if it.servers.len() > 1 {
            let life = |&server: &Endpoint| (server, self.job.servers[usize::from(server)].life);
            let members = it.servers.iter().map(life).collect();
            if let Err(why) = self.node.join(group, members) {
                let why = why.to_string();
                it.failed = Some(why.clone());
                for who in asked {
                    self.answer(who, Said::Failed(why.clone()));
                }
                return Ok(());
            }
        }
        for who in asked {
            self.done(who, Value::Null);
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, who: Who, group: u32, rank: u32) -> Result<(), String> {
        let it = self.groups.get_mut(&group).filter(|it| group < PAIRS && it.here.contains(&rank));
        let it = it.ok_or_else(|| format!("group {group} is not joined"))?;
        it.joining.insert(rank, who);
        if it.joining.len() == it.here.len() {
            let asked: Vec<Who> = std::mem::take(&mut it.joining).into_values().collect();
            let between = it.servers.len() > 1;
            for who in it.fail("the group was left") {
                self.answer(who, Said::Failed("the group was left".into()));
            }
            self.groups.remove(&group);
            if between {
                self.node.leave(group);
            }
            for who in asked {
                self.done(who, Value::Null);
            }
        }
        Ok(())
    }

    pub(super) fn post(
        &mut self,
        who: Who,
        group: u32,
        rank: u32,
        call: Call,
    ) -> Result<(), String> {
        let it = self.groups.get_mut(&group).filter(|it| it.joined && it.here.contains(&rank));
        let it = it.ok_or_else(|| format!("group {group} is not joined"))?;
        if let Some(why) = &it.failed {
            return Err(why.clone());
        }
        it.check(&self.job, &call, self.arenas.get(&rank).ok_or("no arena")?)?;
        it.call(rank, who, call);
        self.begin(group);
        Ok(())
    }

    /// A rank's part of a send and its receive.
    pub(super) fn pass(
        &mut self,
        who: Who,
        ends: (u32, u32),
        rank: u32,
        at: Place,
    ) -> Result<(), String> {
        let (source, target) = ends;
        let most = self.job.ranks().min(1 << RANK_BITS);
        if source == target || source.max(target) >= most {
            let last = most - 1;
            return Err(format!("the other end must be another rank, from 0 to {last}"));
        }
        let group = PAIRS | source << RANK_BITS | target;
        if !self.groups.contains_key(&group) {
            let ranks = [source.min(target), source.max(target)];
            let mut it = Group::new(&self.job, self.me, &ranks, rank)?;
            it.ends = ends;
            self.groups.insert(group, it);
            self.joined(group)?;
        }
        let it = self.groups.get_mut(&group).ok_or("no such group")?;
        if let Some(why) = &it.failed {
            return Err(why.clone());
        }
        let call = Call::Pass { at };
        it.check(&self.job, &call, self.arenas.get(&rank).ok_or("no arena")?)?;
        it.call(rank, who, call);
        self.begin(group);
        Ok(())
    }

    /// A group has failed: at other servers, too, if they do not know it.
    pub(super) fn fail(&mut self, group: u32, why: &str, tell: bool) {
        let Some(it) = self.groups.get_mut(&group) else { return };
        let new = it.failed.is_none();
        let waiting = it.fail(why);
        let between = it.servers.len() > 1 && it.joined;
        for who in waiting {
            self.answer(who, Said::Failed(why.into()));
        }
        if new && tell && between {
            self.node.abort(group);
        }
        let under_way = self.operations.iter_mut().filter(|it| it.1.group == group);
        let ids: Vec<u64> = under_way
            .map(|(id, it)| {
                it.failed.get_or_insert_with(|| why.into());
                *id
            })
            .collect();
        if new {
            ids.into_iter().for_each(|id| self.go_on(id));
        }
    }
}
