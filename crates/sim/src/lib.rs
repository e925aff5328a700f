//! Scenario to engine and decisions to outcome.
