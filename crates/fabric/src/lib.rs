//! What is wired: nodes, links, circuits, and what they cost in ports.
