//! A request that the proxy received.

use super::matcher::Seen;
use fencing_testbed::moment::Moment;

/// One request.
#[derive(Debug, Clone)]
pub struct Record {
    /// When it arrived.
    pub at: Moment,
    /// The request.
    pub seen: Seen,
    /// The status that the API server answered; `None` if it was not asked, or has not answered (yet).
    pub upstream_status: Option<u16>,
    /// The status that the client was sent; `None` if it was not answered (yet).
    pub status: Option<u16>,
    /// When the client was answered or cut off; `None` if it was not (yet), or has given up.
    pub ended: Option<Moment>,
}

impl Record {
    pub(super) fn new(seen: Seen) -> Self {
        Self {
            at: Moment::now(),
            seen,
            upstream_status: None,
            status: None,
            ended: None,
        }
    }
}
