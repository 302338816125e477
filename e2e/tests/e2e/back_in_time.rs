//! etcd is put back to an older state, under the running operator (F49) and before it starts (F50).
//!
//! What it wrote meanwhile is forgotten, what it had taken back stands again, and the numbers by which it tells old from new begin over.

use anyhow::{Context, Result, ensure};
use e2e::control_plane::Backup;
use e2e::lab::{LIMIT, Setup, condition, has_taint, stage};
use e2e::proxy::Matcher;
use e2e::proxy::writes::{self, CLAIM, OUT_OF_SERVICE};
use e2e::workload::wait_node_ready;
use fencing_testbed::eventually::eventually;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use crate::outage::{Watched as Scene, node_writes};

const NODE: &str = "node-1";

impl Scene {
    async fn alone(name: &str) -> Result<Self> {
        let budget = json!({"budget": {"maxConcurrent": 10}});
        Self::set(Setup::new(name, 3).alone(), budget).await
    }

    /// The store as it is when the operator is about to send this, or nothing.
    async fn backed_up_at(&self, name: &str, write: Matcher) -> Result<Backup> {
        let hold = self.proxy.hold(write);
        hold.wait_arrived(LIMIT).await?;
        let backup = self.lab.control_plane.back_up(name)?;
        hold.release();
        Ok(backup)
    }

    /// A fence from beginning to end, of which this is written to Nodes.
    async fn fenced(&self) -> Result<()> {
        self.lab.wait_stage(NODE, "Recovered").await?;
        self.power(1, true).await?;
        // What is judged by the numbers of versions is judged before these begin over.
        self.lab.verdict().await
    }

    async fn restore(&self, backup: &Backup) -> Result<()> {
        self.lab.control_plane.restore(backup).await?;
        wait_node_ready(self.lab.control_plane.admin(), NODE, "True", LIMIT)
            .await
            .map(drop)
    }

    /// Puts the store back while no operator runs; returns the record of the node, which may be deleted by then.
    async fn restore_before_start(
        &self,
        backup: &Backup,
        with_record: bool,
    ) -> Result<DynamicObject> {
        self.operator.kill()?;
        self.restore(backup).await?;
        let fence = self.lab.fence_of(NODE).await?.context("it is open again")?;
        if !with_record {
            let fences = self.lab.api("NodeFence");
            fences
                .delete(&fence.name_any(), &Default::default())
                .await?;
        }
        Ok(fence)
    }

    /// Neither claim nor `out-of-service` stands on the node, and the latter was not set in the writes after the first `before`.
    async fn is_free(&self, before: usize) -> Result<()> {
        let free = |node: &_| !has_taint(node, CLAIM) && !has_taint(node, OUT_OF_SERVICE);
        self.lab.wait_node(NODE, "no taint of ours", free).await?;
        let mut since = node_writes(&self.lab).await?.split_off(before);
        since.retain(|write| write.object_ref.name == NODE);
        let adds = |operation: &serde_json::Value| {
            operation["op"] == "add" && operation["value"]["key"] == OUT_OF_SERVICE
        };
        let sets = since.iter().filter(|write| {
            let operations = write.request_object.as_array();
            operations.into_iter().flatten().any(adds)
        });
        ensure!(sets.count() == 0, "it was put out of service: {since:#?}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_is_put_back_under_the_operator_freezes_it() -> Result<()> {
    let scene = Scene::alone("put-back-running").await?;
    let before = scene.lab.control_plane.back_up("before")?;
    scene.power(1, false).await?;
    scene.fenced().await?;

    // Nothing is open, so that nothing else is read than what a leader always reads.
    scene.restore(&before).await?;
    ensure!(scene.lab.fence_of(NODE).await?.is_none(), "it is forgotten");
    let operator = &scene.operator;
    eventually("it is noticed", LIMIT, async || {
        let lines = operator.log_lines()?;
        let frozen = lines.iter().any(|line| line["message"] == "frozen");
        ensure!(frozen, "the log ends with {:#?}", lines.last());
        Ok(())
    })
    .await?;
    eventually("its policy says so", LIMIT, async || {
        let policies = scene.lab.api("NodeFencingPolicy");
        let policies = policies.list(&Default::default()).await?.items;
        let ready = policies.iter().filter_map(|it| condition(it, "Ready"));
        let reasons: Vec<_> = ready.map(|it| it["reason"].as_str()).collect();
        ensure!(reasons == [Some("ClusterWentBack")], "{reasons:?}");
        Ok(())
    })
    .await?;
    let writes = node_writes(&scene.lab).await?.len();
    scene.power(2, false).await?;
    eventually("it says that it does not fence", LIMIT, async || {
        let lines = operator.log_lines()?;
        let is_told = |line: &serde_json::Value| {
            line["message"] == "the node is not fenced" && line["node"] == "node-2"
        };
        ensure!(lines.iter().any(is_told), "not yet");
        Ok(())
    })
    .await?;
    ensure!(operator.metric("node_fencing_frozen").await? > 0.0);
    ensure!(scene.lab.fence_of("node-2").await?.is_none());
    ensure!(node_writes(&scene.lab).await?.len() == writes);

    // Somebody has looked, and says so.
    operator.kill()?;
    operator.start_again().await?;
    scene.lab.wait_stage("node-2", "Recovered").await?;
    scene.is_free(writes).await?;
    operator.check()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_starts_after_etcd_was_put_back_believes_nothing_of_it() -> Result<()> {
    let scene = Scene::alone("put-back-stopped").await?;
    let fail = async {
        let proven = scene.backed_up_at("proven", writes::taint()).await?;
        let tainted = scene.backed_up_at("tainted", writes::release()).await?;
        Ok((proven, tainted))
    };
    let ((proven, tainted), ()) = tokio::try_join!(fail, scene.power(1, false))?;
    scene.fenced().await?;

    // A claim and evidence of a machine that runs, with their record, and without.
    for with_record in [true, false] {
        let fence = scene.restore_before_start(&proven, with_record).await?;
        ensure!(fence.data["status"]["evidence"].is_object());
        ensure!(has_taint(&scene.lab.node(NODE).await?, CLAIM));
        let writes = node_writes(&scene.lab).await?.len();
        scene.operator.start_again().await?;
        scene.is_free(writes).await?;
        if with_record {
            let given_up = |fence: &_| ["SelfRecovered", "Aborted"].contains(&stage(fence));
            scene.lab.wait_fence(NODE, given_up).await?;
        }
        ensure!(scene.lab.fence_of(NODE).await?.is_some() == with_record);
    }

    // An `out-of-service` on a node that is back, likewise.
    for with_record in [true, false] {
        let fence = scene.restore_before_start(&tainted, with_record).await?;
        ensure!(has_taint(&scene.lab.node(NODE).await?, OUT_OF_SERVICE));
        let writes = node_writes(&scene.lab).await?.len();
        scene.operator.start_again().await?;
        let ended = scene.lab.wait_stage(NODE, "Recovered").await?;
        // The name is that of the outage, whoever opens the record.
        ensure!((ended.metadata.uid == fence.metadata.uid) == with_record);
        scene.is_free(writes).await?;
    }
    scene.operator.check()
}
