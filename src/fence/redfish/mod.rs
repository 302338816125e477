//! The Redfish driver (DMTF DSP0266): reads `ComputerSystem.PowerState`, and sends `Reset` with `ForceOff`.

use super::address::{Address, AddressRules};
use super::credentials::Credentials;
use super::tls::Verification;
use crate::clock::Clock;
use std::sync::Arc;
use std::time::Duration;

/// All that is needed to talk to one system's Redfish service.
#[derive(Debug, Clone)]
pub struct RedfishSettings {
    /// Where it listens; `http://` only with [`Verification::None`].
    pub address: Address,
    /// Id of the system below `/redfish/v1/Systems/`, or its path from `/redfish/v1/` on; none where there is exactly one.
    pub system_id: Option<String>,
    /// How the certificate is checked.
    pub verification: Verification,
    /// User and password.
    pub credentials: Arc<Credentials>,
    /// Where credentials may go.
    pub rules: Arc<AddressRules>,
    /// Time for one whole call: name resolution, connection, TLS, all requests and answers.
    pub call_timeout: Duration,
    /// The same for the power-off command alone, 5 s by DESIGN: what is not sent by then is not sent.
    pub command_timeout: Duration,
    /// Where the time comes from.
    pub clock: Clock,
}
