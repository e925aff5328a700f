//! A balancer of the packet engine, written in Python.

use crate::function::Function;
use lightloom_packet::{Choice, PathChooser};
use std::sync::Arc;

/// Calls a function for every packet that several paths can take.
#[derive(Debug)]
pub(crate) struct PythonBalancer(pub(crate) Arc<Function>);

impl PathChooser for PythonBalancer {
    fn path(&self, choice: &Choice<'_>) -> Result<i64, String> {
        self.0.ask(|py, function| {
            let heard = choice.heard.iter().map(|h| (h.path, h.marked, h.round_trip, h.now));
            let heard: Vec<_> = heard.collect();
            let (source, destination) = (choice.source.0, choice.destination.0);
            let Choice { now, flow, queues, in_flight, turn, .. } = *choice;
            let packet = (now, flow, source, destination, queues, heard, in_flight, turn);
            function.call1(py, packet)?.extract(py)
        })
    }
}
