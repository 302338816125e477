//! Who is let in, how often, with what, and when a slot is free again.

use anyhow::{Result, ensure};

use super::{
    super::{
        message::Request,
        wire::{self, payload},
    },
    client::{Client, OPERATOR, QUIET, open_request, parsed, response, session_id},
    *,
};

#[tokio::test]
async fn a_status_takes_four_round_trips_and_the_session_is_on_record() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let mut session = Client::new(&bmc).await?.login().await?;
    assert_eq!(session.power().await?, 1);
    assert_eq!(bmc.log().len(), 4);
    assert_eq!(session.close().await?, 0);
    let [record] = &bmc.sessions()[..] else {
        anyhow::bail!("{:?}", bmc.sessions());
    };
    assert_eq!((record.suite, record.user.as_deref()), (17, Some("fence")));
    assert_eq!(record.privilege, Privilege::User);
    ensure!(record.ended.is_some_and(|(_, how)| how == End::Closed));
    assert_eq!(bmc.log_of(record).len(), 5, "from its opening to its end");

    let again = session.next(0, 1, &[]);
    session.send(&again).await?;
    ensure!(session.receive(QUIET).await.is_err(), "it has been closed");
    Ok(())
}

#[tokio::test]
async fn a_wrong_password_frees_the_slot_whoever_notices_first() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let mut client = Client::new(&bmc).await?;
    client.password = "wrong".to_owned();
    let error = client.login().await.err().expect("a wrong password");
    ensure!(
        format!("{error}").contains("0x0f in RAKP message 4"),
        "{error}"
    );

    let client = Client::new(&bmc).await?;
    let id = session_id(&client.open().await?)?;
    client
        .ask_login(payload::RAKP_1, &client.rakp_1(id))
        .await?;
    let rakp_3 = Client::rakp_3(id, 0x0F, &[]);
    let given_up = client.ask_login(payload::RAKP_3, &rakp_3);
    let answer = tokio::time::timeout(QUIET, given_up).await;
    ensure!(answer.is_err(), "nobody waits for an answer");
    let ends: Vec<_> = bmc.sessions().iter().filter_map(|it| it.ended).collect();
    let ends: Vec<_> = ends.into_iter().map(|(_, how)| how).collect();
    assert_eq!(ends, [End::Refused(0x0F), End::GivenUp(0x0F)]);

    bmc.faults(|faults| faults.lock_account_after = Some(1));
    let locked = Client::new(&bmc).await?.login().await;
    ensure!(locked.is_err(), "one wrong password was enough");
    bmc.faults(|faults| faults.lock_account_after = None);
    bmc.faults(|faults| faults.password = Some("new".to_owned()));
    ensure!(Client::new(&bmc).await?.login().await.is_err());
    let mut client = Client::new(&bmc).await?;
    client.password = "new".to_owned();
    client.login().await.map(drop)
}

#[tokio::test]
async fn an_unknown_user_is_refused_or_hears_nothing() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let mut client = Client::new(&bmc).await?;
    client.user = "nobody".to_owned();
    let id = session_id(&client.open().await?)?;
    let refused = client
        .ask_login(payload::RAKP_1, &client.rakp_1(id))
        .await?;
    assert_eq!(refused[1], 0x0D);

    bmc.faults(|faults| faults.unknown_user = UnknownUser::Silence);
    let id = session_id(&client.open().await?)?;
    let rakp_1 = client.rakp_1(id);
    let asked = client.ask_login(payload::RAKP_1, &rakp_1);
    ensure!(tokio::time::timeout(QUIET, asked).await.is_err());
    Ok(())
}

#[tokio::test]
async fn slots_are_few_and_are_freed_in_time() -> Result<()> {
    let settings = Settings {
        sessions_max: 2,
        session_timeout: Duration::from_secs(2),
        ..Settings::default()
    };
    let Bench { bmc, .. } = bench_with(settings);
    let clients = [Client::new(&bmc).await?, Client::new(&bmc).await?];
    for client in &clients {
        session_id(&client.open().await?)?;
    }
    let third = Client::new(&bmc).await?;
    assert_eq!(third.open().await?[1], 0x01, "the table is full");
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let id = session_id(&third.open().await?)?;
    ensure!(
        id != 0
            && bmc
                .sessions()
                .iter()
                .filter(|it| it.ended.is_none())
                .count()
                == 1
    );

    bmc.heal()?;
    bmc.faults(|faults| faults.session_table_full = true);
    let other = Client::new(&bmc).await?;
    assert_eq!(other.open().await?[1], 0x01);
    Ok(())
}

