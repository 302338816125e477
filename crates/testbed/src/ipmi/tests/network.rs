//! Datagrams that get lost, come twice, late, damaged, from strangers; ports that are closed or silent.

use std::io::ErrorKind;

use anyhow::{Result, ensure};
use tokio::net::UdpSocket;

use super::{
    super::wire::payload,
    client::{Client, QUIET, Session, open_request, session_id},
    *,
};
use crate::eventually::eventually;

fn network(bmc: &IpmiBmc, network: Network) {
    bmc.faults(|faults| faults.network = network);
}

#[tokio::test]
async fn the_same_seed_loses_the_same_datagrams() -> Result<()> {
    let mut arrived = Vec::new();
    for seed in [7, 7, 8] {
        let Bench { bmc, .. } = bench();
        let requests = Path {
            lost: 0.4,
            ..Path::default()
        };
        network(
            &bmc,
            Network {
                seed,
                requests,
                ..Network::default()
            },
        );
        let client = Client::new(&bmc).await?;
        for tag in 0..20 {
            let ping = [6, 0, 0xFF, 6, 0, 0, 0x11, 0xBE, 0x80, tag, 0, 0];
            client.socket.send(&ping).await?;
        }
        let mut tags = Vec::new();
        while let Ok(pong) = client.receive(QUIET).await {
            tags.push(pong[9]);
        }
        tags.sort_unstable();
        assert_eq!(tags.len() + usize::try_from(bmc.lost())?, 20);
        assert_eq!(bmc.log().len(), tags.len(), "what is lost is not logged");
        arrived.push(tags);
    }
    ensure!(
        arrived[0] == arrived[1] && arrived[0] != arrived[2],
        "{arrived:?}"
    );
    ensure!((6..18).contains(&arrived[0].len()), "{arrived:?}");
    Ok(())
}

#[tokio::test]
async fn datagrams_come_twice_damaged_and_out_of_order() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let mut session = Session::operator(&bmc).await?;
    let twice = Path {
        duplicated: 1.0,
        ..Path::default()
    };
    network(
        &bmc,
        Network {
            requests: twice.clone(),
            ..Network::default()
        },
    );
    session.power().await?;
    let is_second = |entry: &Entry| matches!(entry.asked, Asked::Dropped(_));
    bmc.wait_for(SOON, is_second).await?;
    network(
        &bmc,
        Network {
            answers: twice,
            ..Network::default()
        },
    );
    session.power().await?;
    let second = session.receive(SOON).await?;
    assert_eq!(session.open(&second)?.command, 1);

    let damaged = Path {
        corrupted: 1.0,
        ..Path::default()
    };
    network(
        &bmc,
        Network {
            answers: damaged,
            ..Network::default()
        },
    );
    ensure!(session.power().await.is_err());

    let late = Path {
        late: 1.0,
        late_by: Duration::from_millis(800),
        ..Path::default()
    };
    network(
        &bmc,
        Network {
            answers: late,
            ..Network::default()
        },
    );
    let asked = bmc.log().len();
    let first = session.next(0, 1, &[]);
    session.send(&first).await?;
    eventually("the first request", SOON, async || {
        ensure!(bmc.log().len() > asked);
        Ok(())
    })
    .await?;
    bmc.heal()?;
    session.raise(3).await?;
    let overtaken = session.receive(SOON).await?;
    assert_eq!(session.open(&overtaken)?.request, session.request - 1);
    Ok(())
}

#[tokio::test]
async fn answers_come_from_strangers_and_from_the_past() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let ping = [6, 0, 0xFF, 6, 0, 0, 0x11, 0xBE, 0x80, 1, 0, 0];
    let mut buffer = [0; 64];
    for source in [Source::Own, Source::OtherPort, Source::OtherAddress] {
        network(
            &bmc,
            Network {
                source,
                ..Network::default()
            },
        );
        socket.send_to(&ping, bmc.address()).await?;
        let (_, from) = tokio::time::timeout(SOON, socket.recv_from(&mut buffer)).await??;
        let (same_ip, same_port) = (
            from.ip() == bmc.address().ip(),
            from.port() == bmc.address().port(),
        );
        let wanted = match source {
            Source::Own => (true, true),
            Source::OtherPort => (true, false),
            Source::OtherAddress => (false, false),
        };
        assert_eq!((same_ip, same_port), wanted, "{source:?}");
    }
    bmc.heal()?;

    let mut session = Session::operator(&bmc).await?;
    network(
        &bmc,
        Network {
            replayed: 1.0,
            ..Network::default()
        },
    );
    let request = session.next(0, 1, &[]);
    session.send(&request).await?;
    let old = session.receive(SOON).await?;
    let new = session.receive(SOON).await?;
    ensure!(old != new && session.open(&new)?.request == session.request);
    Ok(())
}

#[tokio::test]
async fn a_delay_is_one_of_each_way() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let mut session = Session::operator(&bmc).await?;
    let path = Path {
        delay: Duration::from_millis(60),
        ..Path::default()
    };
    let (requests, answers) = (path.clone(), path);
    network(
        &bmc,
        Network {
            requests,
            answers,
            ..Network::default()
        },
    );
    let begin = std::time::Instant::now();
    session.power().await?;
    ensure!(begin.elapsed() >= Duration::from_millis(120));
    Ok(())
}

#[tokio::test]
async fn a_port_is_closed_silent_and_open_again() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let mut session = Session::operator(&bmc).await?;
    bmc.set_line(Line::Refused)?;
    let client = Client::new(&bmc).await?;
    let error = client.open().await.expect_err("a closed port");
    let kind = error
        .downcast_ref::<std::io::Error>()
        .map(std::io::Error::kind);
    assert_eq!(kind, Some(ErrorKind::ConnectionRefused));

    bmc.set_line(Line::BlackHole)?;
    let open = open_request([3, 4, 1]);
    let asked = client.ask_login(payload::OPEN_REQUEST, &open);
    ensure!(tokio::time::timeout(QUIET, asked).await.is_err());
    bmc.set_line(Line::Up)?;
    session.power().await?;
    session_id(&client.open().await?)?;

    bmc.reboot(Duration::from_millis(20)).await?;
    let request = session.next(0, 1, &[]);
    session.send(&request).await?;
    ensure!(
        session.receive(QUIET).await.is_err(),
        "it knows no session any more"
    );
    Session::operator(&bmc).await.map(drop)
}
