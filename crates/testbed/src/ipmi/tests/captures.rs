//! Sessions of others, recorded on the wire (`tests/data/ipmi`): every code in them is what this codec computes, every
//! packet opens, and all that was said is understood.

use anyhow::{Context, Result, bail, ensure};

use super::{
    super::{
        crypto::Keys,
        login::{Asked as Login, Exchange},
        message::Request,
        wire::{Packet, payload},
    },
    client::{Response, response, session_id},
    *,
};

/// What was said in a session, with the response to each request.
struct Talk {
    suite: Suite,
    guid: [u8; 16],
    said: Vec<(Request, Response)>,
}

fn replay(name: &str) -> Result<Talk> {
    let path = crate::paths::workspace().join("tests/data/ipmi").join(name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut lines = lines.map(|line| -> Result<_> {
        let (direction, hex) = line.split_once(' ').context("a direction and bytes")?;
        Ok((direction.to_owned(), bytes(hex)?))
    });
    let mut exchange: Option<Exchange> = None;
    let (mut opened, mut console, mut keys) = (None, None, None);
    let mut said = Vec::new();
    while let Some(request) = lines.next() {
        let ((to, request), (from, answer)) = (request?, lines.next().context("an answer")??);
        ensure!((to.as_str(), from.as_str()) == (">", "<"));
        let (asked, answered) = match (Packet::parse(&request)?, Packet::parse(&answer)?) {
            (Packet::Plus(asked), Packet::Plus(answered)) => (asked, answered),
            (Packet::Old { payload: asked }, Packet::Old { payload: answered }) => {
                said.push((Request::parse(asked)?, response(answered)?));
                continue;
            }
            other => bail!("{other:?}"),
        };
        if asked.payload_type == payload::MESSAGE {
            let keys = keys.as_ref().context("a message before the login")?;
            let (asked, answered) = (asked.open(keys)?, answered.open(keys)?);
            said.push((Request::parse(&asked)?, response(&answered)?));
            continue;
        }
        let answer = answered.payload;
        match Login::parse(asked.payload_type, asked.payload)? {
            Login::Open(open) => {
                opened = Some(session_id(answer)?);
                console = Some(open.console);
            }
            Login::Rakp1(rakp) => {
                let exchanged = Exchange {
                    suite: suite(name)?,
                    console: console.context("RAKP message 1 before Open Session")?,
                    session: rakp.session,
                    console_random: rakp.random,
                    random: answer[8..24].try_into()?,
                    guid: answer[24..40].try_into()?,
                    role: rakp.role,
                    user: rakp.user,
                    password: b"s3cret-Bmc".to_vec(),
                };
                ensure!(Some(rakp.session) == opened);
                ensure!(exchanged.code_2() == answer[40..], "RAKP message 2");
                exchange = Some(exchanged);
            }
            Login::Rakp3(rakp) => {
                let exchange = exchange.as_ref().context("RAKP message 3 before 1")?;
                ensure!(exchange.code_3() == rakp.code, "RAKP message 3");
                ensure!(exchange.code_4() == answer[8..], "RAKP message 4");
                keys = Some(Keys::new(exchange.suite, &exchange.sik()));
            }
        }
    }
    let exchange = exchange.context("no login")?;
    Ok(Talk {
        suite: exchange.suite,
        guid: exchange.guid,
        said,
    })
}

fn suite(name: &str) -> Result<Suite> {
    match name.contains("suite-17") {
        true => Ok(Suite::Seventeen),
        false if name.contains("suite-3") => Ok(Suite::Three),
        false => bail!("{name} does not say which suite"),
    }
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let pairs = (0..hex.len()).step_by(2).map(|at| hex.get(at..at + 2));
    let byte = |pair: Option<&str>| Ok(u8::from_str_radix(pair.context("half a byte")?, 16)?);
    pairs.map(byte).collect()
}

#[test]
fn what_others_said_to_each_other_is_understood() -> Result<()> {
    for (name, suite, control, code) in [
        (
            "ipmitool-ipmi_sim-suite-3-off.txt",
            Suite::Three,
            Some(0),
            0,
        ),
        (
            "ipmitool-lab-suite-17-off.txt",
            Suite::Seventeen,
            Some(0),
            0,
        ),
        (
            "ipmipower-lab-suite-17-status.txt",
            Suite::Seventeen,
            None,
            0,
        ),
    ] {
        let talk = replay(name).with_context(|| name.to_owned())?;
        assert_eq!(talk.suite, suite, "{name}");
        let smbios = uuid::Uuid::parse_str(UUID)?.to_bytes_le();
        assert_eq!(talk.guid, smbios, "{name}");
        let answers_it = |(request, response): &(Request, Response)| {
            (request.command, request.sequence >> 2) == (response.command, response.request)
        };
        ensure!(talk.said.iter().all(answers_it), "{name}");
        let is_control =
            |(request, _): &&(Request, Response)| (request.net_fn, request.command) == (0, 2);
        let sent = talk.said.iter().find(is_control);
        let sent = sent.map(|(request, response)| (request.data[0], response.code));
        assert_eq!(sent, control.map(|control| (control, code)), "{name}");
        let is_status =
            |(request, _): &&(Request, Response)| (request.net_fn, request.command) == (0, 1);
        let status = talk.said.iter().find(is_status);
        let status = status.map(|(_, response)| response.data[0] & 1);
        assert_eq!(status, control.map_or(Some(0), |_| None), "{name}");
        let closes = talk.said.last().map(|(request, _)| request.command);
        assert_eq!(closes, Some(0x3C), "{name}: it ends with Close Session");
    }
    Ok(())
}