#[tokio::test]
async fn what_comes_once_more_gets_its_answer_once_more_in_the_login() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let client = Client::new(&bmc).await?;
    let opened = client.open().await?;
    assert_eq!(client.open().await?, opened);
    let id = session_id(&opened)?;
    let rakp_1 = client.rakp_1(id);
    let rakp_2 = client.ask_login(payload::RAKP_1, &rakp_1).await?;
    assert_eq!(client.ask_login(payload::RAKP_1, &rakp_1).await?, rakp_2);
    let rakp_3 = Client::rakp_3(id, 0, &client.exchange(id, &rakp_2)?.code_3());
    let rakp_4 = client.ask_login(payload::RAKP_3, &rakp_3).await?;
    assert_eq!(client.ask_login(payload::RAKP_3, &rakp_3).await?, rakp_4);
    let mut other_tag = rakp_3;
    other_tag[0] = 77;
    let again = client.ask_login(payload::RAKP_3, &other_tag).await?;
    assert_eq!((again[0], &again[1..]), (77, &rakp_4[1..]));
    assert_eq!(bmc.sessions().len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_packet_of_a_session_counts_once_and_whole() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let mut session = Client::new(&bmc).await?.login().await?;
    let packet = session.next(0, 1, &[]);
    session.send(&packet).await?;
    session.receive(SOON).await?;
    let mut forged = session.next(0, 1, &[]);
    *forged.last_mut().expect("a code") ^= 1;
    let clear = wire::seal(
        &session.keys,
        wire::Seal {
            session: session.id,
            sequence: 7,
            in_clear: true,
            ..wire::Seal::default()
        },
        &Request::encode(1, 0, 1, &[]),
    );
    session.sequence = 100;
    let far = session.next(0, 1, &[]);
    for bad in [&packet, &forged, &clear, &far] {
        session.send(bad).await?;
        ensure!(session.receive(QUIET).await.is_err(), "{bad:x?}");
    }
    let dropped = bmc.log().into_iter().filter_map(|entry| match entry.asked {
        Asked::Dropped(why) => Some(why),
        _ => None,
    });
    let wanted = [
        "sequence number 1 was seen or is far",
        "its code is wrong",
        "it is not protected",
        "sequence number 101 was seen or is far",
    ];
    assert_eq!(dropped.collect::<Vec<_>>(), wanted);
    session.sequence = 1;
    session.power().await.map(drop)
}

#[tokio::test]
async fn a_suite_is_chosen_refused_or_exchanged() -> Result<()> {
    let Bench { bmc, .. } = bench_with(Settings::with_suite(Suite::Three));
    let client = Client::new(&bmc).await?;
    assert_eq!(client.open().await?[1], 0x04, "no SHA256");
    let mixed = open_request([1, 4, 1]);
    let refused = client.ask_login(payload::OPEN_REQUEST, &mixed).await?;
    assert_eq!(refused[1], 0x05, "no integrity by SHA256");
    let zero = open_request([0, 0, 0]);
    let refused = client.ask_login(payload::OPEN_REQUEST, &zero).await?;
    assert_eq!(refused[1], 0x04, "suite 0 is not on offer");

    bmc.faults(|faults| faults.answers_suite = Some(Suite::Zero));
    let opened = client
        .ask_login(payload::OPEN_REQUEST, &open_request([1, 1, 1]))
        .await?;
    let algorithms = [opened[16], opened[24], opened[32]];
    assert_eq!((opened[1], algorithms), (0, [0, 0, 0]));
    Ok(())
}

