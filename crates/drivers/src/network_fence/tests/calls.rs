//! What a session asks the API server, and what it makes of the answers.

use super::super::object::PATH;
use super::super::session::Session;
use super::super::{NotCreated, NotRead, OwnCluster, StorageFence};
use super::clients::sidecar;
use super::{CIDR, NAME, fenced, with};
use crate::clock::Clock;
use crate::{Advice, DeviceError, Extent, FenceSession, OffOutcome};
use fencing_api::device::{ClientAddresses, NetworkFenceDriver};
use fencing_core::fixtures::{claimed, node};
use fencing_core::observed::NodeView;
use fencing_core::reading::PowerState;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An API server with a few objects.
#[derive(Debug)]
struct Api {
    node: Result<Option<NodeView>, NotRead>,
    class: Result<Option<Value>, NotRead>,
    sidecars: Result<Vec<Value>, NotRead>,
    fences: Mutex<Result<Vec<Value>, NotRead>>,
    creates: Result<(), NotCreated>,
    created: Mutex<Vec<Value>>,
}

impl Api {
    fn new() -> Self {
        let class =
            json!({"metadata": {"name": "rbd"}, "spec": {"provisioner": "rbd.csi.ceph.com"}});
        Self {
            node: Ok(Some(addressed(claimed("fence-n1")))),
            class: Ok(Some(class)),
            sidecars: Ok(vec![sidecar()]),
            fences: Mutex::new(Ok(Vec::new())),
            creates: Ok(()),
            created: Mutex::default(),
        }
    }

    fn with(self, fences: &[Value]) -> Self {
        *self.fences.lock().expect("lock") = Ok(fences.to_vec());
        self
    }
}

