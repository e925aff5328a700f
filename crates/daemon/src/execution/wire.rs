//! Nodes' messages on the wire, and back: what makes no sense is refused here.

use lightloom_control::execution::{NodeReport, NodeView, PortView, Stage};
use lightloom_units::Time;

/// What `protoc` makes of `proto/execution.proto`.
#[allow(missing_docs, clippy::all)]
#[rustfmt::skip]
#[path = "../proto/execution.rs"]
pub mod generated;

/// A node has no more ports.
const MOST_PORTS: usize = 1 << 16;

/// A report as it is sent, to the execution of this number.
pub fn report(run: u64, report: &NodeReport) -> generated::NodeReport {
    let done = |&(port, circuits): &(u32, u32)| generated::CircuitsDone { port, circuits };
    generated::NodeReport {
        node: report.node,
        run,
        beat: report.beat,
        done: report.done.iter().map(done).collect(),
        ended: report.ended,
    }
}

/// A report as it was sent.
pub fn read_report(report: &generated::NodeReport) -> Result<NodeReport, &'static str> {
    if report.done.len() > MOST_PORTS {
        return Err("a node has at most 65536 ports");
    }
    let done: Vec<_> = report.done.iter().map(|done| (done.port, done.circuits)).collect();
    if done.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err("ports must rise");
    }
    Ok(NodeReport { node: report.node, beat: report.beat, done, ended: report.ended })
}

/// What a node is told, as it is sent.
pub fn view(run: u64, view: &NodeView) -> generated::NodeView {
    let stage = match view.stage {
        Stage::Loading => generated::RunStage::Loading,
        Stage::Running => generated::RunStage::Running,
        Stage::FellBack => generated::RunStage::FellBack,
        Stage::Complete => generated::RunStage::Complete,
    };
    let end = |(node, port)| generated::PortEnd { node, port };
    let port = |port: &PortView| generated::PortState {
        port: port.port,
        holds: port.holds,
        to: port.to.map(end),
        from: port.from.map(end),
    };
    generated::NodeView {
        run,
        beat: view.beat,
        stage: stage.into(),
        running_ps: view.running.map(Time::ps),
        why: view.why.clone(),
        ports: view.ports.iter().map(port).collect(),
        lease_ps: view.lease.ps(),
    }
}

/// What a node is told, as it was sent.
pub fn read_view(view: generated::NodeView) -> Result<NodeView, &'static str> {
    let stage = match view.stage() {
        generated::RunStage::Loading => Stage::Loading,
        generated::RunStage::Running => Stage::Running,
        generated::RunStage::FellBack => Stage::FellBack,
        generated::RunStage::Complete => Stage::Complete,
    };
    if view.ports.len() > MOST_PORTS {
        return Err("a node has at most 65536 ports");
    }
    let port = |port: generated::PortState| PortView {
        port: port.port,
        holds: port.holds,
        to: port.to.map(|end| (end.node, end.port)),
        from: port.from.map(|end| (end.node, end.port)),
    };
    Ok(NodeView {
        beat: view.beat,
        lease: Time::from_ps(view.lease_ps),
        stage,
        running: view.running_ps.map(Time::from_ps),
        why: view.why,
        ports: view.ports.into_iter().map(port).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_went() {
        for stage in [Stage::Loading, Stage::Running, Stage::FellBack, Stage::Complete] {
            let told = NodeView {
                beat: 7,
                lease: Time::from_ms(9),
                stage,
                running: Some(Time::from_ms(3)),
                why: "words".into(),
                ports: vec![
                    PortView { port: 0, holds: 0, to: None, from: Some((1, 0)) },
                    PortView { port: 2, holds: 5, to: Some((3, 1)), from: None },
                ],
            };
            let sent = view(1, &told);
            assert_eq!((sent.run, sent.lease_ps), (1, Time::from_ms(9).ps()));
            assert_eq!(read_view(sent), Ok(told));
        }
        let said = NodeReport { node: 3, beat: 9, done: vec![(0, 2), (4, 1)], ended: true };
        let sent = report(8, &said);
        assert_eq!((sent.run, read_report(&sent)), (8, Ok(said)));
        let mut doubled = sent;
        doubled.done.push(doubled.done[0]);
        assert_eq!(read_report(&doubled), Err("ports must rise"));
    }
}
