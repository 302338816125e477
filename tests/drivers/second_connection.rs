//! The connection that a power-off goes out on, which is opened when the power-off is prepared.

use crate::bmc::reply;
use crate::device::{settings, system};
use futures::future::BoxFuture;
use futures::poll;
use node_fencing_operator::core::reading::Identity;
use node_fencing_operator::fence::redfish::{Redfish, RedfishSettings};
use node_fencing_operator::fence::{DeviceError, FenceDriver};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::task::Poll;
use tokio::task::yield_now;

/// The driver for one system at this address.
fn driver_at(scheme: &str, address: SocketAddr) -> Redfish {
    let settings = settings(&format!("{scheme}://{address}"));
    Redfish::new(RedfishSettings {
        system_id: Some("1".to_owned()),
        ..settings
    })
    .unwrap()
}

/// Goes on with the preparation step by step until this has come about.
async fn until<T>(
    preparing: &mut BoxFuture<'_, Result<Identity, DeviceError>>,
    mut come: impl FnMut() -> Option<T>,
) -> T {
    loop {
        if let Poll::Ready(ended) = poll!(&mut *preparing) {
            panic!("it has ended: {ended:?}");
        }
        match come() {
            Some(it) => return it,
            None => yield_now().await,
        }
    }
}

/// Nothing runs between a step of the preparation and the look at what has come of it, so that what is closed only later is seen.
#[tokio::test]
async fn a_bmc_with_room_for_one_connection_has_room_for_the_command_s() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let accept = || {
        let (stream, _) = listener.accept().ok()?;
        stream.set_nonblocking(true).unwrap();
        Some(stream)
    };
    let mut session = driver_at("http", listener.local_addr().unwrap()).open();
    let mut preparing = session.prepare_off();
    let mut first = until(&mut preparing, accept).await;
    let mut request = Vec::new();
    let whole = || {
        let mut piece = [0; 4096];
        let length = first.read(&mut piece).unwrap_or(0);
        request.extend_from_slice(&piece[..length]);
        request.ends_with(b"\r\n\r\n").then_some(())
    };
    until(&mut preparing, whole).await;
    first
        .write_all(&reply("200 OK", &system("\"On\"")))
        .unwrap();
    let _second = until(&mut preparing, accept).await;
    // Its end, without having to wait for it.
    assert_eq!(first.read(&mut [0]).ok(), Some(0));
    preparing.await.unwrap();
}
