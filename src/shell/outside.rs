//! What the operator reaches besides the API server: fence devices, and the ports of kubelets.
//!
//! [`Outside::network`] is the only one that the program has. A simulation hands in its own, with machines that exist in memory
//! alone; nothing that a user can set chooses between the two.

use crate::fence::redfish::{Redfish, RedfishSettings};
use crate::fence::{DeviceError, FenceDriver};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long the kubelet's port is given to answer.
const KUBELET_TIMEOUT: Duration = Duration::from_millis(300);

/// Makes the driver of a Redfish service; opens no connection.
pub type MakeRedfish =
    dyn Fn(RedfishSettings) -> Result<Arc<dyn FenceDriver>, DeviceError> + Send + Sync;
/// Does something answer at this address and port?
pub type Knock = dyn Fn(String, u16) -> BoxFuture<'static, bool> + Send + Sync;

/// The ways out. Cheap to clone.
#[derive(Clone)]
pub struct Outside {
    /// To a Redfish service.
    pub redfish: Arc<MakeRedfish>,
    /// To a kubelet's port.
    pub kubelet: Arc<Knock>,
}

impl Outside {
    /// The network of this host.
    #[must_use]
    pub fn network() -> Self {
        Self {
            redfish: Arc::new(|settings| Ok(Arc::new(Redfish::new(settings)?))),
            kubelet: Arc::new(|address, port| knock(address, port).boxed()),
        }
    }
}

async fn knock(address: String, port: u16) -> bool {
    let connected = timeout(
        KUBELET_TIMEOUT,
        TcpStream::connect((address.as_str(), port)),
    );
    matches!(connected.await, Ok(Ok(_)))
}
