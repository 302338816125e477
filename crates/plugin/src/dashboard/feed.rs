//! What the API server tells: four watches with the user's rights, and whether they and the way to it are well.
//!
//! A quiet cluster and a dead connection look the same to a watch, so the API server is asked for its version every few seconds beside them.

use super::fleet::World;
use crate::cluster::Cluster;
use crate::watched::{Health, Trouble, Watched, forget_fields, watch};
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_cluster::client::{AskError, ask};
use fencing_cluster::slim::SlimNode;
use fencing_drivers::clock;
use kube::Client;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Between two questions for the API server's version.
const BEAT: Duration = Duration::from_secs(3);

/// The four watches and the way to the API server.
pub(super) struct Feed {
    nodes: Watched<SlimNode>,
    policies: Watched<NodeFencingPolicy>,
    devices: Watched<FenceDevice>,
    fences: Watched<NodeFence>,
    connection: Health,
}

impl Feed {
    /// Starts them in `tasks`. Whatever they find is told to `changed`.
    pub fn start(cluster: &Cluster, changed: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Self {
        let client = &cluster.clients.writes;
        let connection = Health::default();
        tasks.spawn(ask_again(
            client.clone(),
            connection.clone(),
            Arc::clone(changed),
        ));
        Self {
            nodes: watch(client, SlimNode::trim, changed, tasks),
            policies: watch(client, forget_fields, changed, tasks),
            devices: watch(client, forget_fields, changed, tasks),
            fences: watch(client, forget_fields, changed, tasks),
            connection,
        }
    }

    /// Everything that is known now.
    pub fn world(&self) -> World {
        World {
            nodes: self.nodes.seen(SlimNode::view),
            policies: self.policies.seen(Clone::clone),
            devices: self.devices.seen(Clone::clone),
            fences: self.fences.seen(Clone::clone),
        }
    }

    /// What is not well of each kind, and of the way to the API server.
    pub fn troubles(&self) -> [(&'static str, Option<Trouble>); 5] {
        [
            ("connection", self.connection.get()),
            ("nodes", self.nodes.trouble()),
            ("policies", self.policies.trouble()),
            ("devices", self.devices.trouble()),
            ("fences", self.fences.trouble()),
        ]
    }
}

/// Asks for the version again and again.
async fn ask_again(client: Client, health: Health, changed: Arc<Notify>) {
    let mut heard = clock::wall();
    loop {
        let was_well = health.get().is_none();
        match ask(client.apiserver_version()).await {
            // Whoever may not ask has an answer all the same.
            Ok(_) | Err(AskError::Refused { .. }) => {
                heard = clock::wall();
                health.well();
            }
            Err(error) => health.ill(error.to_string(), heard),
        }
        if was_well != health.get().is_none() {
            changed.notify_one();
        }
        sleep(BEAT).await;
    }
}