#[tokio::test]
async fn suites_and_versions_are_told_before_a_session() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let client = Client::new(&bmc).await?;
    let ask = async |number, command, data: &[u8]| -> Result<Vec<u8>> {
        let asked = wire::plain(payload::MESSAGE, &Request::encode(number, 6, command, data));
        let answer = client.ask(&asked).await?;
        let answer = response(parsed(&answer)?.payload)?;
        ensure!((answer.request, answer.code) == (number, 0), "{answer:?}");
        Ok(answer.data)
    };
    let both = [1, 0xC0, 17, 3, 0x44, 0x81, 0xC0, 3, 1, 0x41, 0x81];
    assert_eq!(ask(1, 0x54, &[0x0E, 0, 0x80]).await?, both);
    assert_eq!(
        ask(2, 0x54, &[0x0E, 0, 0x81]).await?,
        [1],
        "there is no second page"
    );
    assert_eq!(ask(3, 0x38, &[0x8E, 2]).await?, [1, 0x80, 4, 2, 0, 0, 0, 0]);
    bmc.faults(|faults| {
        faults.lists_suites = Some(vec![0]);
        faults.says_1_5_only = true;
    });
    assert_eq!(
        ask(4, 0x54, &[0x0E, 0, 0x80]).await?,
        [1, 0xC0, 0, 0, 0x40, 0x80]
    );
    assert_eq!(ask(5, 0x38, &[0x8E, 2]).await?, [1, 4, 4, 0, 0, 0, 0, 0]);

    let ping = [6, 0, 0xFF, 6, 0, 0, 0x11, 0xBE, 0x80, 9, 0, 0];
    let pong = client.ask(&ping).await?;
    assert_eq!(
        (pong.len(), &pong[8..12], pong[20]),
        (28, &[0x40, 9, 0, 16][..], 0x81)
    );
    let refused = client
        .ask(&wire::plain(
            payload::MESSAGE,
            &Request::encode(6, 0, 2, &[0]),
        ))
        .await?;
    assert_eq!(
        response(parsed(&refused)?.payload)?.code,
        0xD4,
        "not without a session"
    );
    Ok(())
}

#[tokio::test]
async fn privileges_bound_what_a_session_may_do() -> Result<()> {
    let Bench { bmc, plug } = bench();
    let mut session = Client::new(&bmc).await?.login().await?;
    assert_eq!(
        session.control(0).await?,
        0xD4,
        "a session begins as a user's"
    );
    assert_eq!(
        session.raise(4).await?.0,
        0x81,
        "more than the user may have"
    );
    assert_eq!(session.raise(0).await?, (0, vec![2]));
    assert_eq!(session.raise(3).await?, (0, vec![3]));
    assert_eq!(session.control(0).await?, 0);
    ensure!(!plug.is_on());
    assert_eq!(bmc.sessions()[0].privilege, Privilege::Operator);

    let mut client = Client::new(&bmc).await?;
    client.role = OPERATOR + 1;
    let error = client
        .login()
        .await
        .err()
        .expect("more than the user may have");
    ensure!(
        format!("{error}").contains("0x0a in RAKP message 2"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn the_guid_has_many_forms() -> Result<()> {
    let Bench { bmc, .. } = bench();
    let text: Vec<u8> = (0..16)
        .map(|index| u8::from_str_radix(&UUID.replace('-', "")[2 * index..][..2], 16))
        .collect::<Result<_, _>>()?;
    let mut reversed = text.clone();
    reversed.reverse();
    let smbios = [&text[..4], &text[4..6], &text[6..8]].map(|part| {
        let mut part = part.to_vec();
        part.reverse();
        part
    });
    let smbios = [smbios.concat(), text[8..].to_vec()].concat();
    for (form, wanted) in [
        (GuidForm::Smbios, smbios),
        (GuidForm::Rfc4122, text),
        (GuidForm::Reversed, reversed),
        (GuidForm::Zeros, vec![0; 16]),
        (GuidForm::Ones, vec![0xFF; 16]),
    ] {
        bmc.faults(|faults| faults.guid_in_rakp = form);
        let mut session = Client::new(&bmc).await?.login().await?;
        assert_eq!(session.guid.to_vec(), wanted, "{form:?}");
        bmc.heal()?;
        bmc.faults(|faults| faults.guid_in_command = form);
        assert_eq!(session.ask(6, 0x37, &[]).await?, (0, wanted), "{form:?}");
        bmc.heal()?;
        session.close().await?;
    }
    bmc.faults(|faults| faults.uuid = Some("00112233-4455-6677-8899-aabbccddeeff".to_owned()));
    let session = Client::new(&bmc).await?.login().await?;
    assert_eq!(session.guid[..4], [0x33, 0x22, 0x11, 0]);
    Ok(())
}
