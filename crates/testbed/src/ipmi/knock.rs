//! What it takes to start a BMC that is a program of its own: an address for it, and to know when it answers.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anyhow::Result;
use tokio::{
    net::UdpSocket,
    time::{Instant, sleep_until, timeout},
};

use super::{
    PORT,
    message::Request,
    network::{bind, bind_or_else},
    wire,
};
use crate::ports::Port;

/// An address that a BMC can bind: port 623, or any free one if that is taken or not allowed.
pub(crate) fn free_address(address: IpAddr) -> Result<(SocketAddr, Option<Port>)> {
    let (socket, port) = bind_or_else(address, PORT)?;
    Ok((socket.local_addr()?, port))
}

/// Fails as long as somebody has that address.
pub(crate) fn can_bind(address: SocketAddr) -> Result<()> {
    bind(address).map(drop)
}

/// Whether somebody at this address answers to Get Channel Authentication Capabilities, with which every client begins.
/// Takes that long if not.
pub(crate) async fn speaks(address: SocketAddr, within: Duration) -> Result<bool> {
    let end = Instant::now() + within;
    let socket = UdpSocket::bind((IpAddr::from([127, 0, 0, 1]), 0)).await?;
    socket.connect(address).await?;
    // Of this channel, with the data of IPMI 2.0, for an operator.
    let request = Request::encode(1, super::message::APP, 0x38, &[0x8E, 3]);
    let answered = async {
        socket.send(&wire::old(&request)).await?;
        socket.recv(&mut [0; 64]).await
    };
    let speaks = matches!(timeout(within, answered).await, Ok(Ok(_)));
    if !speaks {
        // A closed port is told at once.
        sleep_until(end).await;
    }
    Ok(speaks)
}
