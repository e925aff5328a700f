//! The interface of every engine: scenario, outcome, policy, event queue, conformance.
