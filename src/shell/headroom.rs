//! Would the pods of each node find room elsewhere if it died now? The leader looks at one node a second, only where `--headroom` asks for it.
//!
//! Nothing of the pods is kept but what is left of each node beside them. An answer is as old as it takes to look at all nodes: an hour and a half
//! with 5,000 of them. It is for people, and decides nothing.

use super::cache::Caches;
use fencing_cluster::client::{AskError, ask};
use fencing_cluster::slim::WideNode;
use fencing_drivers::clock::Clock;
use fencing_plugin::plan::headroom::{Held, Nodes, Rooms};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Between two nodes. What one takes is 10 ms at most with 5,000 nodes (`make bench-headroom`), a hundredth of it.
const PACE: Duration = Duration::from_secs(1);
/// After a judgement that took longer, which is one without room as a rule, it rests so many times as long.
const RESTS: u32 = 100;
/// So many nodes are judged by one picture of the others.
const PICTURE_MAX: usize = 60;
/// Most pods of a node that are read: the usual limit of a kubelet is 110.
const PODS_MAX: u32 = 1000;

/// What is known of the nodes' room, and of what their pods would find. One for a term.
pub struct Headroom {
    client: Client,
    caches: Caches,
    clock: Clock,
    found: Mutex<BTreeMap<String, bool>>,
}

impl Headroom {
    /// Nothing is known yet. `client` only reads.
    pub fn new(client: Client, caches: Caches, clock: Clock) -> Self {
        Self {
            client,
            caches,
            clock,
            found: Mutex::default(),
        }
    }

    /// The nodes that were judged, and whether their pods would run elsewhere, for the gauges. Quick.
    pub fn rows(&self) -> Vec<(String, bool)> {
        let found = self.found();
        let exists = |(node, _): &(&String, &bool)| self.caches.node(node).is_some();
        let rows = found.iter().filter(exists);
        rows.map(|(node, it)| (node.clone(), *it)).collect()
    }

    /// Looks at one node after the other, until the term ends. The caches must be filled.
    pub async fn run(self: Arc<Self>) {
        let (mut rooms, mut failure) = (Rooms::default(), None);
        loop {
            let names = self.caches.node_names();
            rooms.keep(&names);
            self.found().retain(|name, _| names.contains(name));
            // Those that have joined come first: while the room of one is not known, nothing is judged.
            let new: Vec<&String> = names.iter().filter(|it| !rooms.knows(it)).collect();
            let all: Vec<&String> = names.iter().collect();
            for some in new.chunks(PICTURE_MAX).chain(all.chunks(PICTURE_MAX)) {
                let mut nodes = rooms.know(&names).then(|| self.picture(&rooms));
                for name in some {
                    let rest = match self.look(name, &mut rooms, &mut nodes).await {
                        Ok(took) => took * RESTS,
                        Err(error) => {
                            self.found().remove(*name);
                            tell(&mut failure, name, &error);
                            Duration::ZERO
                        }
                    };
                    sleep(PACE.max(rest)).await;
                }
            }
            if names.is_empty() {
                sleep(PACE).await;
            }
        }
    }

    /// All nodes as the cache has them now.
    fn picture(&self, rooms: &Rooms) -> Nodes {
        let nodes = self.caches.nodes.state();
        let views = nodes.iter().map(|node| node.view.clone());
        Nodes::new(views.collect(), rooms)
    }

    /// Reads a node and its pods, and judges them where the room of all others is known: on a thread of its own, since incidents share this one.
    /// Returns how long the judgement took.
    async fn look(
        &self,
        name: &str,
        rooms: &mut Rooms,
        nodes: &mut Option<Nodes>,
    ) -> Result<Duration, AskError> {
        let api: Api<WideNode> = Api::all(self.client.clone());
        let Some(node) = ask(api.get_opt(name)).await? else {
            return Ok(Duration::ZERO);
        };
        let running = format!("spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed");
        // From the API server's cache: it need not be of this moment, and etcd would read all pods of the cluster for it.
        let running = ListParams::default().fields(&running).limit(PODS_MAX);
        let api: Api<Pod> = Api::all(self.client.clone());
        let pods = ask(api.list(&running.match_any())).await?.items;
        rooms.note(&node, &pods);
        if nodes.is_none() {
            return Ok(Duration::ZERO);
        }
        let held = self.held(&pods).await?;
        let Some(mut picture) = nodes.take() else {
            return Ok(Duration::ZERO);
        };
        let (dead, clock) = (name.to_owned(), self.clock);
        let judging = spawn_blocking(move || {
            let begun = clock.since_boot();
            let recovers = picture.recover(&dead, &pods, held);
            let took = clock.since_boot().saturating_sub(begun);
            (picture, recovers, took)
        });
        let Ok((picture, recovers, took)) = judging.await else {
            return Ok(Duration::ZERO);
        };
        *nodes = Some(picture);
        self.found().insert(name.to_owned(), recovers);
        Ok(took)
    }

