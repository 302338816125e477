//! What a diagnosis reads: the lists of the objects that volumes hang on, each asked for once, page by page, however large the cluster is.
//!
//! What the user may not read is not known, which is no failure: it stands in [`Facts::unknown`], and nothing is concluded from its absence.
//! Who may read one namespace only is shown that one.

use super::super::cluster::{Cluster, Error, seen};
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_cluster::slim::{SlimAttachment, SlimDeployment, SlimPod, WideNode};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass};
use kube::api::{ListParams, PartialObjectMeta};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Events that tell of volumes: of attach/detach, of kubelets, of the scheduler.
pub const REASONS: [&str; 3] = [ATTACH, MOUNT, SCHEDULING];
/// A volume could not be attached.
pub const ATTACH: &str = "FailedAttachVolume";
/// A volume could not be mounted.
pub const MOUNT: &str = "FailedMount";
/// No node takes the pod.
pub const SCHEDULING: &str = "FailedScheduling";

/// Why NodeFences and policies are not known where the operator is not.
const NOT_INSTALLED: &str =
    "the cluster has no API group `nodefencing.io`: the operator is not installed";

/// A list, and why it is not the whole of it.
#[derive(Debug, Clone)]
pub struct Listed<T> {
    /// What could be read.
    pub items: Vec<T>,
    /// Why that is not all; none: it is.
    pub unknown: Option<String>,
    /// A right is missing.
    pub is_forbidden: bool,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            unknown: None,
            is_forbidden: false,
        }
    }
}

impl<T> From<Vec<T>> for Listed<T> {
    fn from(items: Vec<T>) -> Self {
        Self {
            items,
            ..Self::default()
        }
    }
}

impl<T> Listed<T> {
    /// Is what is not in it not there?
    pub fn is_complete(&self) -> bool {
        self.unknown.is_none()
    }

    /// Why it is not all, of this kind, and whether a right is missing.
    pub fn gap(&self, kind: &'static str) -> (&'static str, Option<&str>, bool) {
        (kind, self.unknown.as_deref(), self.is_forbidden)
    }
}

/// Everything that was read.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// When, by the API server's clock.
    pub now: Timestamp,
    /// Nodes.
    pub nodes: Listed<WideNode>,
    /// Pods.
    pub pods: Listed<SlimPod>,
    /// PersistentVolumeClaims.
    pub claims: Listed<PersistentVolumeClaim>,
    /// PersistentVolumes.
    pub volumes: Listed<PersistentVolume>,
    /// StorageClasses.
    pub classes: Listed<StorageClass>,
    /// VolumeAttachments.
    pub attachments: Listed<SlimAttachment>,
    /// CSINodes.
    pub csi_nodes: Listed<CSINode>,
    /// CSIDrivers.
    pub drivers: Listed<CSIDriver>,
    /// Events of [`REASONS`].
    pub events: Listed<Event>,
    /// ReplicaSets.
    pub replica_sets: Listed<PartialObjectMeta<ReplicaSet>>,
    /// Deployments.
    pub deployments: Listed<SlimDeployment>,
    /// NodeFences.
    pub fences: Listed<NodeFence>,
    /// NodeFencingPolicies.
    pub policies: Listed<NodeFencingPolicy>,
}

impl Facts {
    /// Does the cluster know the operator's custom resources?
    pub fn is_installed(&self) -> bool {
        self.policies.unknown.as_deref() != Some(NOT_INSTALLED)
    }

    /// Is there neither a pod nor a claim in this namespace?
    pub fn is_empty_of(&self, namespace: &str) -> bool {
        let is_in = |it: Option<&String>| it.is_some_and(|it| it == namespace);
        let mut pods = self.pods.items.iter();
        let mut claims = self.claims.items.iter();
        !pods.any(|it| is_in(it.metadata.namespace.as_ref()))
            && !claims.any(|it| is_in(it.metadata.namespace.as_ref()))
    }

