//! Answers that are wrong in one way each: the right one still comes afterwards.

use anyhow::{Result, ensure};

use super::{
    super::wire::payload,
    client::{Client, QUIET, Session, session_id},
    *,
};

/// Gives a fault to the next Get Chassis Status, and returns the session with the datagram that came.
async fn spoiled(what: Nonsense) -> Result<(Session, Vec<u8>)> {
    let Bench { bmc, .. } = bench();
    let mut session = Client::new(&bmc).await?.login().await?;
    session.power().await?;
    let reply = Reply::new(Which::CHASSIS_STATUS, what).times(1);
    bmc.faults(|faults| faults.replies.push(reply));
    let request = session.next(0, 1, &[]);
    session.send(&request).await?;
    let datagram = session.receive(SOON).await?;
    session.power().await?;
    Ok((session, datagram))
}

#[tokio::test]
async fn a_packet_is_not_believed() -> Result<()> {
    for (what, why) in [
        (Nonsense::BadCode, "its code is wrong"),
        (Nonsense::InClear, "it is not protected"),
        (Nonsense::Unsigned, "it is not protected"),
        (Nonsense::BadPadding, "the padding does not count up from 1"),
        (Nonsense::BadChecksum, "a wrong checksum"),
        (Nonsense::OtherSession, "for 0xa1b2c3d5"),
        (Nonsense::Truncated(40), "it is too short"),
        (Nonsense::Padded(1000), "its code is wrong"),
        (Nonsense::Raw(b"garbage".to_vec()), "RMCP version 0x67"),
    ] {
        let (session, datagram) = spoiled(what.clone()).await?;
        let error = session.open(&datagram).expect_err("an error");
        ensure!(format!("{error:#}") == why, "{what:?}: {error:#}");
    }
    Ok(())
}

#[tokio::test]
async fn a_response_is_whole_and_still_wrong() -> Result<()> {
    let (session, datagram) = spoiled(Nonsense::ShortData(1)).await?;
    assert_eq!(session.open(&datagram)?.data, [1]);
    let (session, datagram) = spoiled(Nonsense::LongData(60)).await?;
    assert_eq!(session.open(&datagram)?.data.len(), 64);
    let (session, datagram) = spoiled(Nonsense::OtherRequest).await?;
    assert_eq!(session.open(&datagram)?.request, session.request);
    let (session, datagram) = spoiled(Nonsense::OtherCommand).await?;
    assert_eq!(session.open(&datagram)?.command, 2);
    let (session, datagram) = spoiled(Nonsense::Code(0xC0)).await?;
    let busy = session.open(&datagram)?;
    assert_eq!((busy.code, busy.data.len()), (0xC0, 0));
    let (_, datagram) = spoiled(Nonsense::OldSequence).await?;
    assert_eq!(client::parsed(&datagram)?.sequence, 1, "it was the second");
    Ok(())
}

#[tokio::test]
async fn a_reply_comes_before_the_effect_or_after_it() -> Result<()> {
    let Bench { bmc, plug } = bench();
    let mut session = Session::operator(&bmc).await?;
    let busy = Reply::new(Which::PowerOff, Nonsense::Code(0xC0)).times(2);
    bmc.faults(|faults| faults.replies.push(busy));
    assert_eq!(
        [session.control(0).await?, session.control(0).await?],
        [0xC0; 2]
    );
    ensure!(plug.is_on());
    let lost = Reply::new(Which::PowerOff, Nonsense::Silence).after_effect();
    bmc.faults(|faults| faults.replies = vec![lost]);
    let off = session.next(0, 2, &[0]);
    session.send(&off).await?;
    ensure!(session.receive(QUIET).await.is_err() && !plug.is_on());
    Ok(())
}

#[tokio::test]
async fn the_login_is_spoiled_at_each_step() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let client = Client::new(&bmc).await?;
    let next = |which, what| {
        bmc.faults(|faults| faults.replies = vec![Reply::new(which, what).times(1)]);
    };
    next(Which::Open, Nonsense::Status(0x01));
    assert_eq!(client.open().await?.len(), 8);
    next(Which::Open, Nonsense::OtherRequest);
    let opened = client.open().await?;
    assert_eq!(opened[0], 1, "the tag was 0");
    let id = session_id(&opened)?;
    next(Which::Rakp1, Nonsense::Status(0x12));
    let rakp_1 = client.rakp_1(id);
    let refused = client.ask_login(payload::RAKP_1, &rakp_1).await?;
    assert_eq!(refused, [1, 0x12, 0, 0, 0xD4, 0xC3, 0xB2, 0xA1]);
    next(Which::Rakp1, Nonsense::OtherSession);
    let rakp_2 = client.ask_login(payload::RAKP_1, &rakp_1).await?;
    assert_eq!(rakp_2[4], 0xD5);
    next(Which::Rakp1, Nonsense::ShortData(20));
    assert_eq!(client.ask_login(payload::RAKP_1, &rakp_1).await?.len(), 20);
    let rakp_2 = client.ask_login(payload::RAKP_1, &rakp_1).await?;
    let code = client.exchange(id, &rakp_2)?.code_3();
    next(Which::Rakp3, Nonsense::BadCode);
    let rakp_3 = Client::rakp_3(id, 0, &code);
    let rakp_4 = client.ask_login(payload::RAKP_3, &rakp_3).await?;
    ensure!(rakp_4[8..] != client.exchange(id, &rakp_2)?.code_4());
    Ok(())
}