    /// The claims of these pods and the volumes of those, one at a time, by name.
    async fn held(&self, pods: &[Pod]) -> Result<Held, AskError> {
        let mut held = Held::default();
        for (namespace, claim) in claims(pods) {
            let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
            held.claims.extend(ask(api.get_opt(&claim)).await?);
        }
        let bound = held.claims.iter().filter_map(|claim| {
            let spec = claim.spec.as_ref()?;
            spec.volume_name.clone()
        });
        let bound: BTreeSet<String> = bound.collect();
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        for volume in bound {
            held.volumes.extend(ask(api.get_opt(&volume)).await?);
        }
        Ok(held)
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Namespaces and names of the claims that these pods use, each once.
fn claims(pods: &[Pod]) -> BTreeSet<(String, String)> {
    let of_pod = |pod: &Pod| {
        let namespace = pod.namespace().unwrap_or_default();
        let volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
        let claims = volumes.filter_map(|it| it.persistent_volume_claim.as_ref());
        let named = claims.map(|it| (namespace.clone(), it.claim_name.clone()));
        named.collect::<Vec<_>>()
    };
    pods.iter().flat_map(of_pod).collect()
}

/// Says once that nodes cannot be read, until it is for another reason.
fn tell(before: &mut Option<String>, node: &str, error: &AskError) {
    let words = error.to_string();
    if before.as_ref() != Some(&words) {
        tracing::warn!(
            node,
            error = words,
            "cannot read the node, its pods or their volumes, so its headroom is unknown; check deploy/headroom"
        );
        *before = Some(words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::{self, Cluster, failure};
    use serde_json::{Value, json};

    const PODS: &str = "GET /api/v1/pods";

    fn node(name: &str, cpu: &str) -> Value {
        let mut node = fake::node();
        node["metadata"]["name"] = name.into();
        node["status"]["conditions"][0]["status"] = "True".into();
        node["spec"]["taints"] = json!([]);
        node["status"]["allocatable"] = json!({"cpu": cpu, "pods": "110"});
        node
    }

    fn pod(cpu: &str) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "ownerReferences": [{"apiVersion": "v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]},
            "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": cpu}}}]},
        })
    }

    /// The pods of every node are these, so that with two nodes each has to take those of the other beside its own.
    async fn judged(cpu: &str) -> Vec<(String, bool)> {
        let cluster = Cluster::new().await;
        let nodes = [node("w1", "4"), node("w2", "4")];
        for node in &nodes {
            let name = node["metadata"]["name"].as_str().expect("a name");
            cluster.put(&format!("GET /api/v1/nodes/{name}"), 200, node.clone());
        }
        cluster.put("GET /api/v1/nodes", 200, fake::list("Node", "7", &nodes));
        cluster.put(PODS, 200, fake::list("Pod", "7", &[pod(cpu)]));
        let (context, _watches) = cluster.watching();
        let caches = context.caches.clone();
        caches.nodes.wait_until_ready().await.expect("the Nodes");
        let headroom = Headroom::new(context.reads.clone(), caches, Clock::SYSTEM);
        let mut rooms = Rooms::default();
        for name in ["w1", "w2"] {
            let looked = headroom.look(name, &mut rooms, &mut None).await;
            looked.expect("a node and its pods");
        }
        assert!(headroom.rows().is_empty(), "the room of w2 was not known");
        let mut nodes = Some(headroom.picture(&rooms));
        for name in ["w1", "w2"] {
            let looked = headroom.look(name, &mut rooms, &mut nodes).await;
            looked.expect("a judgement");
        }
        let (status, body) = failure(403, "forbidden");
        cluster.put(PODS, status, body);
        let denied = headroom.look("w1", &mut rooms, &mut nodes).await;
        assert!(denied.is_err());
        headroom.rows()
    }

    #[tokio::test]
    async fn a_node_is_recoverable_if_the_others_have_room_for_its_pods() {
        let both = |is: bool| [("w1".to_owned(), is), ("w2".to_owned(), is)];
        assert_eq!(judged("2").await, both(true));
        assert_eq!(judged("3").await, both(false));
    }

    #[test]
    fn a_claim_that_two_pods_use_is_read_once() {
        let mut pod = pod("1");
        pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp", "emptyDir": {}}]);
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let found = claims(&[pod.clone(), pod]);
        assert_eq!(found, [("shop".to_owned(), "data".to_owned())].into());
    }
}
