//! ipmitool and FreeIPMI's ipmipower log in, read, switch and are refused: what they take for an IPMI BMC is one.

use std::process::Output;

use anyhow::{Result, ensure};

use super::*;
use crate::debian::{self, Packages};

/// What ipmitool says where it has no list of makers.
const NO_LIST: &str = "IANA PEN registry open failed";

/// What a judge said, and how it ended.
struct Verdict {
    code: Option<i32>,
    said: String,
}

impl Verdict {
    fn new(output: Output) -> Self {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        // Only an installed ipmitool finds its list of the makers' names, which nobody asks for.
        let said: Vec<&str> = said
            .lines()
            .filter(|line| !line.starts_with(NO_LIST))
            .collect();
        Self {
            code: output.status.code(),
            said: said.join("\n").trim().to_owned(),
        }
    }

    #[track_caller]
    fn is(&self, code: i32, said: &str) -> Result<()> {
        ensure!(
            self.code == Some(code) && self.said == said,
            "`{}` with {:?}, not `{said}` with {code}",
            self.said,
            self.code
        );
        Ok(())
    }

    #[track_caller]
    fn fails_with(&self, said: &str) -> Result<()> {
        ensure!(
            self.code == Some(1) && self.said.contains(said),
            "`{}` with {:?}, not `{said}` with 1",
            self.said,
            self.code
        );
        Ok(())
    }
}

/// Who asks a judge to log in as whom.
struct Login<'a> {
    user: &'a str,
    password: &'a str,
    level: &'a str,
    /// When to ask again. On loopback nothing is lost, and nobody is to be asked twice for being slow.
    again_seconds: u32,
}

const RIGHT: Login = Login {
    user: "fence",
    password: "s3cret-Bmc",
    level: "OPERATOR",
    again_seconds: 20,
};

async fn ipmitool(bmc: &IpmiBmc, login: &Login<'_>, suite: u8, asked: &[&str]) -> Result<Verdict> {
    let address = bmc.address();
    let words = ["-I", "lanplus", "-L", login.level, "-U", login.user];
    let mut command: tokio::process::Command =
        packages("ipmitool").await?.command("ipmitool").into();
    command
        .args(words)
        .args(["-C", &suite.to_string()])
        .args(["-N", &login.again_seconds.to_string(), "-R", "4"])
        .args([
            "-H",
            &address.ip().to_string(),
            "-p",
            &address.port().to_string(),
        ])
        .args(["-P", login.password])
        .args(asked);
    Ok(Verdict::new(command.output().await?))
}

async fn ipmipower(bmc: &IpmiBmc, login: &Login<'_>, suite: u8, asked: &str) -> Result<Verdict> {
    let address = bmc.address();
    let level = login.level.to_lowercase();
    let mut command: tokio::process::Command = packages("freeipmi-tools")
        .await?
        .command("ipmipower")
        .into();
    command
        .args([
            "-D",
            "LAN_2_0",
            "-I",
            &suite.to_string(),
            "-h",
            &address.to_string(),
        ])
        .args(["-u", login.user, "-p", login.password, "-l", &level])
        .args(["--session-timeout", "60000", "--retransmission-timeout"])
        .arg((login.again_seconds * 1000).to_string())
        .arg(asked);
    let verdict = Verdict::new(command.output().await?);
    // It names the host before everything that it says.
    let said = verdict.said.replace(&format!("{}: ", address), "");
    let said = said.replace(&format!("{}: ", address.ip()), "");
    Ok(Verdict { said, ..verdict })
}

