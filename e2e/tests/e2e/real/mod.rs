//! Real machines: a kubelet that comes up, a power cut that nothing survives, a reboot that is one.

mod address;
mod boots;
mod dark;
mod host;
mod machine;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use e2e::{
    control_plane::{
        Options,
        pool::{self, Lent},
    },
    lab::{Kind, available_to_test},
    machine::Machine,
    real::{RealMachine, Room},
    volume::{Volumes, Write, oracle::VolumeOracle},
    workload::{Workloads, ready_status},
};
use fencing_testbed::power::Power;
use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};
use kube::{Api, Client};
use tokio::time::sleep;

/// Long enough for a busy CI machine; nothing waits for it when all is well.
const LIMIT: Duration = Duration::from_secs(60);

/// A control plane and its real machines, without power.
pub struct Lab {
    /// The machines: `node-1` is the first.
    pub machines: Vec<Arc<RealMachine>>,
    // After the machines: given back when they are dark.
    _room: Room,
    /// Their volumes.
    pub volumes: Arc<Volumes>,
    client: Client,
    /// Workloads in namespace `work`.
    pub workloads: Workloads,
    /// The control plane.
    pub plane: Lent,
}

impl Lab {
    /// `None` where real machines cannot be.
    pub async fn start(test: &str, machines: usize) -> Result<Option<Self>> {
        if !available_to_test(Kind::Real, test)? {
            return Ok(None);
        }
        let room = Room::wait_for(machines).await?;
        let plane = pool::take(Options::named(test)).await?;
        let volumes = Volumes::new(plane.files().directory().join("volumes"))?;
        let machine = |number: usize| {
            RealMachine::new(
                &plane,
                &volumes,
                &format!("node-{number}"),
                &BTreeMap::new(),
            )
        };
        let machines = (1..=machines).map(machine).collect::<Result<Vec<_>>>()?;
        let client = plane.admin();
        let workloads = Workloads::create(client.clone(), "work").await?;
        Ok(Some(Self {
            machines,
            _room: room,
            volumes,
            client,
            workloads,
            plane,
        }))
    }

    async fn node(&self, machine: &RealMachine) -> Result<Node> {
        Ok(Api::<Node>::all(self.client.clone())
            .get(machine.name())
            .await?)
    }

    /// Powers a machine on and returns how long its node took to be Ready in this very boot.
    async fn boot(&self, machine: &RealMachine) -> Result<Duration> {
        let begin = Instant::now();
        machine.set_power(true);
        wait_for("the node is Ready in the new boot", || async {
            let nodes: Api<Node> = Api::all(self.client.clone());
            let Some(node) = nodes.get_opt(machine.name()).await? else {
                return Ok(false);
            };
            Ok(ready_status(&node) == Some("True") && info(&node)?.boot_id == machine.boot_id())
        })
        .await
        .with_context(|| format!("logs: {}", machine.logs().display()))?;
        Ok(begin.elapsed())
    }

    /// Waits for a write by this boot and returns it.
    async fn write_by(&self, volume: &str, boot: &str) -> Result<Write> {
        wait_for("the container writes", || async {
            Ok(self
                .last_write(volume)?
                .is_some_and(|write| write.boot == boot))
        })
        .await?;
        self.last_write(volume)?.context("no write")
    }

    /// Fails if two nodes had a volume at once. Otherwise another test may use the control plane after this one.
    pub async fn check_volumes(&self) -> Result<()> {
        let array = self.plane.array();
        self.volumes.journal().read_array(&array).await?;
        VolumeOracle::new(&self.volumes).check()?;
        self.plane.give_back_at_end();
        Ok(())
    }

    fn last_write(&self, volume: &str) -> Result<Option<Write>> {
        Ok(self.volumes.writes(volume)?.pop())
    }
}

async fn wait_for<F: Future<Output = Result<bool>>>(what: &str, is: impl Fn() -> F) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while !is().await? {
        ensure!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

fn info(node: &Node) -> Result<&NodeSystemInfo> {
    let status = node.status.as_ref().context("no status")?;
    status.node_info.as_ref().context("no nodeInfo")
}
