//! What is answered over HTTP, and how much of it a tenant sees.
//!
//! A tenant sees its servers, the circuits, demand and alarms of these, and what concerns the region
//! as a whole: its phase, its plans' times, the switch. It does not see totals that others add to, nor
//! text that may name others.

use crate::auth::{Access, Role};
use crate::hub::{Hub, Logged, Names, Snapshot};
use lightloom_control::{
    Alarm, CircuitView, ControllerEvent, Counters, DemandView, ServerView, Status, SwitchView,
};
use lightloom_units::Time;
use serde::Serialize;
use serde_json::Value;
use std::time::SystemTime;

/// `GET /v1/status`. Times \[ps\] are since the controller started, which is when `started_unix_ms` says.
#[derive(Clone, Debug, Serialize)]
pub struct StatusAnswer {
    /// The region's name.
    pub region: String,
    /// Who asks: `operator`, `viewer` or `tenant`.
    pub role: &'static str,
    /// When the controller started, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// As in [`Status`].
    pub now: Time,
    /// As in [`Status`].
    pub phase: &'static str,
    /// As in [`Status`].
    pub generation: u64,
    /// As in [`Status`].
    pub verified_generation: u64,
    /// As in [`Status`].
    pub confirmed_generation: u64,
    /// The optical switches, by number.
    pub switches: Vec<SwitchView>,
    /// The servers that may be seen, by number.
    pub servers: Vec<ServerView>,
    /// Circuits, by their lower end.
    pub circuits: Vec<CircuitView>,
    /// Between these servers, in their order.
    pub demand: DemandView,
    /// The alarms that are raised.
    pub alarms: Vec<AlarmAnswer>,
    /// Counts of the whole region; none for a tenant.
    pub counters: Option<Counters>,
}

/// An alarm that is raised.
#[derive(Clone, Debug, Serialize)]
pub struct AlarmAnswer {
    /// Its name in the manual.
    pub name: &'static str,
    /// In words, with the server's name.
    pub text: String,
    /// The server that it is about; none: the switch or the region.
    pub server: Option<u16>,
    /// When the alarm was raised.
    pub since: Time,
    /// All that is known of it.
    pub alarm: Alarm,
}

/// `GET /v1/circuits`.
#[derive(Clone, Debug, Serialize)]
pub struct CircuitsAnswer {
    /// The plan whose circuits these are.
    pub generation: u64,
    /// By their lower end.
    pub circuits: Vec<CircuitView>,
}

/// `GET /v1/demand`.
#[derive(Clone, Debug, Serialize)]
pub struct DemandAnswer {
    /// The servers, by number: rows and columns of `bytes`.
    pub servers: Vec<u16>,
    /// By tenant that may be seen: the last round that was answered.
    pub rounds: Vec<u64>,
    /// From each server to each other \[B\].
    pub bytes: Vec<Vec<u64>>,
}

/// `GET /v1/events`.
#[derive(Clone, Debug, Serialize)]
pub struct EventsAnswer {
    /// Numbers start anew when this changes.
    pub started_unix_ms: u64,
    /// The greatest number there is, seen or not: ask for what came since this.
    pub last: u64,
    /// Oldest first.
    pub events: Vec<Value>,
}

/// `GET /v1/names`.
#[derive(Clone, Debug, Serialize)]
pub struct NamesAnswer {
    /// The name of the region.
    pub region: String,
    /// Its switches.
    pub switches: Vec<String>,
    /// Servers that may be seen.
    pub servers: Vec<ServerName>,
    /// Tenants that may be seen, in the order of rounds.
    pub tenants: Vec<TenantName>,
}

/// What a server is called.
#[derive(Clone, Debug, Serialize)]
pub struct ServerName {
    /// Its number in the region, from 0.
    pub server: u16,
    /// The name in the region's file.
    pub name: String,
    /// The number of its tenant.
    pub tenant: u16,
}

/// What a tenant is called.
#[derive(Clone, Debug, Serialize)]
pub struct TenantName {
    /// Its number, from 0.
    pub tenant: u16,
    /// The name in the region's file.
    pub name: String,
}

/// What one who asks sees of a hub.
pub struct Seen<'a> {
    /// What the controller publishes.
    pub hub: &'a Hub,
    /// What the reader may see.
    pub access: &'a Access,
}

