//! The flow engine: max-min fair rates, event by event.
