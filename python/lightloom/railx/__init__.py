"""RailX: topologies of circuit-switched rails, their traffic, cost, faults and figures."""
