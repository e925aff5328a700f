//! Messages on the wire, and back into those of `lightloom-control`: what makes no sense is refused
//! here, before any machine sees it.
//!
//! Checked: every message comes back as it went, and no bytes of another are taken for one.

/// What `protoc` makes of `proto/control.proto`.
#[allow(missing_docs, clippy::all)]
#[rustfmt::skip]
pub mod wire {
    include!("proto/generated.rs");
}

pub mod version;

use lightloom_control::{Demand, Directive, Mark, Report, ServerPart, Stage};
use lightloom_decide::traffic::Bytes;
use lightloom_decide::{Ahead, PassTraffic, Traffic};
use lightloom_units::Time;
use std::sync::Arc;
use thiserror::Error;

/// More passes than any iteration has.
const MOST_PASSES: usize = 4096;

/// A message that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Senseless(pub &'static str);

/// A report as it is sent, by the server's name.
pub fn report(server: &str, report: &Report) -> wire::Report {
    wire::Report {
        server: server.into(),
        incarnation: report.incarnation,
        beat: report.beat,
        obeyed: Some(mark(report.obeyed)),
        round: report.round,
        faults: report.faults.iter().map(|&fault| part(fault)).collect(),
        demand: report.demand.as_ref().map(|demand| wire::Demand {
            round: demand.round,
            bytes: demand.bytes.clone(),
            ahead: demand.ahead.map(|ahead| wire::Ahead {
                uses: ahead.uses,
                hidden_ps: ahead.hidden.ps(),
                later: ahead.later,
                changes: ahead.changes,
                pass: ahead.pass,
            }),
            predicted: demand.predicted,
        }),
        traffic: report.traffic.iter().map(traffic).collect(),
    }
}

fn traffic(record: &Traffic) -> wire::Traffic {
    let bytes = |of: Bytes| Some(wire::TrafficBytes { out: of.out, into: of.into });
    let pass = |part: &PassTraffic| wire::PassTraffic {
        under_way_ps: part.under_way.ps(),
        pp: bytes(part.pp),
        dp: bytes(part.dp),
        tp: bytes(part.tp),
        cp: bytes(part.cp),
        other: bytes(part.other),
    };
    wire::Traffic { iteration: record.iteration, passes: record.passes.iter().map(pass).collect() }
}

fn read_traffic(sent: &wire::Traffic) -> Traffic {
    let bytes = |of: Option<wire::TrafficBytes>| {
        of.map_or_else(Bytes::default, |of| Bytes { out: of.out, into: of.into })
    };
    let pass = |part: &wire::PassTraffic| PassTraffic {
        under_way: Time::from_ps(part.under_way_ps),
        pp: bytes(part.pp),
        dp: bytes(part.dp),
        tp: bytes(part.tp),
        cp: bytes(part.cp),
        other: bytes(part.other),
    };
    Traffic { iteration: sent.iteration, passes: Arc::new(sent.passes.iter().map(pass).collect()) }
}

/// The report that was sent, of the server of this number, which has so many `ports` in a region of so
/// many `servers`.
///
/// # Errors
/// If it has no beat, names ports that there are not, or too many faults; a demand that is not of as
/// many servers as the region.
pub fn read_report(
    number: u16,
    ports: usize,
    servers: usize,
    sent: wire::Report,
) -> Result<Report, Senseless> {
    if sent.beat == 0 || sent.incarnation == 0 {
        return Err(Senseless("a report has an incarnation and a beat, from 1"));
    }
    if sent.faults.len() > 3 * ports + 1 {
        return Err(Senseless("a server has not so many parts"));
    }
    let mut faults = sent
        .faults
        .iter()
        .map(|fault| read_part(ports, fault))
        .collect::<Result<Vec<ServerPart>, Senseless>>()?;
    faults.sort_unstable();
    faults.dedup();
    let ahead = |ahead: wire::Ahead| Ahead {
        uses: ahead.uses,
        hidden: Time::from_ps(ahead.hidden_ps),
        later: ahead.later,
        changes: ahead.changes,
        pass: ahead.pass,
    };
    let demand = sent.demand.map(|demand| Demand {
        round: demand.round,
        bytes: demand.bytes,
        ahead: demand.ahead.map(ahead),
        predicted: demand.predicted,
    });
    if sent.traffic.len() > 2 || !sent.traffic.is_sorted_by(|a, b| a.iteration < b.iteration) {
        return Err(Senseless("traffic is of two iterations at most, in order"));
    }
    if sent.traffic.iter().any(|record| record.passes.len() > MOST_PASSES) {
        return Err(Senseless("an iteration has 4,096 passes at most"));
    }
    if demand.as_ref().is_some_and(|demand| demand.bytes.len() != servers) {
        return Err(Senseless("a demand has one number for each server of the region"));
    }
    Ok(Report {
        server: number,
        incarnation: sent.incarnation,
        beat: sent.beat,
        obeyed: sent.obeyed.map_or(Ok(Mark::default()), read_mark)?,
        round: sent.round,
        faults,
        demand,
        traffic: sent.traffic.iter().map(read_traffic).collect(),
    })
}

