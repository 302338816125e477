//! Redfish: bodies and heads without end, and bodies that are as large as they may be and as expensive as they can be.

use crate::bmc::{Act, Bmc, Request, reply, reply_with};
use crate::device::{service, settings, system, verdict_of};
use crate::{ASKED, judge, measured};
use fencing_drivers::http::BODY_BYTES_MAX;
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{FenceDriver, OffOutcome};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Reads the power once, as the process that is measured.
pub async fn ask(at: SocketAddr) -> String {
    verdict_of(RedfishSettings {
        system_id: Some("1".to_owned()),
        // For those that come to no end by themselves.
        call_timeout: Duration::from_secs(2),
        ..settings(&format!("http://{at}"))
    })
    .await
}

/// Turns it off once, as the process that is measured.
pub async fn turn_off(at: SocketAddr) -> String {
    let settings = RedfishSettings {
        system_id: Some("1".to_owned()),
        call_timeout: Duration::from_secs(2),
        ..settings(&format!("http://{at}"))
    };
    let driver = Redfish::new(settings).expect("a driver");
    let mut session = driver.open();
    let outcome = match session.prepare_off().await {
        Ok(_) => session.force_off().await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(OffOutcome::Accepted) => "accepted".to_owned(),
        Ok(OffOutcome::AlreadyOff { .. }) => "already off".to_owned(),
        Ok(OffOutcome::Unknown(error)) => format!("unknown: {}", error.reason()),
        Err(error) => error.reason().to_owned(),
    }
}

/// This text again and again, up to the largest body.
fn filled(begin: &str, again: &str, end: &str, bytes: usize) -> String {
    let times = bytes.saturating_sub(begin.len() + end.len()) / again.len();
    format!("{begin}{}{end}", again.repeat(times))
}

/// Each name once.
fn names(bytes: usize) -> String {
    let count = bytes / 11;
    let entries: Vec<String> = (0..count)
        .map(|number| format!("\"{number:06}\":0"))
        .collect();
    format!("{{{}}}", entries.join(","))
}

type Answer = fn(bool) -> Act;

fn body(is_large: bool) -> usize {
    if is_large { BODY_BYTES_MAX } else { 2_000 }
}

fn json(text: String) -> Act {
    Act::SendThenClose(reply("200 OK", &text))
}

/// Without end if it is to be large.
fn endless(head: &str, again: Vec<u8>, is_large: bool) -> Act {
    let head = format!("HTTP/1.1 200 OK\r\n{head}").into_bytes();
    match is_large {
        true => Act::Endless(head, again),
        false => Act::SendThenClose([head, again[..again.len().min(64)].to_vec()].concat()),
    }
}

