use super::*;
use http_body_util::Empty;

const ROOT: &str = "/0123456789abcdef/";

fn asked(method: Method, host: Option<&str>, path: &str) -> Option<Answer> {
    let request = Request::builder().method(method).uri(path);
    let request = match host {
        Some(host) => request.header(HOST, host),
        None => request,
    };
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let own = hosts("127.0.0.1:8090".parse().expect("an address"));
    refusal(&own, ROOT, &request)
}

fn status(method: Method, host: &str, path: &str) -> u16 {
    asked(method, Some(host), path).map_or(200, |it| it.status().as_u16())
}

#[test]
fn a_name_that_somebody_points_at_loopback_gets_nothing() {
    for host in ["127.0.0.1:8090", "localhost:8090"] {
        assert_eq!(status(Method::GET, host, ROOT), 200, "{host}");
    }
    for host in [
        "evil.example:8090",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:8090.evil.example",
        "localhost",
        "",
    ] {
        assert_eq!(status(Method::GET, host, ROOT), 403, "{host}");
    }
    assert!(asked(Method::GET, None, ROOT).is_some());
}

#[test]
fn nothing_can_be_changed() {
    for method in [
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ] {
        assert_eq!(
            status(method.clone(), "127.0.0.1:8090", ROOT),
            405,
            "{method}"
        );
    }
    assert_eq!(status(Method::HEAD, "127.0.0.1:8090", ROOT), 200);
}

#[test]
fn nobody_gets_anything_who_does_not_know_the_address() {
    for path in [
        "/",
        "/events",
        "/favicon.ico",
        "/0123456789abcdef",
        "/0123456789abcdee/",
        "/x0123456789abcdef/",
        "/0123456789abcdeff/",
    ] {
        assert_eq!(status(Method::GET, "127.0.0.1:8090", path), 404, "{path}");
    }
}

#[test]
fn answers_are_kept_nowhere_and_framed_by_nobody() {
    let answer = page(String::new());
    let header = |name: &str| answer.headers().get(name).and_then(|it| it.to_str().ok());
    assert_eq!(header("cache-control"), Some("no-store"));
    assert_eq!(header("referrer-policy"), Some("no-referrer"));
    assert_eq!(header("x-content-type-options"), Some("nosniff"));
    assert_eq!(
        header("content-security-policy"),
        Some("frame-ancestors 'none'")
    );
}

#[test]
fn a_name_survives_its_way_through_a_path() {
    for name in ["worker-1.example", "a/b", "\u{e4} %\"<", "%"] {
        assert_eq!(decoded(&super::super::pieces::encoded(name)), name);
    }
    // What is no encoding is not made into one.
    assert_eq!(decoded("a%"), "a%");
    assert_eq!(decoded("%zz"), "");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_the_way_out() {
    let first = bind("127.0.0.1:0".parse().expect("an address"));
    let first = first.await.expect("a free port");
    let taken = first.local_addr().expect("an address");
    let error = bind(taken).await.expect_err("it is taken");
    assert!(
        error.contains(&taken.to_string()) && error.contains("another port"),
        "{error}"
    );
}
