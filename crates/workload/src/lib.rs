//! What is sent, and when it may start: models, parallelism, pipelines, gating, the task graph.
