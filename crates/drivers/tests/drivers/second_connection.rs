//! The connection that a power-off goes out on, which is opened when the power-off is prepared.

use crate::bmc::{Bmc, Certificate, reply};
use crate::device::{service, settings, system};
use fencing_core::reading::Identity;
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{DeviceError, FenceDriver};
use futures::future::{BoxFuture, pending};
use futures::poll;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::task::Poll;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener as Listener, TcpStream};
use tokio::task::yield_now;
use tokio::time::{advance, pause, resume};

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

/// The time of a call is over a little later.
const NEARLY_ALL: Duration = Duration::from_secs(50);

/// This time passes at once.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

/// Takes a connection, holds it for this time, and lets it through to the BMC until it is closed.
async fn let_through(front: &Listener, held: Duration, bmc: &Bmc) {
    let (mut near, _) = front.accept().await.unwrap();
    pass(held).await;
    let mut far = TcpStream::connect(bmc.address).await.unwrap();
    // Whoever breaks off may do so.
    let _ = copy_bidirectional(&mut near, &mut far).await;
}

async fn front() -> (Listener, Redfish) {
    let front = Listener::bind("127.0.0.1:0").await.unwrap();
    let driver = driver_at("https", front.local_addr().unwrap());
    (front, driver)
}

/// It says nothing of the password, which was taken on the connection before.
#[tokio::test]
async fn a_handshake_that_hangs_before_the_command_is_no_login_without_an_answer() {
    let bmc = Bmc::tls(&Certificate::new(), service("\"On\"")).await;
    let (front, driver) = front().await;
    let mut session = driver.open();
    let network = async {
        let_through(&front, Duration::ZERO, &bmc).await;
        let _hanging = front.accept().await.unwrap();
        pass(2 * NEARLY_ALL).await;
        pending().await
    };
    let error = tokio::select! {
        prepared = session.prepare_off() => prepared.unwrap_err(),
        () = network => panic!("it was closed"),
    };
    assert!(matches!(error, DeviceError::NoAnswer { .. }), "{error:?}");
    let words = error.to_string();
    assert!(words.contains("no connection;"), "{words}");
    let commanded = session.force_off().await;
    assert_eq!(commanded.unwrap_err().reason(), "Refused");
}

/// What is read in time is read again and again, and Ready by that.
#[tokio::test]
async fn a_bmc_that_is_slow_to_connect_is_commanded_if_it_is_read_in_time() {
    let bmc = Bmc::tls(&Certificate::new(), service("\"On\"")).await;
    let (front, driver) = front().await;
    let mut session = driver.open();
    let network = async {
        for _ in 0..2 {
            let_through(&front, NEARLY_ALL, &bmc).await;
        }
    };
    tokio::select! {
        prepared = session.prepare_off() => drop(prepared.unwrap()),
        () = network => panic!("it was closed"),
    }
}
