//! What routes share.

use super::metrics::Metrics;
use crate::auth::Tokens;
use crate::hub::Hub;
use std::sync::Arc;

/// The region, its metrics, and who may see them.
#[derive(Clone)]
pub(super) struct Gateway {
    pub hub: Hub,
    pub metrics: Arc<Metrics>,
    pub tokens: Arc<Tokens>,
}