    /// Is a right missing to read all of it?
    pub fn is_forbidden(&self) -> bool {
        self.gaps().iter().any(|(.., is_forbidden)| *is_forbidden)
    }

    /// What could not be read, and why, each in one sentence.
    pub fn unknown(&self) -> Vec<String> {
        let gaps = self.gaps().into_iter();
        let told = gaps.filter_map(|(kind, why, _)| Some(format!("{kind}: {}", why?)));
        told.collect()
    }

    /// Of each kind why not all of it is known, and whether a right is missing for it.
    fn gaps(&self) -> [(&'static str, Option<&str>, bool); 13] {
        [
            self.nodes.gap("Nodes"),
            self.pods.gap("pods"),
            self.claims.gap("PersistentVolumeClaims"),
            self.volumes.gap("PersistentVolumes"),
            self.classes.gap("StorageClasses"),
            self.attachments.gap("VolumeAttachments"),
            self.csi_nodes.gap("CSINodes"),
            self.drivers.gap("CSIDrivers"),
            self.events.gap("Events"),
            self.replica_sets.gap("ReplicaSets"),
            self.deployments.gap("Deployments"),
            self.fences.gap("NodeFences"),
            self.policies.gap("NodeFencingPolicies"),
        ]
    }
}

/// Reads them; of this namespace alone where no more may be read.
///
/// # Errors
/// The API server does not answer.
pub async fn read(cluster: &Cluster, namespace: Option<&str>) -> Result<Facts, Error> {
    let all = ListParams::default();
    let (nodes, volumes, classes, attachments, csi_nodes, drivers) = tokio::try_join!(
        whole(cluster, &all),
        whole(cluster, &all),
        whole(cluster, &all),
        whole(cluster, &all),
        whole(cluster, &all),
        whole(cluster, &all),
    )?;
    let (pods, claims, events, replica_sets, deployments) = tokio::try_join!(
        spread(cluster, &all, namespace),
        spread(cluster, &all, namespace),
        events(cluster, namespace),
        spread(cluster, &all, namespace),
        spread(cluster, &all, namespace),
    )?;
    let (fences, policies) = tokio::try_join!(ours(cluster), ours(cluster))?;
    Ok(Facts {
        now: cluster.now().await,
        nodes,
        pods,
        claims,
        volumes,
        classes,
        attachments,
        csi_nodes,
        drivers,
        events,
        replica_sets,
        deployments,
        fences,
        policies,
    })
}

/// One LIST for each reason: the API server chooses, so that a cluster full of other events costs nothing.
async fn events(cluster: &Cluster, namespace: Option<&str>) -> Result<Listed<Event>, Error> {
    let [attach, mount, scheduling] =
        REASONS.map(|it| ListParams::default().fields(&format!("reason={it}")));
    let (attach, mount, scheduling) = tokio::try_join!(
        spread(cluster, &attach, namespace),
        spread(cluster, &mount, namespace),
        spread(cluster, &scheduling, namespace),
    )?;
    let unknown = attach.unknown.or(mount.unknown).or(scheduling.unknown);
    let items = [attach.items, mount.items, scheduling.items];
    Ok(Listed {
        items: items.into_iter().flatten().collect(),
        unknown,
        is_forbidden: attach.is_forbidden || mount.is_forbidden || scheduling.is_forbidden,
    })
}

async fn whole<K>(cluster: &Cluster, by: &ListParams) -> Result<Listed<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    known(cluster.list(&cluster.api::<K>(), by).await)
}

/// Of our own kinds. What a newer operator has written, and this plugin cannot read, is there all the same: nothing is concluded from its absence.
async fn ours<K>(cluster: &Cluster) -> Result<Listed<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let (read, left_out) = match cluster.readable().await {
        Ok((read, left_out)) => (Ok(read), left_out),
        Err(error) => (Err(error), Vec::new()),
    };
    let listed = known(read)?;
    let left_out = (!left_out.is_empty()).then(|| left_out.join("; "));
    Ok(Listed {
        unknown: listed.unknown.or(left_out),
        ..listed
    })
}

