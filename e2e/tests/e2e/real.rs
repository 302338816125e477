//! Real machines: a kubelet that comes up, a power cut that nothing survives, a reboot that is one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use e2e::{
    control_plane::{ControlPlane, Options},
    machine::{Ailment, Boot, Machine, Power},
    moment::Moment,
    real::{self, RealMachine},
    volume::{Volumes, Write, oracle::VolumeOracle},
    workload::{Template, Workloads, ready_status, wait_node_ready},
};
use k8s_openapi::api::core::v1::{Node, NodeSystemInfo, Pod};
use kube::{Api, Client};
use tokio::time::sleep;

use crate::control_plane::{descendants, is_alive, stat};

/// Long enough for a busy CI machine; nothing waits for it when all is well.
const LIMIT: Duration = Duration::from_secs(60);

/// A control plane and its real machines, of which the first ones have power.
struct Lab {
    machines: Vec<Arc<RealMachine>>,
    volumes: Arc<Volumes>,
    client: Client,
    workloads: Workloads,
    _plane: ControlPlane,
}

impl Lab {
    /// `None`, and says so loudly, where real machines cannot be.
    async fn start(test: &str, machines: usize) -> Result<Option<Self>> {
        if let Err(reason) = real::available() {
            eprintln!("SKIPPED {test}: no real machines here: {reason}");
            return Ok(None);
        }
        let plane = ControlPlane::start(Options::named(test)).await?;
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
        let _plane = plane;
        Ok(Some(Self {
            machines,
            volumes,
            client,
            workloads,
            _plane,
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

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_ends_everything_and_a_reboot_begins_anew() -> Result<()> {
    let Some(lab) = Lab::start("power", 1).await? else {
        return Ok(());
    };
    let machine = &lab.machines[0];
    assert!(!machine.is_on());
    println!("first boot: Ready after {:?}", lab.boot(machine).await?);
    let first = machine.boot_id();
    assert_eq!(
        info(&lab.node(machine).await?)?.system_uuid,
        machine.system_uuid()
    );

    let volume = lab
        .workloads
        .stateful_set("db", &Template::default())
        .await?;
    lab.workloads.wait_running("db-0", LIMIT).await?;
    let write = lab.write_by(&volume, &first).await?;
    assert_eq!(write.node, machine.name());
    println!("memory: {} KiB with one pod", machine.memory_kib());

    let cut = Moment::now();
    machine.set_power(false);
    let dark = Moment::now().since(cut);
    let last = lab.last_write(&volume)?.context("no write")?;
    println!(
        "dark after {dark:?}, last write {:.1} ms after the cut",
        last.at.seconds_since(cut) * 1e3
    );
    assert!(dark < Duration::from_secs(1), "{dark:?}");
    sleep(Duration::from_millis(500)).await;
    assert_eq!(lab.last_write(&volume)?, Some(last), "a dark machine wrote");
    assert_eq!(machine.memory_kib(), 0);

    println!("reboot: Ready after {:?}", lab.boot(machine).await?);
    assert_ne!(machine.boot_id(), first);
    assert_eq!(
        info(&lab.node(machine).await?)?.system_uuid,
        machine.system_uuid()
    );
    // The pod is still bound to the node, so it starts again there, with its volume mounted again.
    let write = lab.write_by(&volume, &machine.boot_id()).await?;
    println!("reboot: container writes after {:?}", write.at.since(cut));
    VolumeOracle::new(&lab.volumes).check()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ailing_nodes_look_dead_and_go_on_writing() -> Result<()> {
    let Some(lab) = Lab::start("ailments", 1).await? else {
        return Ok(());
    };
    let machine = &lab.machines[0];
    lab.boot(machine).await?;
    let volume = lab
        .workloads
        .stateful_set("db", &Template::default())
        .await?;
    lab.workloads.wait_running("db-0", LIMIT).await?;

    let partitioned = Ailment {
        partitioned: true,
        ..Ailment::default()
    };
    let hung = Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    };
    for ailment in [partitioned, hung] {
        let begin = Instant::now();
        machine.ail(ailment.clone());
        wait_node_ready(lab.client.clone(), machine.name(), "Unknown", LIMIT).await?;
        println!("{ailment:?}: Unknown after {:?}", begin.elapsed());
        let last = lab.last_write(&volume)?.context("no write")?;
        assert!(
            Moment::now().seconds_since(last.at) < 0.5,
            "silent since {last}"
        );

        let begin = Instant::now();
        machine.ail(Ailment::default());
        wait_node_ready(lab.client.clone(), machine.name(), "True", LIMIT).await?;
        println!("cured: Ready after {:?}", begin.elapsed());
    }
    let writes = lab.volumes.writes(&volume)?;
    assert!(
        writes.iter().all(|write| write.pod == writes[0].pod),
        "the pod lived through all of it"
    );

    machine.ail(Ailment {
        unmount_hung: true,
        ..Ailment::default()
    });
    lab.workloads.delete_pod("db-0", Some(1)).await?;
    sleep(Duration::from_secs(4)).await;
    let pod = lab.workloads.api::<Pod>().get("db-0").await?;
    assert_eq!(
        pod.metadata.uid.as_ref(),
        Some(&writes[0].pod),
        "Terminating while its volume is mounted"
    );
    machine.ail(Ailment::default());
    wait_for("the pod is replaced", || async {
        Ok(lab
            .last_write(&volume)?
            .is_some_and(|write| write.pod != writes[0].pod))
    })
    .await?;
    VolumeOracle::new(&lab.volumes).check()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_boots_in_every_order_that_real_clusters_show() -> Result<()> {
    let Some(lab) = Lab::start("boots", 1).await? else {
        return Ok(());
    };
    let machine = &lab.machines[0];
    lab.boot(machine).await?;
    let template = Template {
        host_network: true,
        ..Template::default()
    };
    let volume = lab.workloads.stateful_set("db", &template).await?;
    lab.workloads.wait_running("db-0", LIMIT).await?;

    // The network plugin late, also after the node was found dead.
    for found_dead in [false, true] {
        machine.set_power(false);
        if found_dead {
            wait_node_ready(lab.client.clone(), machine.name(), "Unknown", LIMIT).await?;
        }
        machine.next_boot(Boot {
            pods_before_ready: true,
            ..Boot::default()
        });
        let begin = Moment::now();
        let ready = lab.boot(machine).await?;
        let writes = lab.volumes.writes(&volume)?;
        let first = writes.iter().find(|write| write.boot == machine.boot_id());
        let first = first.context("no write before Ready")?.at.since(begin);
        println!("network late, found dead={found_dead}: first write {first:?}, Ready {ready:?}");
        assert!(first < ready);
    }

    // Every status update refused: the node looks as dead as it was.
    machine.set_power(false);
    wait_node_ready(lab.client.clone(), machine.name(), "Unknown", LIMIT).await?;
    let before = info(&lab.node(machine).await?)?.boot_id.clone();
    machine.next_boot(Boot {
        status_refused: true,
        ..Boot::default()
    });
    machine.set_power(true);
    lab.write_by(&volume, &machine.boot_id()).await?;
    sleep(Duration::from_secs(2)).await;
    let node = lab.node(machine).await?;
    assert_eq!(info(&node)?.boot_id, before);
    println!(
        "status refused: Ready={:?} with the old boot ID",
        ready_status(&node)
    );

    // A slow firmware.
    machine.set_power(false);
    machine.next_boot(Boot {
        delay: Duration::from_secs(3),
        ..Boot::default()
    });
    let ready = lab.boot(machine).await?;
    println!("3 s of delay: Ready {ready:?}");
    assert!(ready > Duration::from_secs(3));
    VolumeOracle::new(&lab.volumes).check()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_not_ready_before_its_network_daemonset_runs() -> Result<()> {
    let Some(lab) = Lab::start("daemonset", 1).await? else {
        return Ok(());
    };
    let machine = &lab.machines[0];
    let nodes: Api<Node> = Api::all(lab.client.clone());
    machine.next_boot(Boot {
        ready_needs_daemonset: Some("work/network".to_owned()),
        ..Boot::default()
    });
    machine.set_power(true);
    wait_for("the node registers", || async {
        Ok(nodes.get_opt(machine.name()).await?.is_some())
    })
    .await?;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(ready_status(&lab.node(machine).await?), Some("False"));
    lab.workloads
        .daemon_set("network", &Template::network_plugin())
        .await?;
    wait_node_ready(lab.client.clone(), machine.name(), "True", LIMIT).await?;
    // The next boot needs it again: what it wrote was in /run.
    machine.set_power(false);
    machine.next_boot(Boot {
        ready_needs_daemonset: Some("work/network".to_owned()),
        ..Boot::default()
    });
    println!(
        "Ready {:?} after a reboot, thanks to the DaemonSet's pod",
        lab.boot(machine).await?
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_real_nodes_and_a_control_plane_are_calm() -> Result<()> {
    let Some(lab) = Lab::start("calm", 2).await? else {
        return Ok(());
    };
    for machine in &lab.machines {
        lab.boot(machine).await?;
    }
    lab.workloads
        .deployment("calm", 2, &Template::default())
        .await?;
    sleep(Duration::from_secs(10)).await;
    let (processes, begin) = (descendants(std::process::id())?, Instant::now());
    let before = cpu_seconds(&processes);
    sleep(Duration::from_secs(10)).await;
    let cores = (cpu_seconds(&processes) - before) / begin.elapsed().as_secs_f64();
    let memory: Vec<_> = lab
        .machines
        .iter()
        .map(|machine| machine.memory_kib() / 1024)
        .collect();
    println!(
        "{cores:.2} cores, {} processes, {memory:?} MiB",
        processes.len()
    );
    assert!(cores < 1.0, "{cores:.2} cores");
    Ok(())
}

/// Processor time that the processes have used so far.
fn cpu_seconds(processes: &BTreeSet<u32>) -> f64 {
    let ticks = |pid: &u32| -> Option<f64> {
        let fields = stat(*pid)?;
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    // 100 ticks a second, on every Linux there is.
    processes.iter().filter_map(ticks).sum::<f64>() / 100.0
}

/// Set in the process that [`a_killed_lab_leaves_no_machine_behind`] starts in order to kill it.
const TO_BE_KILLED: &str = "LAB_TO_BE_KILLED";

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_lab_leaves_no_machine_behind() -> Result<()> {
    let name = "a_killed_lab_leaves_no_machine_behind";
    if std::env::var_os(TO_BE_KILLED).is_some() {
        let lab = Lab::start("killed", 1)
            .await?
            .context("the one that kills has checked")?;
        lab.boot(&lab.machines[0]).await?;
        lab.workloads
            .stateful_set("db", &Template::default())
            .await?;
        lab.workloads.wait_running("db-0", LIMIT).await?;
        println!("\nup");
        return std::future::pending().await;
    }
    if let Err(reason) = real::available() {
        eprintln!("SKIPPED {name}: no real machines here: {reason}");
        return Ok(());
    }
    let mut lab = Command::new(std::env::current_exe()?)
        .args(["--exact", "--nocapture", &format!("real::{name}")])
        .env(TO_BE_KILLED, "true")
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(lab.stdout.take().context("no output")?);
    let up = output
        .lines()
        .map_while(Result::ok)
        .any(|line| line == "up");
    ensure!(up, "the lab ended before it was up");
    let processes = descendants(lab.id())?;
    let groups = format!("killed-{}-0-node-1", lab.id());
    assert!(control_groups(&groups)? > 1);
    lab.kill()?;
    lab.wait()?;
    wait_for("all processes have ended", || async {
        Ok(!processes.iter().any(|pid| is_alive(*pid)))
    })
    .await?;
    wait_for("the control groups are removed", || async {
        Ok(control_groups(&groups)? == 0)
    })
    .await?;
    println!("{} processes were killed", processes.len());
    Ok(())
}

/// In how many hierarchies there is a control group of that name.
fn control_groups(name: &str) -> Result<usize> {
    let hierarchies = fs::read_dir("/sys/fs/cgroup")?.collect::<Result<Vec<_>, _>>()?;
    Ok(hierarchies
        .iter()
        .filter(|hierarchy| hierarchy.path().join(name).exists())
        .count())
}
