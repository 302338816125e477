//! Bodies that are no document, too long, too deep, never ending: each ends by a limit, and none is ever read as off.

use crate::bmc::{Act, reply, reply_with};
use crate::device::{hasty_verdict, system, verdict};
use crate::reads::{always, verdict_on_body};

#[tokio::test]
async fn a_body_that_is_not_the_document_is_a_protocol_error() {
    let off = system("\"Off\"");
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for (what, body) in [
        ("empty", ""),
        ("HTML", "<html><body>\"PowerState\":\"Off\"</body></html>"),
        ("bad JSON", "{\"PowerState\":\"Off\""),
        ("two documents", &format!("{off}{off}")),
        ("a number", "0"),
        ("depth 10,000", &deep),
        (
            "a name twice",
            &off.replace("\"Id\":\"1\"", "\"PowerState\":\"On\""),
        ),
        (
            "a name twice, deep down",
            &off.replace("\"Health\"", "\"State\""),
        ),
        ("a byte order mark", &format!("\u{feff}{off}")),
    ] {
        assert_eq!(verdict_on_body(body).await, "ProtocolError", "{what}");
    }
    let not_utf8 = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n".as_slice(),
        b"\"\xff\"",
    ]
    .concat();
    assert_eq!(verdict(always(not_utf8)).await, "ProtocolError");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_protocol_error() {
    let off = system("\"Off\"");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        off.len() + 1
    );
    let truncated = format!("{head}{off}").into_bytes();
    assert_eq!(
        verdict(move |_| Act::SendThenClose(truncated.clone())).await,
        "ProtocolError"
    );
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{off}\r\n",
        off.len()
    );
    assert_eq!(
        verdict(move |_| Act::SendThenClose(chunked.clone().into_bytes())).await,
        "ProtocolError"
    );
}

#[tokio::test]
async fn a_body_over_its_limit_is_refused_unread() {
    let large = format!("{}{}", system("\"Off\""), " ".repeat(1 << 20));
    assert_eq!(
        verdict(always(reply("200 OK", &large))).await,
        "ProtocolError"
    );
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n".to_vec();
    assert_eq!(
        verdict(move |_| Act::Endless(head.clone(), vec![b' '; 1 << 16])).await,
        "ProtocolError"
    );
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 1 << 16], b"\r\n"].concat();
    assert_eq!(
        verdict(move |_| Act::Endless(head.clone(), chunk.clone())).await,
        "ProtocolError"
    );
}

#[tokio::test]
async fn tiny_chunks_and_endless_headers_end_by_a_limit() {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let reason = hasty_verdict(move |_| Act::Endless(head.clone(), b"1\r\n \r\n".to_vec())).await;
    assert!(
        matches!(reason.as_str(), "ProtocolError" | "Timeout"),
        "{reason}"
    );
    let head = b"HTTP/1.1 200 OK\r\n".to_vec();
    assert_eq!(
        verdict(move |_| Act::Endless(head.clone(), b"X: y\r\n".to_vec())).await,
        "ProtocolError"
    );
    let head = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
    assert_eq!(
        verdict(move |_| Act::Endless(head.clone(), vec![b'y'; 4096])).await,
        "ProtocolError"
    );
    let informational = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
    let reason = hasty_verdict(move |_| Act::Endless(Vec::new(), informational.clone())).await;
    assert!(
        matches!(reason.as_str(), "ProtocolError" | "Timeout"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_packed_body_is_never_unpacked() {
    let packed = reply_with("200 OK", "Content-Encoding: gzip\r\n", &system("\"Off\""));
    assert_eq!(verdict(always(packed)).await, "ProtocolError");
}
