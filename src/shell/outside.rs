//! What the operator reaches besides the API server: fence devices, and the ports of kubelets.
//!
//! [`Outside::network`] is the only one that the program has. A simulation hands in its own, with machines that exist in memory
//! alone; nothing that a user can set chooses between the two.

use super::knock::{Knocked, knock, nobody_beside};
use fencing_cluster::slim::Kubelet;
use fencing_drivers::address::AddressRules;
use fencing_drivers::cloud::surroundings::Surroundings;
use fencing_drivers::{DeviceError, DriverKind, FenceDriver, Parts};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Knocks at the same time; each is over in less than two seconds.
const KNOCKS_MAX: usize = 64;

/// Makes the driver of a device; opens no connection.
pub type MakeDriver =
    dyn Fn(&dyn DriverKind, Parts) -> Result<Arc<dyn FenceDriver>, DeviceError> + Send + Sync;
/// What becomes of a knock at this node's kubelet.
pub type Knock = dyn Fn(Kubelet) -> BoxFuture<'static, Knocked> + Send + Sync;

/// The ways out. Cheap to clone.
#[derive(Clone)]
pub struct Outside {
    /// To a fence device.
    pub device: Arc<MakeDriver>,
    /// To a kubelet's port.
    pub kubelet: Arc<Knock>,
    /// What this process was given to log in with.
    pub surroundings: Surroundings,
    /// A replica that stands by tries whether it could reach devices ([`super::standby`]).
    pub from_standby: bool,
}

impl Outside {
    /// The network of this host, within these rules.
    #[must_use]
    pub fn network(rules: &AddressRules) -> Self {
        let (rules, knocks) = (rules.clone(), Arc::new(Semaphore::new(KNOCKS_MAX)));
        Self {
            device: Arc::new(|kind, parts| kind.make(parts)),
            kubelet: Arc::new(move |kubelet| {
                let (rules, knocks) = (rules.clone(), Arc::clone(&knocks));
                async move {
                    let _turn = knocks.acquire().await;
                    knock(&rules, &kubelet, nobody_beside).await
                }
                .boxed()
            }),
            surroundings: Surroundings::default(),
            from_standby: true,
        }
    }
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
            let kubelet = Kubelet {
                node: "worker-1".to_owned(),
                address: address.to_owned(),
                port: number,
            };
            (Outside::network(rules).kubelet)(kubelet).await == Knocked::Answers
        };
        let local = vec!["127.0.0.0/8".parse().expect("a range")];
        let lab = AddressRules::new(local, Vec::new());
        assert!(answers(&lab, "127.0.0.1").await);
        assert!(!answers(&lab, "localhost").await);
        assert!(!answers(&AddressRules::default(), "127.0.0.1").await);
    }
}