const ANSWERS: [(&str, Answer); 16] = [
    ("100 MB", |large| {
        endless(
            "Content-Length: 100000000\r\n\r\n",
            vec![b' '; 1 << 16],
            large,
        )
    }),
    ("endless chunks", |large| {
        let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 1 << 16], b"\r\n"].concat();
        endless("Transfer-Encoding: chunked\r\n\r\n", chunk, large)
    }),
    ("endless tiny chunks", |large| {
        endless(
            "Transfer-Encoding: chunked\r\n\r\n",
            b"1\r\n \r\n".repeat(100),
            large,
        )
    }),
    ("endless trailers", |large| {
        endless(
            "Transfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X: y\r\n".repeat(100),
            large,
        )
    }),
    (
        "a body that ends with the connection, which does not",
        |large| endless("\r\n", vec![b' '; 1 << 16], large),
    ),
    ("endless headers", |large| {
        endless("", b"X: y\r\n".repeat(100), large)
    }),
    ("a header without end", |large| {
        endless("X: ", vec![b'y'; 1 << 12], large)
    }),
    (
        "one informational answer after the other",
        |large| match large {
            true => Act::Endless(Vec::new(), b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100)),
            false => Act::SendThenClose(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
        },
    ),
    ("deep lists", |large| json("[".repeat(body(large)))),
    ("short lists", |large| {
        json(filled("[", "[],", "0]", body(large)))
    }),
    ("short objects", |large| {
        json(filled("[", "{\"\":0},", "0]", body(large)))
    }),
    ("many names", |large| json(names(body(large)))),
    ("many numbers", |large| {
        json(filled("[", "0,", "0]", body(large)))
    }),
    ("one long text of escapes", |large| {
        json(filled("\"", "\\n", "\"", body(large)))
    }),
    ("a packed body", |large| {
        let packed = reply_with(
            "200 OK",
            "Content-Encoding: gzip\r\n",
            &filled("", "\u{1f}", "", body(large)),
        );
        Act::SendThenClose(packed)
    }),
    ("an error of many messages", |large| {
        let text = filled(
            "{\"error\":{\"@Message.ExtendedInfo\":[",
            "{\"MessageId\":\"a.b\",\"MessageArgs\":[\"\"]},",
            "{}]}}",
            body(large),
        );
        Act::SendThenClose(reply("400 Bad Request", &text))
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_a_redfish_service_costs_more_than_a_mebibyte() {
    let mut rows = Vec::new();
    for (what, answer) in ANSWERS {
        let good = service("\"On\"");
        let script = move |request: &Request| match request.earlier {
            0 => good(request),
            earlier => answer(earlier + 1 == ASKED),
        };
        let bmc = Bmc::plain(script).await;
        let at = bmc.address;
        let measured = tokio::task::spawn_blocking(move || measured("redfish", at)).await;
        let (growth, verdict) = measured.expect("a measurement");
        assert_eq!(bmc.requests().len(), ASKED, "{what}");
        rows.push((what.to_owned(), growth, verdict));
    }
    judge(rows);
}

const TASK: &str = "/redfish/v1/TaskService/Tasks/7";

fn accepted(location: &str, body: &str) -> Act {
    Act::Send(reply_with(
        "202 Accepted",
        &format!("Location: {location}\r\n"),
        body,
    ))
}

/// What becomes of the command, and of the Task that it names.
const TASKS: [(&str, Answer, Answer); 5] = [
    (
        "a Location of 100 KB",
        |large| {
            accepted(
                &format!("{TASK}{}", "7".repeat(if large { 100_000 } else { 1 })),
                "",
            )
        },
        |_| json(r#"{"TaskState":"Completed"}"#.to_owned()),
    ),
    (
        "a Location of 8 KB",
        |large| {
            accepted(
                &format!("{TASK}{}", "7".repeat(if large { 8_000 } else { 1 })),
                "",
            )
        },
        |_| json(r#"{"TaskState":"Running"}"#.to_owned()),
    ),
    (
        "a body that names a Task of a long path",
        |large| {
            let path = filled(TASK, "7", "", body(large) - 20);
            accepted("", &format!(r#"{{"@odata.id":"{path}"}}"#))
        },
        |_| json(r#"{"TaskState":"Running"}"#.to_owned()),
    ),
    (
        "a Task of many messages",
        |_| accepted(TASK, ""),
        |large| {
            let begin = r#"{"TaskState":"Exception","Messages":["#;
            let again = r#"{"MessageId":"a.b","Message":"","MessageArgs":[""]},"#;
            json(filled(begin, again, "{}]}", body(large)))
        },
    ),
    (
        "a Task that runs for ever, in endless chunks",
        |_| accepted(TASK, ""),
        |large| {
            let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 1 << 16], b"\r\n"].concat();
            endless("Transfer-Encoding: chunked\r\n\r\n", chunk, large)
        },
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_task_of_a_redfish_service_costs_more_than_a_mebibyte() {
    let mut rows = Vec::new();
    for (what, command, task) in TASKS {
        let commands = AtomicUsize::new(0);
        let script = move |request: &Request| {
            let is_large = |earlier: usize| earlier == ASKED;
            match request.method.as_str() {
                "POST" => match commands.fetch_add(1, Ordering::SeqCst) + 1 {
                    1 => Act::Send(reply("204 No Content", "")),
                    number => command(is_large(number)),
                },
                _ if request.path.contains("/Tasks/") => {
                    task(is_large(commands.load(Ordering::SeqCst)))
                }
                _ => Act::Send(reply("200 OK", &system("\"On\""))),
            }
        };
        let bmc = Bmc::plain(script).await;
        let at = bmc.address;
        let measured = tokio::task::spawn_blocking(move || measured("redfish-off", at)).await;
        let (growth, verdict) = measured.expect("a measurement");
        assert_eq!(bmc.commands().len(), ASKED, "{what}");
        rows.push((what.to_owned(), growth, verdict));
    }
    judge(rows);
}
