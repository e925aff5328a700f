//! Decisions, pure: which circuits, which routes.
