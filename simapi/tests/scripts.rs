//! The server in memory against what a real API server has answered to the same scripts (`simapi/scripts/*.answers.txt`, which an e2e test
//! of the lab compares with the real one, and writes with `UPDATE=1`).

use futures::StreamExt;
use simapi::script::{ALL, play, read};
use simapi::{Answer, Api, Request};
use std::convert::Infallible;
use std::fs;
use std::path::Path;

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn api() -> Api {
    let crds = ["nodefences", "fencedevices", "nodefencingpolicies"]
        .map(|plural| (plural, text(&format!("../crds/{plural}.yaml"))));
    let crds: Vec<(&'static str, &str)> = crds
        .iter()
        .map(|(plural, yaml)| (*plural, yaml.as_str()))
        .collect();
    let api = Api::new(&crds, || "2026-01-01T00:00:00Z".parse().expect("a time"));
    // A real one has forgotten its first versions.
    api.compact();
    api
}

async fn transcript(name: &str) -> String {
    let script = read(&text(&format!("scripts/{name}.yaml"))).expect("a script");
    let api = api();
    let send = async |request: http::Request<Vec<u8>>| {
        let (parts, body) = request.into_parts();
        let request =
            http::Request::from_parts(parts, http_body_util::Full::new(bytes::Bytes::from(body)));
        let request = Request::read("script".into(), request).await?;
        let answer = api.answer(&request);
        let code = answer.code();
        let body = match answer {
            Answer::Whole(_, body) => body,
            Answer::Watch(lines) => lines.collect::<Vec<_>>().await.concat().into(),
        };
        Ok::<_, Infallible>((code, body))
    };
    let compact = async || {
        api.compact();
        Ok(())
    };
    play(&script, send, compact).await.expect("answers")
}

#[tokio::test(start_paused = true)]
async fn a_real_api_server_has_answered_the_same() {
    for name in ALL {
        let (recorded, answered) = (
            text(&format!("scripts/{name}.answers.txt")),
            transcript(name).await,
        );
        let differs = recorded
            .lines()
            .zip(answered.lines())
            .find(|(real, ours)| real != ours);
        assert_eq!(
            differs, None,
            "{name}: the real API server, and the one in memory"
        );
        assert_eq!(recorded.lines().count(), answered.lines().count(), "{name}");
    }
}