/// A directive as it is sent.
pub fn directive(directive: &Directive) -> wire::Directive {
    let circuit = |(port, peer): (usize, &Option<(u16, u16)>)| {
        peer.map(|(server, at)| wire::Circuit {
            port: port as u32,
            peer: server.into(),
            peer_port: at.into(),
        })
    };
    wire::Directive {
        incarnation: directive.incarnation,
        beat: directive.beat,
        mark: Some(mark(directive.mark)),
        round: directive.round,
        circuits: directive.circuits.iter().enumerate().filter_map(circuit).collect(),
        ports: directive.circuits.len() as u32,
    }
}

/// The directive that was sent.
///
/// # Errors
/// If it has no mark, or circuits of ports that there are not.
pub fn read_directive(sent: wire::Directive) -> Result<Directive, Senseless> {
    const WRONG: Senseless = Senseless("circuits of ports that a server has not");
    let small = |number: u32| u16::try_from(number).map_err(|_| WRONG);
    let mut circuits = vec![None; usize::from(small(sent.ports)?)];
    for circuit in &sent.circuits {
        let place = circuits.get_mut(circuit.port as usize).ok_or(WRONG)?;
        *place = Some((small(circuit.peer)?, small(circuit.peer_port)?));
    }
    let mark = read_mark(sent.mark.ok_or(Senseless("a directive has a mark"))?)?;
    let (incarnation, beat, round) = (sent.incarnation, sent.beat, sent.round);
    Ok(Directive { incarnation, beat, mark, round, circuits })
}

fn mark(mark: Mark) -> wire::Mark {
    let stage = match mark.stage {
        Stage::Hold => wire::Stage::Hold,
        Stage::Resume => wire::Stage::Resume,
    };
    wire::Mark { generation: mark.generation, stage: stage.into() }
}

fn read_mark(sent: wire::Mark) -> Result<Mark, Senseless> {
    let stage = match wire::Stage::try_from(sent.stage) {
        Ok(wire::Stage::Hold) => Stage::Hold,
        Ok(wire::Stage::Resume) => Stage::Resume,
        Err(_) => return Err(Senseless("a stage is to hold or to resume")),
    };
    Ok(Mark { generation: sent.generation, stage })
}

fn part(part: ServerPart) -> wire::Part {
    use wire::part::Part as Sent;
    let sent = match part {
        ServerPart::Nic(port) => Sent::Nic(port.into()),
        ServerPart::Link(port) => Sent::Link(port.into()),
        ServerPart::Gpu(gpu) => Sent::Gpu(gpu.into()),
        ServerPart::Server => Sent::Server(true),
    };
    wire::Part { part: Some(sent) }
}

