//! A machine whose supplies hang on two linked PDUs, which have one address.

use super::*;
use fencing_core::identity_rule::IdentityRule;
use fencing_drivers::pdu::snmp::{Kind, Value as Cell, message};
use std::net::SocketAddr;
use tokio::net::UdpSocket;

/// An agent that knows every outlet, each of them off.
async fn agent(tasks: &mut JoinSet<()>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("an address");
    tasks.spawn(async move {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let (community, mut unit) = message::decode_v2c(&buffer[..length]).expect("a question");
            unit.kind = Kind::Response;
            for binding in &mut unit.bindings {
                binding.value = Cell::Integer(8);
            }
            let answer = message::encode_v2c(community, &unit);
            let _ = socket.send_to(&answer, from).await;
        }
    });
    address
}

/// Outlet 7 of this unit.
fn outlet_of(unit: u32, address: SocketAddr) -> Value {
    let table = "1.3.6.1.4.1.13742.6.4.1.2.1";
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
        "metadata": {"name": format!("unit-{unit}"), "uid": "uid-bmc", "generation": 1},
        "spec": {
            "nodeName": "worker-1", "identityCheck": "Skip", "credentialsRef": {"name": "pdu"},
            "pdu": {
                "address": address.ip(), "port": address.port(), "model": "Generic", "outlets": [7],
                "snmp": {"version": "V2c"},
                "generic": {
                    "controlOID": format!("{table}.2.{unit}.${{outlet}}"), "controlOffValue": 0,
                    "statusOID": format!("{table}.3.{unit}.${{outlet}}"), "statusOffValue": 8, "statusOnValue": 7,
                },
            },
        },
    })
}

/// The reads of one go on until both are off together, so that the other must not wait for their end.
#[tokio::test]
async fn outlets_of_one_number_on_linked_units_are_read_side_by_side() {
    let cluster = Cluster::new().await;
    let mut tasks = JoinSet::new();
    let address = agent(&mut tasks).await;
    let devices = [1, 2].map(|unit| outlet_of(unit, address));
    let devices = fake::list("FenceDevice", "7", &devices);
    cluster.put(
        "GET /apis/nodefencing.io/v1alpha1/fencedevices",
        200,
        devices,
    );
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pdu"}, "data": {"community": "c2VjcmV0"},
    });
    cluster.put("GET /api/v1/namespaces/ns/secrets/pdu", 200, secret);
    let (context, _watches) = cluster.watching();
    let devices = context.caches.devices.clone();
    devices.wait_until_ready().await.expect("the devices");
    let mut level = fixtures::level();
    level.devices = ["unit-1", "unit-2"]
        .map(|name| Device {
            name: name.to_owned(),
            identity: IdentityRule::Skip,
            outlets: true,
            ..level.devices[0].clone()
        })
        .into();
    let job = Job {
        lease: None,
        heard: Heard::default(),
        early: None,
        order: DeviceOrder::Confirm {
            window: Duration::from_millis(20),
        },
        level,
        limit: Duration::from_secs(10),
        settings: fixtures::settings(),
        claim: None,
    };
    let DeviceReply::Confirmed {
        readings, failures, ..
    } = run(&context, &job).await
    else {
        panic!("another answer");
    };
    assert_eq!(failures, [""; 0]);
    for device in &readings {
        assert!(device.readings.len() >= 2, "{}", device.device);
    }
    assert_eq!(readings.len(), 2);
}