impl OwnCluster for Api {
    fn node<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<NodeView>, NotRead>> {
        assert_eq!(name, "worker-1");
        ready(self.node.clone()).boxed()
    }

    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Value>, NotRead>> {
        assert!(path.ends_with("/networkfenceclasses/rbd"), "{path}");
        ready(self.class.clone()).boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<Value>, NotRead>> {
        let list = match path == PATH {
            true => self.fences.lock().expect("lock").clone(),
            false => self.sidecars.clone(),
        };
        ready(list).boxed()
    }

    fn create<'a>(&'a self, path: &'a str, object: Value) -> BoxFuture<'a, Result<(), NotCreated>> {
        assert_eq!(path, PATH);
        self.created.lock().expect("lock").push(object);
        ready(self.creates.clone()).boxed()
    }
}

fn addressed(node: NodeView) -> NodeView {
    NodeView {
        addresses: vec!["10.0.0.7".to_owned()],
        ..node
    }
}

fn session(api: &Arc<Api>) -> Session {
    Session::new(StorageFence {
        settings: NetworkFenceDriver {
            cluster_id: None,
            provisioner: "rbd.csi.ceph.com".to_owned(),
            network_fence_class_name: "rbd".to_owned(),
            client_addresses: ClientAddresses::OfNode,
        },
        node: "worker-1".to_owned(),
        name: NAME.to_owned(),
        cluster: Arc::<Api>::clone(api),
        call_timeout: Duration::from_secs(5),
        command_timeout: Duration::from_secs(5),
        clock: Clock::SYSTEM,
    })
}

async fn read(api: Api) -> Result<(PowerState, String, Vec<String>), DeviceError> {
    let reading = session(&Arc::new(api)).observe().await?;
    Ok((reading.state, reading.raw, reading.faults))
}

async fn off(api: Api) -> (Result<OffOutcome, DeviceError>, Vec<Value>) {
    let api = Arc::new(api);
    let mut session = session(&api);
    let outcome = match session.prepare_off().await {
        Ok(_) => session.force_off().await,
        Err(error) => Err(error),
    };
    let created = api.created.lock().expect("lock").clone();
    (outcome, created)
}

#[tokio::test]
async fn without_an_object_the_storage_lets_the_node_in() {
    let none = Vec::<String>::new();
    let on = (
        PowerState::On,
        format!("no NetworkFence for {CIDR}"),
        none.clone(),
    );
    assert_eq!(read(Api::new()).await, Ok(on));
    let raw = "Succeeded: fencing operation successful".to_owned();
    let api = Api::new().with(&[fenced()]);
    assert_eq!(read(api).await, Ok((PowerState::Off, raw, none.clone())));
    let pending = with(fenced(), "/status", json!({}));
    let api = Api::new().with(&[pending]);
    let between = (
        PowerState::Transitional,
        "no result yet".to_owned(),
        none.clone(),
    );
    assert_eq!(read(api).await, Ok(between));
    let failed = json!({"result": "Failed", "message": "no leader found for driver"});
    let api = Api::new().with(&[with(fenced(), "/status", failed)]);
    let between = (
        PowerState::Transitional,
        "Failed: no leader found for driver".to_owned(),
        none,
    );
    assert_eq!(read(api).await, Ok(between));
}

/// S10, S22: whatever else it may be of, it proves nothing, and no other is made beside it.
#[tokio::test]
async fn an_object_of_another_fence_boot_or_node_is_never_off() {
    let annotation = |key: &str, value: &str| {
        with(
            fenced(),
            &format!("/metadata/annotations/nodefencing.io~1{key}"),
            json!(value),
        )
    };
    let mut foreign = fenced();
    foreign["metadata"]["labels"] = json!({});
    for object in [
        annotation("node-fence", "another"),
        annotation("boot-id", "boot-0"),
        annotation("node-uid", "uid-0"),
        annotation("node", "worker-2"),
        foreign,
        with(fenced(), "/spec/networkFenceClassName", json!("cephfs")),
        with(fenced(), "/spec/cidrs", json!([])),
        with(fenced(), "/spec/cidrs", json!(["10.0.0.0/24"])),
        with(fenced(), "/metadata/generation", json!(3)),
        with(fenced(), "/spec/fenceState", json!("Unfenced")),
    ] {
        let seen = read(Api::new().with(std::slice::from_ref(&object))).await;
        assert!(seen.is_err(), "{object} {seen:?}");
        let (outcome, created) = off(Api::new().with(std::slice::from_ref(&object))).await;
        assert!(
            outcome.is_err() && created.is_empty(),
            "{object} {outcome:?}"
        );
    }
    // Nor is it without the claim, or in the next boot.
    for node in [
        node(),
        NodeView {
            boot_id: "boot-2".to_owned(),
            ..claimed("fence-n1")
        },
    ] {
        let api = Api {
            node: Ok(Some(addressed(node))),
            ..Api::new()
        };
        assert!(read(api.with(&[fenced()])).await.is_err());
    }
    // Another process goes on with the same NodeFence.
    let api = Api {
        node: Ok(Some(addressed(claimed("fence-n2")))),
        ..Api::new()
    };
    assert!(
        read(api.with(&[fenced()]))
            .await
            .is_ok_and(|it| it.0 == PowerState::Off)
    );
}

/// CSI-Addons carries out what it finds whenever it starts: an object of others that says Unfenced takes ours back.
#[tokio::test]
async fn an_unfenced_object_of_others_speaks_against_an_off() {
    let other = |state: &str, cidr: &str| {
        let object = with(fenced(), "/metadata/name", json!("others"));
        let object = with(object, "/spec/fenceState", json!(state));
        with(object, "/spec/cidrs", json!([cidr]))
    };
    let faults = async |other: Value| {
        read(Api::new().with(&[other, fenced()]))
            .await
            .expect("a reading")
            .2
    };
    assert_eq!(
        faults(other("Unfenced", CIDR)).await,
        ["NetworkFence others (Unfenced)"]
    );
    assert!(faults(other("Fenced", CIDR)).await.is_empty());
    assert!(faults(other("Unfenced", "10.0.0.8/32")).await.is_empty());
}

#[tokio::test]
async fn an_off_makes_one_object_for_the_claim_and_none_beside_it() {
    let (outcome, created) = off(Api::new()).await;
    assert_eq!(outcome, Ok(OffOutcome::Accepted));
    let [object] = created.as_slice() else {
        panic!("{created:?}")
    };
    assert_eq!(object["metadata"]["name"], NAME);
    assert_eq!(
        object["metadata"]["annotations"],
        json!({
            "nodefencing.io/node": "worker-1", "nodefencing.io/node-uid": "uid-1", "nodefencing.io/boot-id": "boot-1",
            "nodefencing.io/node-fence": "fence",
        })
    );
    assert_eq!(object["spec"]["cidrs"], json!([CIDR]));
    let (outcome, created) = off(Api::new().with(&[fenced()])).await;
    assert!(
        matches!(outcome, Ok(OffOutcome::AlreadyOff { .. })),
        "{outcome:?}"
    );
    assert!(created.is_empty());
    // S11: without a claim nothing is commanded.
    let unclaimed = Api {
        node: Ok(Some(addressed(node()))),
        ..Api::new()
    };
    let (outcome, created) = off(unclaimed).await;
    assert!(outcome.is_err() && created.is_empty());
    let mut unprepared = session(&Arc::new(Api::new()));
    assert!(unprepared.force_off().await.is_err());
}

/// S23: what may have been made is not known not to be there.
#[tokio::test]
async fn a_creation_without_an_answer_is_unknown_and_a_refused_one_is_not() {
    let refused = Api {
        creates: Err(NotCreated::Refused("HTTP 403".to_owned())),
        ..Api::new()
    };
    assert!(off(refused).await.0.is_err());
    let lost = Api {
        creates: Err(NotCreated::Unknown("HTTP 500".to_owned())),
        ..Api::new()
    };
    assert!(matches!(off(lost).await.0, Ok(OffOutcome::Unknown(_))));
}

#[tokio::test]
async fn what_cannot_be_read_is_no_reading() {
    let failed = || NotRead::Failed("HTTP 503".to_owned());
    for api in [
        Api {
            node: Err(failed()),
            ..Api::new()
        },
        Api {
            node: Ok(None),
            ..Api::new()
        },
        Api {
            class: Err(failed()),
            ..Api::new()
        },
        Api {
            class: Ok(None),
            ..Api::new()
        },
        Api {
            class: Ok(Some(json!({"spec": {"provisioner": "other.csi"}}))),
            ..Api::new()
        },
        Api {
            class: Ok(Some(json!({}))),
            ..Api::new()
        },
        Api {
            fences: Mutex::new(Err(failed())),
            ..Api::new()
        },
        Api {
            fences: Mutex::new(Ok(vec![json!({})])),
            ..Api::new()
        },
        Api {
            sidecars: Err(failed()),
            ..Api::new()
        },
        Api {
            sidecars: Ok(vec![json!({})]),
            ..Api::new()
        },
        Api {
            sidecars: Ok(Vec::new()),
            ..Api::new()
        },
    ] {
        let shown = format!("{api:?}");
        assert!(read(api).await.is_err(), "{shown}");
    }
}

/// The rights are granted separately, and by what is said.
#[tokio::test]
async fn a_right_that_is_missing_is_named_with_the_value_that_grants_it() {
    let lacks = || NotRead::NotGranted("list networkfences.csiaddons.openshift.io".to_owned());
    let says = "NetworkFence worker-1.rbd: the operator may not list networkfences.csiaddons.openshift.io; set \
                `rbac.networkFence` in the chart, or add deploy/network-fence";
    for api in [
        Api {
            class: Err(lacks()),
            ..Api::new()
        },
        Api {
            fences: Mutex::new(Err(lacks())),
            ..Api::new()
        },
        Api {
            sidecars: Err(lacks()),
            ..Api::new()
        },
    ] {
        let error = read(api).await.expect_err("nothing was read");
        assert_eq!(error.to_string(), says);
        assert_eq!(error.advice(), Advice::Human);
    }
    let made = Api {
        creates: Err(NotCreated::NotGranted("create networkfences".to_owned())),
        ..Api::new()
    };
    let error = off(made).await.0.expect_err("nothing was made");
    assert_eq!(error.reason(), "PermissionDenied");
}

#[tokio::test]
async fn a_probe_says_that_csi_addons_is_not_connected_and_nothing_is_turned_on() {
    let lost = Api {
        sidecars: Ok(vec![with(sidecar(), "/status/state", json!("Retrying"))]),
        ..Api::new()
    };
    let mut session = session(&Arc::new(lost));
    let probe = session.probe(Extent::Needed).await.expect("a probe");
    assert_eq!(probe.reading.state, PowerState::On);
    assert!(
        probe
            .off_denied
            .is_some_and(|it| it.to_string().contains("not connected"))
    );
    assert!(session.prepare_on().await.is_err() && session.power_on().await.is_err());
    let mut connected = self::session(&Arc::new(Api::new()));
    assert_eq!(
        connected
            .probe(Extent::Needed)
            .await
            .expect("a probe")
            .off_denied,
        None
    );
}