fn read_part(ports: usize, sent: &wire::Part) -> Result<ServerPart, Senseless> {
    use wire::part::Part as Sent;
    let small = |number: u32| {
        let port = u16::try_from(number).ok().filter(|&port| usize::from(port) < ports);
        port.ok_or(Senseless("a fault of a part that a server has not"))
    };
    Ok(match sent.part {
        Some(Sent::Nic(port)) => ServerPart::Nic(small(port)?),
        Some(Sent::Link(port)) => ServerPart::Link(small(port)?),
        Some(Sent::Gpu(gpu)) => ServerPart::Gpu(small(gpu)?),
        Some(Sent::Server(true)) => ServerPart::Server,
        Some(Sent::Server(false)) | None => return Err(Senseless("a fault names a part")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    fn sent<M: Message + Default>(message: &M) -> M {
        M::decode(message.encode_to_vec().as_slice()).expect("as encoded")
    }

    fn marks() -> impl Iterator<Item = Mark> {
        [0, 1, u64::MAX].into_iter().flat_map(|generation| {
            [Stage::Hold, Stage::Resume].map(|stage| Mark { generation, stage })
        })
    }

    #[test]
    fn what_is_sent_is_what_comes() {
        for obeyed in marks() {
            let hidden = Time::from_ms(2);
            let ahead = Some(Ahead { uses: 1, hidden, later: 3, changes: 2, pass: Some(0) });
            let plain = Demand::new(3, vec![0, u64::MAX, 7]);
            let predicted = Demand { ahead, predicted: true, ..plain.clone() };
            for demand in [None, Some(plain), Some(predicted)] {
                let faults = vec![
                    ServerPart::Nic(0),
                    ServerPart::Link(5),
                    ServerPart::Gpu(1),
                    ServerPart::Server,
                ];
                let other = Bytes { out: 7, into: u64::MAX };
                let last = PassTraffic { other, ..PassTraffic::default() };
                let said = Report {
                    server: 2,
                    incarnation: 9,
                    beat: u64::MAX,
                    obeyed,
                    round: 4,
                    faults,
                    demand: demand.clone(),
                    traffic: vec![
                        Traffic::new(0),
                        Traffic {
                            iteration: 1,
                            passes: Arc::new(vec![PassTraffic::default(), last]),
                        },
                    ],
                };
                let came = read_report(2, 6, 3, sent(&report("node-02", &said)));
                assert_eq!(came, Ok(said));
            }
        }
        for mark in marks() {
            let circuits = vec![None, Some((4095, 0)), None, Some((0, 65535)), None];
            let said = Directive { incarnation: 1, beat: 2, mark, round: 3, circuits };
            assert_eq!(read_directive(sent(&directive(&said))), Ok(said));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good =
            || wire::Report { server: "a".into(), incarnation: 1, beat: 1, ..Default::default() };
        let why = |report| read_report(0, 2, 3, report).expect_err("senseless").0;
        assert!(read_report(0, 2, 3, good()).is_ok());
        assert!(why(wire::Report { beat: 0, ..good() }).contains("beat"));
        let demand = Some(wire::Demand { round: 1, bytes: vec![1; 4], ..Default::default() });
        assert!(why(wire::Report { demand, ..good() }).contains("each server"));
        let traffic = vec![wire::Traffic::default(); 2];
        assert!(why(wire::Report { traffic, ..good() }).contains("in order"));
        let passes = vec![wire::PassTraffic::default(); MOST_PASSES + 1];
        let traffic = vec![wire::Traffic { iteration: 1, passes }];
        assert!(why(wire::Report { traffic, ..good() }).contains("4,096"));
        let fault = |part| wire::Report { faults: vec![wire::Part { part }], ..good() };
        assert!(why(fault(None)).contains("names a part"));
        assert!(why(fault(Some(wire::part::Part::Nic(2)))).contains("has not"));
        assert!(why(fault(Some(wire::part::Part::Server(false)))).contains("names"));
        let obeyed = Some(wire::Mark { generation: 1, stage: 2 });
        assert!(why(wire::Report { obeyed, ..good() }).contains("stage"));
        let circuits = vec![wire::Circuit { port: 1, peer: 70_000, peer_port: 0 }];
        let ports = wire::Directive {
            ports: 2,
            circuits,
            mark: Some(Default::default()),
            ..Default::default()
        };
        assert!(read_directive(ports.clone()).is_err());
        assert!(read_directive(wire::Directive { ports: 1, ..ports }).is_err());
        assert!(read_directive(wire::Directive::default()).is_err(), "no mark");
    }
}