impl Seen<'_> {
    fn snapshot(&self) -> std::sync::Arc<Snapshot> {
        self.hub.snapshot.borrow().clone()
    }

    fn names(&self) -> &Names {
        &self.hub.names
    }

    fn tenant(&self, tenant: u16) -> bool {
        let name = self.names().tenants.get(usize::from(tenant));
        name.is_some_and(|name| self.access.sees(name))
    }

    fn server(&self, server: u16) -> bool {
        let tenant = self.names().tenant_of_server.get(usize::from(server));
        tenant.is_some_and(|&tenant| self.tenant(tenant))
    }

    fn alarm(&self, alarm: &Alarm) -> bool {
        alarm.server().is_none_or(|server| self.server(server))
    }

    fn rounds(&self, rounds: &[u64]) -> Vec<u64> {
        let seen = rounds.iter().enumerate().filter(|(tenant, _)| self.tenant(*tenant as u16));
        seen.map(|(_, &round)| round).collect()
    }

    fn circuits_of(&self, status: &Status) -> Vec<CircuitView> {
        let seen = |circuit: &&CircuitView| self.server(circuit.a.0) && self.server(circuit.b.0);
        status.circuits.iter().filter(seen).cloned().collect()
    }

    fn demand_of(&self, status: &Status) -> DemandView {
        let bytes = &status.demand.bytes;
        let own: Vec<usize> = (0..bytes.len()).filter(|&at| self.server(at as u16)).collect();
        let row = |&from: &usize| {
            let to = |&to: &usize| bytes[from].get(to).copied().unwrap_or(0);
            own.iter().map(to).collect()
        };
        let rounds = self.rounds(&status.demand.rounds);
        DemandView { rounds, bytes: own.iter().map(row).collect() }
    }

    /// Everything at once.
    pub fn status(&self) -> StatusAnswer {
        let snapshot = self.snapshot();
        let status = &snapshot.status;
        let alarm = |(alarm, since): &(Alarm, Time)| AlarmAnswer {
            name: alarm.name(),
            text: self.names().words(alarm),
            server: alarm.server(),
            since: *since,
            alarm: alarm.clone(),
        };
        StatusAnswer {
            region: self.names().region.clone(),
            role: role(self.access),
            started_unix_ms: unix_ms(snapshot.started),
            now: status.now,
            phase: status.phase,
            generation: status.generation,
            verified_generation: status.verified_generation,
            confirmed_generation: status.confirmed_generation,
            switches: status.switches.clone(),
            servers: status.servers.iter().filter(|s| self.server(s.server)).cloned().collect(),
            circuits: self.circuits_of(status),
            demand: self.demand_of(status),
            alarms: status
                .alarms
                .iter()
                .filter(|(alarm, _)| self.alarm(alarm))
                .map(alarm)
                .collect(),
            counters: self.access.sees_all().then_some(status.counters),
        }
    }

    /// The answer to `GET /v1/circuits`.
    pub fn circuits(&self) -> CircuitsAnswer {
        let status = &self.snapshot().status;
        let circuits = self.circuits_of(status);
        CircuitsAnswer { generation: status.verified_generation, circuits }
    }

    /// The answer to `GET /v1/demand`.
    pub fn demand(&self) -> DemandAnswer {
        let status = &self.snapshot().status;
        let DemandView { rounds, bytes } = self.demand_of(status);
        let servers = (0..status.demand.bytes.len() as u16).filter(|&at| self.server(at)).collect();
        DemandAnswer { servers, rounds, bytes }
    }

    /// Names of servers and tenants.
    pub fn names_answer(&self) -> NamesAnswer {
        let names = self.names();
        let server = |(at, name): (usize, &String)| ServerName {
            server: at as u16,
            name: name.clone(),
            tenant: names.tenant_of_server.get(at).copied().unwrap_or(0),
        };
        let tenant =
            |(at, name): (usize, &String)| TenantName { tenant: at as u16, name: name.clone() };
        let servers = names.servers.iter().enumerate().map(server);
        let tenants = names.tenants.iter().enumerate().map(tenant);
        NamesAnswer {
            region: names.region.clone(),
            switches: names.switches.clone(),
            servers: servers.filter(|name| self.server(name.server)).collect(),
            tenants: tenants.filter(|name| self.tenant(name.tenant)).collect(),
        }
    }

    /// The last `limit` of the events after number `since`.
    pub fn events(&self, since: u64, limit: usize) -> EventsAnswer {
        let all = self.hub.since(since);
        let last = all.last().map_or_else(
            || self.hub.since(0).last().map_or(0, |logged| logged.number),
            |logged| logged.number,
        );
        let seen: Vec<Value> = all.into_iter().filter_map(|logged| self.event(logged)).collect();
        let events = seen[seen.len().saturating_sub(limit)..].to_vec();
        EventsAnswer { started_unix_ms: unix_ms(self.snapshot().started), last, events }
    }

    /// One event: with names, and without what is not for these eyes.
    fn event(&self, mut logged: Logged) -> Option<Value> {
        let mut text = None;
        match &mut logged.event {
            ControllerEvent::Raised { alarm } | ControllerEvent::Cleared { alarm } => {
                if !self.alarm(alarm) {
                    return None;
                }
                text = Some((alarm.name(), self.names().words(alarm)));
            }
            ControllerEvent::Reconfigured(log) => log.rounds = self.rounds(&log.rounds),
            ControllerEvent::Withdrawn { .. } => {}
            ControllerEvent::Note { .. } if !self.access.sees_all() => return None,
            ControllerEvent::Note { .. } => {}
        }
        let mut value = serde_json::to_value(&logged).ok()?;
        let object = value.as_object_mut()?;
        if let Some((name, text)) = text {
            object.insert("name".into(), name.into());
            object.insert("text".into(), text.into());
        }
        if !self.access.sees_all() {
            for key in ["changed_ports", "patches", "circuits", "attempts", "why"] {
                object.remove(key);
            }
        }
        Some(value)
    }
}

fn role(access: &Access) -> &'static str {
    match access.role() {
        Role::Operator => "operator",
        Role::Viewer => "viewer",
        Role::Tenant(_) => "tenant",
    }
}

pub(super) fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
