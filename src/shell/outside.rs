//! What the operator reaches besides the API server: fence devices, and the ports of kubelets.
//!
//! [`Outside::network`] is the only one that the program has. A simulation hands in its own, with machines that exist in memory
//! alone; nothing that a user can set chooses between the two.

use crate::fence::address::AddressRules;
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
    /// The network of this host, within these rules.
    #[must_use]
    pub fn network(rules: &AddressRules) -> Self {
        let rules = rules.clone();
        Self {
            redfish: Arc::new(|settings| Ok(Arc::new(Redfish::new(settings)?))),
            kubelet: Arc::new(move |address, port| knock(rules.clone(), address, port).boxed()),
        }
    }
}

/// The address is the Node's choice: no name is looked up for it, and no service of this host or of a cloud is opened (S16).
async fn knock(rules: AddressRules, address: String, port: u16) -> bool {
    let Some(address) = address.parse().ok().filter(|it| rules.allow_kubelet(*it)) else {
        return false;
    };
    let connected = timeout(KUBELET_TIMEOUT, TcpStream::connect((address, port)));
    matches!(connected.await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_kubelet_is_looked_for_at_an_address_of_a_node_and_at_no_name() {
        let port = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let number = port.local_addr().expect("an address").port();
        let answers = async |rules: &AddressRules, address: &str| {
            (Outside::network(rules).kubelet)(address.to_owned(), number).await
        };
        let local = vec!["127.0.0.0/8".parse().expect("a range")];
        let lab = AddressRules::new(local, Vec::new());
        assert!(answers(&lab, "127.0.0.1").await);
        assert!(!answers(&lab, "localhost").await);
        assert!(!answers(&AddressRules::default(), "127.0.0.1").await);
    }
}
