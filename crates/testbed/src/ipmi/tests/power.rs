//! What becomes of power commands, and what is said about the power.

use anyhow::{Result, ensure};

use super::{client::Session, *};

/// Longer than a laden machine needs to look at what is so before.
const LATER: Duration = Duration::from_millis(800);

#[tokio::test]
async fn the_power_bit_says_what_it_is_told_to() -> Result<()> {
    let Bench { bmc, plug } = bench();
    let mut session = Session::operator(&bmc).await?;
    assert_eq!(session.power().await?, 0x01);
    plug.set_power(false);
    assert_eq!(session.power().await?, 0x00);
    bmc.faults(|faults| {
        faults.power_bits = 0b1_1100;
        faults.restore_policy = RestorePolicy::PowersUp;
    });
    assert_eq!(session.power().await?, 0b101_1100);
    bmc.faults(|faults| {
        *faults = IpmiFaults {
            power: PowerBit::Cycle(vec![true, false]),
            ..IpmiFaults::default()
        }
    });
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(session.power().await?);
    }
    assert_eq!(seen, [1, 0, 1]);
    plug.set_power(true);
    bmc.faults(|faults| faults.power = PowerBit::Says(false));
    assert_eq!(session.power().await?, 0, "a lie");
    bmc.heal()?;
    assert_eq!(session.power().await?, 1);
    bmc.faults(|faults| faults.power_cached_for = Duration::from_secs(60));
    plug.set_power(false);
    assert_eq!(session.power().await?, 1, "an old reading");
    Ok(())
}

#[tokio::test]
async fn an_accepted_command_takes_effect_now_later_or_never() -> Result<()> {
    let Bench { bmc, plug } = bench();
    let mut session = Session::operator(&bmc).await?;
    bmc.faults(|faults| faults.effect = Effect::Ignored);
    assert_eq!(session.control(0).await?, 0);
    ensure!(plug.is_on());

    bmc.faults(|faults| faults.effect = Effect::After(LATER));
    assert_eq!(session.control(0).await?, 0);
    ensure!(plug.is_on() && plug.wait_until(false, SOON).await);

    bmc.heal()?;
    assert_eq!(session.control(0).await?, 0);
    bmc.faults(|faults| faults.already_off_code = Some(0xD5));
    assert_eq!(session.control(0).await?, 0xD5);
    assert_eq!(session.control(1).await?, 0);
    ensure!(plug.is_on());

    bmc.faults(|faults| faults.restores_after = Some(LATER));
    assert_eq!(session.control(0).await?, 0);
    ensure!(!plug.is_on() && plug.wait_until(true, SOON).await);
    assert_eq!(session.control(3).await?, 0);
    assert_eq!(session.control(5).await?, 0xCC, "no soft shutdown");
    let commands = bmc.power_commands();
    let accepted: Vec<_> = commands
        .iter()
        .map(|it| (it.control, it.accepted))
        .collect();
    let wanted = [
        (0, true),
        (0, true),
        (0, true),
        (0, false),
        (1, true),
        (0, true),
        (3, true),
        (5, false),
    ];
    assert_eq!(accepted, wanted);
    assert_eq!(commands[3].code, Some(0xD5));
    Ok(())
}

#[tokio::test]
async fn a_command_is_held_before_or_after_its_effect() -> Result<()> {
    let Bench { bmc, plug } = bench();
    let mut session = Session::operator(&bmc).await?;
    let hold = bmc.hold_next(Which::PowerOff);
    let off = tokio::spawn(async move { (session.control(0).await, session) });
    hold.wait_arrived(SOON).await?;
    ensure!(plug.is_on());
    hold.release();
    let (code, mut session) = off.await?;
    assert_eq!(code?, 0);
    ensure!(!plug.is_on());

    let hold = bmc.hold_answer(Which::PowerOn);
    let on = session.next(0, 2, &[1]);
    session.send(&on).await?;
    hold.wait_arrived(SOON).await?;
    ensure!(plug.is_on());
    hold.drop_it();
    assert_eq!(
        session.power().await?,
        1,
        "the answer to the command is lost"
    );
    let is_on = |entry: &Entry| entry.power_command() == Some(1);
    let entry = bmc.wait_for(SOON, is_on).await?;
    ensure!(entry.accepted && entry.outcome.is_none());
    Ok(())
}

#[tokio::test]
async fn a_bmc_without_power_forgets_what_it_was_about_to_do() -> Result<()> {
    let Bench { bmc, plug } = bench();
    let mut session = Session::operator(&bmc).await?;
    bmc.faults(|faults| faults.effect = Effect::After(LATER));
    assert_eq!(session.control(0).await?, 0);
    bmc.set_line(Line::Dark)?;
    tokio::time::sleep(LATER * 2).await;
    ensure!(plug.is_on());
    ensure!(
        bmc.sessions()[0]
            .ended
            .is_some_and(|(_, how)| how == End::Forgotten)
    );
    Ok(())
}
