//! Redfish: bodies and heads without end, and bodies that are as large as they may be and as expensive as they can be.

use crate::bmc::{Act, Bmc, Request, reply, reply_with};
use crate::device::{service, settings, verdict_of};
use crate::{ASKED, judge, measured};
use node_fencing_operator::fence::http::BODY_BYTES_MAX;
use node_fencing_operator::fence::redfish::RedfishSettings;
use std::net::SocketAddr;
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