async fn packages(name: &'static str) -> Result<Packages> {
    tokio::task::spawn_blocking(move || Packages::unpack(name, &[name])).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn ipmitool_reads_and_switches_with_suites_17_and_3() -> Result<()> {
    if !debian::available_to_test("ipmitool_reads_and_switches_with_suites_17_and_3")? {
        return Ok(());
    }
    for suite in [17, 3] {
        let Bench { bmc, plug } = bench();
        let ask = async |asked: &'static [&str]| ipmitool(&bmc, &RIGHT, suite, asked).await;
        let on = [
            "System Power         : on",
            "Power Restore Policy : always-off",
        ];
        let status = ask(&["chassis", "status"]).await?;
        ensure!(status.code == Some(0) && on.iter().all(|line| status.said.contains(line)));
        ask(&["power", "off"])
            .await?
            .is(0, "Chassis Power Control: Down/Off")?;
        ensure!(!plug.is_on());
        ask(&["power", "status"])
            .await?
            .is(0, "Chassis Power is off")?;
        ask(&["power", "cycle"])
            .await?
            .fails_with("not supported in present state")?;
        ask(&["power", "on"])
            .await?
            .is(0, "Chassis Power Control: Up/On")?;
        ensure!(plug.is_on());
        ask(&["power", "soft"])
            .await?
            .fails_with("Invalid data field in request")?;
        let info = ask(&["mc", "info"]).await?;
        ensure!(info.code == Some(0) && info.said.contains("IPMI Version              : 2.0"));
        let session = ask(&["session", "info", "active"]).await?;
        ensure!(
            session.code == Some(0)
                && session
                    .said
                    .contains("privilege level               : OPERATOR"),
            "{}",
            session.said
        );

        let sessions = bmc.sessions();
        let is_clean = |session: &Session| {
            session.suite == suite && session.ended.is_some_and(|(_, how)| how == End::Closed)
        };
        ensure!(
            sessions.len() == 8 && sessions.iter().all(is_clean),
            "{sessions:?}"
        );
        let dropped = |entry: &Entry| matches!(entry.asked, Asked::Dropped(_));
        ensure!(!bmc.log().iter().any(dropped), "{:#?}", bmc.log());
        let commands: Vec<_> = bmc.power_commands().iter().map(|it| it.control).collect();
        assert_eq!(commands, [0, 2, 1, 5]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ipmitool_recognises_the_guid_in_each_form() -> Result<()> {
    if !debian::available_to_test("ipmitool_recognises_the_guid_in_each_form")? {
        return Ok(());
    }
    let Bench { bmc, .. } = bench();
    // It tells the forms apart by the version, which stands at a valid place in one form only.
    let uuid = "9b3c7c1e-5f0a-4f05-8a0d-2f6d5c0b7a11";
    bmc.faults(|faults| faults.uuid = Some(uuid.to_owned()));
    for (form, name) in [
        (GuidForm::Smbios, "SMBIOS"),
        (GuidForm::Rfc4122, "RFC4122"),
        (GuidForm::Reversed, "IPMI"),
    ] {
        bmc.faults(|faults| faults.guid_in_command = form);
        let guid = ipmitool(&bmc, &RIGHT, 17, &["mc", "guid"]).await?;
        let wanted = format!("System GUID   : {uuid}\nGUID Encoding : {name}");
        ensure!(
            guid.code == Some(0) && guid.said.starts_with(&wanted),
            "{}",
            guid.said
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ipmitool_is_refused() -> Result<()> {
    if !debian::available_to_test("ipmitool_is_refused")? {
        return Ok(());
    }
    let Bench { bmc, plug } = bench();
    let off = ["-v", "power", "off"];
    let wrong = Login {
        password: "wrong",
        ..RIGHT
    };
    for suite in [17, 3] {
        let verdict = ipmitool(&bmc, &wrong, suite, &off).await?;
        verdict.fails_with("RAKP 2 HMAC is invalid")?;
    }
    let nobody = Login {
        user: "nobody",
        ..RIGHT
    };
    let verdict = ipmitool(&bmc, &nobody, 17, &off).await?;
    verdict.fails_with("RAKP 2 message indicates an error : unauthorized name")?;
    let admin = Login {
        level: "ADMINISTRATOR",
        ..RIGHT
    };
    let verdict = ipmitool(&bmc, &admin, 17, &off).await?;
    verdict.fails_with("RAKP 2 message indicates an error : unauthorized role requested")?;
    let user = Login {
        level: "USER",
        ..RIGHT
    };
    let verdict = ipmitool(&bmc, &user, 17, &off).await?;
    verdict.fails_with("Insufficient privilege level")?;
    let verdict = ipmitool(&bmc, &RIGHT, 0, &off).await?;
    verdict.fails_with("invalid authentication algorithm")?;
    ensure!(plug.is_on());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn suite_0_lets_ipmitool_in_without_the_password_where_a_fault_offers_it() -> Result<()> {
    if !debian::available_to_test(
        "suite_0_lets_ipmitool_in_without_the_password_where_a_fault_offers_it",
    )? {
        return Ok(());
    }
    let Bench { bmc, plug } = bench();
    bmc.faults(|faults| faults.offers_suite_zero = true);
    let wrong = Login {
        password: "wrong",
        ..RIGHT
    };
    let verdict = ipmitool(&bmc, &wrong, 0, &["power", "off"]).await?;
    verdict.is(0, "Chassis Power Control: Down/Off")?;
    ensure!(!plug.is_on());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ipmipower_reads_and_switches_with_suites_17_and_3() -> Result<()> {
    if !debian::available_to_test("ipmipower_reads_and_switches_with_suites_17_and_3")? {
        return Ok(());
    }
    for suite in [17, 3] {
        let Bench { bmc, plug } = bench();
        let ask = async |asked: &'static str| ipmipower(&bmc, &RIGHT, suite, asked).await;
        ask("--stat").await?.is(0, "on")?;
        ask("--off").await?.is(0, "ok")?;
        ensure!(!plug.is_on());
        ask("--stat").await?.is(0, "off")?;
        ask("--on").await?.is(0, "ok")?;
        ensure!(plug.is_on());
        let suites = bmc.sessions().into_iter().map(|session| session.suite);
        assert_eq!(suites.collect::<Vec<_>>(), [suite; 4]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ipmipower_is_refused() -> Result<()> {
    if !debian::available_to_test("ipmipower_is_refused")? {
        return Ok(());
    }
    let Bench { bmc, plug } = bench();
    let wrong = Login {
        password: "wrong",
        ..RIGHT
    };
    for suite in [17, 3] {
        let verdict = ipmipower(&bmc, &wrong, suite, "--off").await?;
        verdict.is(1, "password invalid")?;
    }
    let nobody = Login {
        user: "nobody",
        ..RIGHT
    };
    ipmipower(&bmc, &nobody, 17, "--off")
        .await?
        .is(1, "username invalid")?;
    let admin = Login {
        level: "ADMIN",
        ..RIGHT
    };
    let verdict = ipmipower(&bmc, &admin, 17, "--off").await?;
    verdict.is(1, "privilege level cannot be obtained for this user")?;
    ensure!(plug.is_on() && bmc.power_commands().is_empty());
    Ok(())
}

/// The BMC counts each packet once, so a client that asks again has to give its packet a new sequence number.
#[tokio::test(flavor = "multi_thread")]
async fn both_judges_ask_again_when_any_answer_is_lost() -> Result<()> {
    if !debian::available_to_test("both_judges_ask_again_when_any_answer_is_lost")? {
        return Ok(());
    }
    let Bench { bmc, plug } = bench();
    let lose = || {
        let steps = [Which::Open, Which::Rakp1, Which::Rakp3, Which::PowerOff];
        let lost = steps.map(|which| Reply::new(which, Nonsense::Silence).times(1));
        bmc.faults(|faults| faults.replies = lost.map(Reply::after_effect).to_vec());
    };
    let hurried = Login {
        again_seconds: 1,
        ..RIGHT
    };
    lose();
    let verdict = ipmitool(&bmc, &hurried, 17, &["power", "off"]).await?;
    // It also says what it missed.
    ensure!(verdict.code == Some(0), "{}", verdict.said);
    ensure!(!plug.is_on());
    plug.set_power(true);
    lose();
    let verdict = ipmipower(&bmc, &hurried, 17, "--off").await?;
    verdict.is(0, "ok")?;
    ensure!(!plug.is_on());
    let faults_left = bmc.service.faults().replies;
    ensure!(faults_left.iter().all(|reply| reply.times == Some(0)));
    let answered = bmc.power_commands().into_iter().map(|it| it.code.is_some());
    let answered: Vec<_> = answered.collect();
    ensure!(answered.starts_with(&[false, true]), "{answered:?}");
    Ok(())
}
