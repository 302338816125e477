//! What fence devices were asked and told, as one line each in `devices.jsonl`.

use fencing_testbed::exchange::Exchange;
use serde::{Deserialize, Serialize};

/// What stands in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    /// An exchange with a device.
    Of {
        /// The FenceDevice.
        device: String,
        /// The Node of the machine behind it.
        node: String,
        /// What was exchanged.
        #[serde(flatten)]
        exchange: Exchange,
    },
    /// A device all of whose exchanges are here, be there none.
    Whole {
        /// The FenceDevice.
        whole: String,
    },
    /// A device whose log nobody can read: what the operator says of it is all there is.
    Unreadable {
        /// The FenceDevice.
        unreadable: String,
    },
}
