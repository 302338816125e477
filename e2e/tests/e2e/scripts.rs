//! What the simulation's API server is held against: a real one's answers to the same scripts of requests (`simapi/scripts`).
//!
//! The answers stand beside the scripts, so that the one in memory is compared with them without a cluster; `UPDATE=1` writes them anew.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::toolchain::is_usual_kubernetes;
use fencing_testbed::paths::workspace;
use http_body_util::BodyExt;
use kube::client::Body;
use simapi::script::{ALL, play, read};

use crate::verdict::without_values;

/// The controller-manager looks at nodes so seldom: the scripts' Nodes are not for it.
const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_answered_as_the_simulation_answers_them() -> Result<()> {
    let options = Options {
        node_monitor_period: NEVER,
        node_startup_grace: NEVER,
        ..Options::named("scripts")
    };
    let plane = ControlPlane::start(options).await?;
    plane.apply_deploy().await?;
    for name in ALL {
        let answered = transcript(&plane, name).await?;
        let path = workspace().join(format!("simapi/scripts/{name}.answers.txt"));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &answered)?;
        }
        let recorded = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut lines = recorded.lines().zip(answered.lines());
        let differs = lines.find(|(recorded, answered)| !is_same(recorded, answered));
        ensure!(
            differs.is_none(),
            "{name}: recorded, and answered now: {differs:#?}"
        );
        ensure!(
            is_same(&recorded, &answered),
            "{name}: one of them is longer"
        );
    }
    plane.check()
}

/// The same answers, on another Kubernetes than the usual one but for the values that it calls invalid.
fn is_same(recorded: &str, answered: &str) -> bool {
    // They stand in JSON in JSON.
    let bare = |answers: &str| without_values(&answers.replace("\\\"", "\""));
    recorded == answered || !is_usual_kubernetes() && bare(recorded) == bare(answered)
}

async fn transcript(plane: &ControlPlane, name: &str) -> Result<String> {
    let client = plane.admin();
    let path = workspace().join(format!("simapi/scripts/{name}.yaml"));
    let script = read(&fs::read_to_string(path)?).map_err(anyhow::Error::msg)?;
    let send = async |request: http::Request<Vec<u8>>| {
        let response = client.send(request.map(Body::from)).await?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        anyhow::Ok((code, body))
    };
    play(&script, send, async || plane.compact().await).await
}