async fn spread<K>(
    cluster: &Cluster,
    by: &ListParams,
    namespace: Option<&str>,
) -> Result<Listed<K>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let everywhere = known(cluster.list(&cluster.api::<K>(), by).await)?;
    let (Some(why), Some(namespace)) = (&everywhere.unknown, namespace) else {
        return Ok(everywhere);
    };
    let api: Api<K> = Api::namespaced(cluster.clients.reads.clone(), namespace);
    let here = known(cluster.list(&api, by).await)?;
    let unknown = match here.unknown {
        Some(why) => why,
        None => format!("only those of namespace {namespace} could be read ({why})"),
    };
    Ok(Listed {
        items: here.items,
        unknown: Some(unknown),
        is_forbidden: everywhere.is_forbidden || here.is_forbidden,
    })
}

/// What the user may not read, or the cluster does not have, is not known, in the API server's own words: the role is named once, at the end.
fn known<K>(answer: Result<Vec<K>, Error>) -> Result<Listed<K>, Error> {
    let is_forbidden = matches!(answer, Err(Error::Forbidden { .. }));
    let answer = answer.map_err(|error| match error {
        Error::Forbidden { message, .. } => Error::Refused(message),
        Error::NotInstalled(_) => Error::Refused(NOT_INSTALLED.to_owned()),
        other => other,
    });
    Ok(match seen(answer)? {
        Ok(items) => items.into(),
        Err(words) => Listed {
            items: Vec::new(),
            unknown: Some(words),
            is_forbidden,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Limits;
    use fencing_cluster::fake::{Fake, Seen};
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    #[test]
    fn what_may_not_be_read_is_not_known_and_in_the_api_servers_words() {
        let forbidden = Error::Forbidden {
            message: "pods is forbidden".to_owned(),
            role: "some-role",
        };
        let listed: Listed<SlimPod> = known(Err(forbidden)).expect("no failure");
        assert_eq!(listed.unknown.as_deref(), Some("pods is forbidden"));
        let absent: Listed<NodeFence> =
            known(Err(Error::NotInstalled("https://api".to_owned()))).expect("no failure");
        assert!(
            absent
                .unknown
                .is_some_and(|it| it.contains("not installed"))
        );
    }

    #[test]
    fn a_cluster_that_does_not_answer_is_a_failure() {
        let down = Error::Config("no route".to_owned());
        assert!(known::<SlimPod>(Err(down)).is_err());
    }

    async fn asked(
        namespace: Option<&str>,
        answer: impl Fn(&Seen) -> (u16, Value) + Clone + Send + Sync + 'static,
    ) -> (Facts, Vec<String>) {
        let server = Fake::start(answer).await;
        let cluster = Cluster {
            clients: server.clients.clone(),
            namespace: "node-fencing-system".to_owned(),
            limits: Limits::of(None),
        };
        let facts = read(&cluster, namespace).await.expect("facts");
        let lines = server.seen().into_iter().map(|it| it.line);
        (facts, lines.collect())
    }

    fn refused(code: u16, reason: &str, message: &str) -> (u16, Value) {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
        (code, status)
    }

    fn empty() -> (u16, Value) {
        (200, json!({"metadata": {}, "items": []}))
    }

    /// However large the cluster is: of each kind one list, and of events one for each reason.
    #[tokio::test]
    async fn each_kind_is_listed_once_and_page_by_page() {
        let (facts, lines) = asked(Some("shop"), |_| empty()).await;
        assert!(facts.unknown().is_empty(), "{:?}", facts.unknown());
        let distinct: BTreeSet<&String> = lines.iter().collect();
        assert_eq!((lines.len(), distinct.len()), (16, 16), "{lines:#?}");
        // What time it is there is asked, too.
        let lists = lines.iter().filter(|it| *it != "GET /version");
        assert!(lists.clone().count() == 15, "{lines:#?}");
        assert!(
            lists.clone().all(|it| it.contains("limit=500")),
            "{lines:#?}"
        );
        let events = lines.iter().filter(|it| it.contains("/events?"));
        let events: Vec<&String> = events.collect();
        assert_eq!(events.len(), 3);
        assert!(
            events
                .iter()
                .all(|it| it.contains("fieldSelector=reason%3DFailed")),
            "{events:#?}"
        );
    }

    #[tokio::test]
    async fn a_second_page_is_asked_for_where_there_is_one() {
        let (facts, lines) = asked(None, |request| {
            let is_first =
                request.line.contains("/api/v1/pods?") && !request.line.contains("continue=");
            let pod = json!({"metadata": {"namespace": "shop", "name": "db"}});
            match (is_first, request.line.contains("/api/v1/pods?")) {
                (true, _) => (
                    200,
                    json!({"metadata": {"continue": "more"}, "items": [pod]}),
                ),
                (false, true) => (200, json!({"metadata": {}, "items": [pod]})),
                (false, false) => empty(),
            }
        })
        .await;
        assert_eq!(facts.pods.items.len(), 2);
        assert_eq!(lines.len(), 17);
    }

    #[tokio::test]
    async fn who_may_read_one_namespace_is_shown_that_one() {
        let answer = |request: &Seen| match request.line.contains("/api/v1/pods?") {
            true => refused(403, "Forbidden", "pods is forbidden"),
            false => empty(),
        };
        let (facts, lines) = asked(Some("shop"), answer).await;
        assert!(
            lines
                .iter()
                .any(|it| it.contains("/api/v1/namespaces/shop/pods?")),
            "{lines:#?}"
        );
        let unknown = facts.pods.unknown.expect("not all of them");
        assert!(
            unknown.starts_with("only those of namespace shop could be read"),
            "{unknown}"
        );
        let (facts, lines) = asked(None, answer).await;
        assert_eq!(lines.len(), 16);
        assert!(
            facts
                .pods
                .unknown
                .is_some_and(|it| it.contains("pods is forbidden"))
        );
    }

    #[tokio::test]
    async fn a_cluster_without_the_operator_is_diagnosed_all_the_same() {
        let answer = |request: &Seen| match request.line.contains("nodefencing.io") {
            true => refused(
                404,
                "NotFound",
                "the server could not find the requested resource",
            ),
            false => empty(),
        };
        let (facts, _) = asked(None, answer).await;
        assert_eq!(facts.unknown().len(), 2, "{:?}", facts.unknown());
        assert!(
            facts
                .policies
                .unknown
                .is_some_and(|it| it.contains("not installed"))
        );
    }

    /// As the operator of the next minor version may write it: a mode that this plugin does not know.
    #[tokio::test]
    async fn what_a_newer_operator_has_written_is_named_and_nothing_is_concluded_from_its_absence()
    {
        let answer = |request: &Seen| match request.line.contains("/nodefencingpolicies?") {
            true => {
                let policy = |name: &str, mode: &str| json!({"metadata": {"name": name}, "spec": {"nodeSelector": {}, "fence": {"mode": mode}}});
                let items = [policy("old", "PowerOff"), policy("new", "Teleport")];
                (200, json!({"metadata": {}, "items": items}))
            }
            false => empty(),
        };
        let (facts, _) = asked(None, answer).await;
        let names = facts.policies.items.iter().map(kube::ResourceExt::name_any);
        assert_eq!(names.collect::<Vec<_>>(), ["old"]);
        let unknown = facts.unknown();
        assert_eq!(unknown.len(), 1, "{unknown:?}");
        assert!(
            unknown
                .iter()
                .all(|it| it.contains("NodeFencingPolicy new is left out")
                    && it.contains("Teleport")),
            "{unknown:?}"
        );
        assert!(facts.is_installed() && !facts.policies.is_complete());
    }

    #[test]
    fn each_kind_that_is_not_known_is_named() {
        let mut facts = Facts::default();
        assert!(facts.unknown().is_empty());
        facts.nodes.unknown = Some("forbidden".to_owned());
        assert_eq!(facts.unknown(), ["Nodes: forbidden"]);
    }
}
