//! What the watches do not tell, tell late, or tell again (F16 to F18): they only ever wake somebody up, and begin anew by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, Setup};
use e2e::proxy::{Action, Fate, Line, Rule, writes};
use fencing_testbed::eventually::eventually;
use serde_json::{Value, json};

use crate::outage::{Watched as Scene, keep_before_the_evidence, node_writes};

impl Scene {
    async fn of_three(name: &str) -> Result<Self> {
        let budget = json!({"budget": {"maxConcurrent": 10}});
        Self::set(Setup::new(name, 3), budget).await
    }

    /// Ends all watches, and waits until one has begun anew that the rule is about.
    async fn begin_anew(&self, rule: &Rule) -> Result<()> {
        self.proxy.set_line(Line::Refused)?;
        self.proxy.set_line(Line::Up)?;
        Self::wait_hit(rule).await
    }

    /// Waits until somebody has asked for what this rule is about.
    async fn wait_hit(rule: &Rule) -> Result<()> {
        eventually("it is asked for", LIMIT, async || {
            ensure!(rule.hits() > 0, "not yet");
            Ok(())
        })
        .await
    }

    /// All Nodes, as the API server lists them now.
    async fn listed(&self) -> Result<Value> {
        let text = ["get", "--raw", "/api/v1/nodes"];
        Ok(serde_json::from_str(
            &self.lab.control_plane.kubectl_text(&text).await?,
        )?)
    }

    /// Waits until somebody has read this Node since so many requests.
    async fn wait_read(&self, node: &str, looks: usize) -> Result<()> {
        let read = writes::read_node().of(node);
        eventually("the node is looked at", LIMIT, async || {
            let log = self.proxy.log();
            let mut since = log.iter().skip(looks);
            let looked = since.any(|record| read.matches(&record.seen));
            ensure!(looked, "nobody has read it");
            Ok(())
        })
        .await
    }

    /// Nobody has written to this Node.
    async fn is_untouched(&self, node: &str) -> Result<()> {
        let written = node_writes(&self.lab).await?;
        let mut written = written.iter().map(|write| &write.object_ref.name);
        ensure!(written.all(|it| it != node), "{node} was written to");
        Ok(())
    }

    /// A Node as it is, and as an event of a watch tells of it.
    async fn event_of(&self, node: &str) -> Result<Value> {
        let text = ["get", "--raw", &format!("/api/v1/nodes/{node}")];
        let object: Value =
            serde_json::from_str(&self.lab.control_plane.kubectl_text(&text).await?)?;
        Ok(json!({"type": "MODIFIED", "object": object}))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_says_nothing_any_more_is_begun_anew() -> Result<()> {
    let scene = Scene::of_three("watch-dead").await?;
    let nodes = scene
        .proxy
        .rule(writes::watch("nodes").once(), Action::Dead);
    scene.begin_anew(&nodes).await?;
    scene.power(1, false).await?;
    scene.lab.wait_stage("node-1", "Recovered").await?;

    // Nor does it wait for as long as a laden API server asks for.
    let busy = Action::Before(Fate::Status(429, Some(600)));
    let busy = scene.proxy.rule(writes::watch("nodes").once(), busy);
    scene.begin_anew(&busy).await?;
    scene.power(2, false).await?;
    scene.lab.wait_stage("node-2", "Recovered").await?;
    scene.operator.check()?;
    scene.lab.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_the_past_and_events_that_are_missed_change_nothing() -> Result<()> {
    let scene = Scene::of_three("watch-stale").await?;
    // An API server that is behind tells that a node is silent, which has long been back.
    scene.power(1, false).await?;
    let past = scene.event_of("node-1").await?;
    scene.power(1, true).await?;
    let looks = scene.proxy.log().len();
    let told = AtomicBool::new(false);
    let replayed = scene.proxy.edit(writes::watch("nodes"), move |event| {
        let is_of_it = event["object"]["metadata"]["name"] == "node-1";
        match (told.swap(true, Ordering::SeqCst), is_of_it) {
            (false, _) => vec![past.clone()],
            (true, true) => vec![],
            (true, false) => vec![event],
        }
    });
    scene.begin_anew(&replayed).await?;
    scene.wait_read("node-1", looks).await?;
    replayed.remove();

    // And one tells nothing of a node until it has to be asked for everything again.
    let (gone, missed) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (is_gone, misses) = (Arc::clone(&gone), Arc::clone(&missed));
    let silent = scene.proxy.edit(writes::watch("nodes"), move |event| {
        if is_gone.load(Ordering::SeqCst) {
            return vec![expired()];
        }
        match event["object"]["metadata"]["name"] == "node-2" {
            true => {
                misses.fetch_add(1, Ordering::SeqCst);
                vec![]
            }
            false => vec![event],
        }
    });
    scene.begin_anew(&silent).await?;
    scene.power(2, false).await?;
    scene.power(3, false).await?;
    scene.lab.wait_stage("node-3", "Recovered").await?;
    ensure!(missed.load(Ordering::SeqCst) > 0, "nothing was missed");
    ensure!(scene.lab.fence_of("node-2").await?.is_none());
    gone.store(true, Ordering::SeqCst);
    scene.power(3, true).await?;
    silent.remove();
    scene.lab.wait_stage("node-2", "Recovered").await?;

    ensure!(scene.lab.fence_of("node-1").await?.is_none());
    scene.is_untouched("node-1").await?;
    scene.operator.check()?;
    scene.lab.verdict().await
}

/// F17: an API server that is behind, asked for everything, lists what was. It says that a node is silent which is back, that one is Ready
/// which is silent, and nothing of what came since: the first is read by quorum and left alone, what is under way with another goes on by
/// what is true, and the third is found as soon as a list is true again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_the_past_decides_nothing() -> Result<()> {
    let scene = Scene::of_three("list-stale").await?;
    scene.power(1, false).await?;
    let past = scene.listed().await?;
    scene.power(1, true).await?;
    ensure!(scene.lab.fence_of("node-1").await?.is_none());
    // A fence under way, of a node that the list says to be Ready.
    scene.power(2, false).await?;
    let kept = keep_before_the_evidence(&scene.proxy).await?;

    let looks = scene.proxy.log().len();
    let behind = scene.proxy.answer(writes::list("nodes"), past);
    let expired = scene
        .proxy
        .edit(writes::watch("nodes"), |_| vec![expired()]);
    // It stays behind: its next watch tells of nothing that has been since.
    let silent = scene.proxy.rule(writes::watch("nodes"), Action::Dead);
    scene.begin_anew(&expired).await?;
    Scene::wait_hit(&behind).await?;
    expired.remove();
    Scene::wait_hit(&silent).await?;
    scene.wait_read("node-1", looks).await?;
    scene.power(3, false).await?;
    kept.remove();
    scene.lab.wait_stage("node-2", "Recovered").await?;
    ensure!(
        scene.lab.fence_of("node-3").await?.is_none(),
        "it was listed as Ready"
    );

    behind.remove();
    silent.remove();
    let current = scene
        .proxy
        .rule(writes::watch("nodes"), Action::Delay(Duration::ZERO));
    scene.begin_anew(&current).await?;
    scene.lab.wait_stage("node-3", "Recovered").await?;
    ensure!(scene.lab.fence_of("node-1").await?.is_none());
    scene.is_untouched("node-1").await?;
    scene.operator.check()?;
    scene.lab.verdict().await
}

/// The last event of a watch whose version is too old to go on.
fn expired() -> Value {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "Expired", "code": 410, "message": "too old resource version"});
    json!({"type": "ERROR", "object": status})
}
