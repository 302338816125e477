//! What real machines cost this host, and what they leave on it: nothing.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use e2e::{
    lab::{Kind, available_to_test},
    workload::Template,
};
use tokio::time::sleep;

use super::{LIMIT, Lab, wait_for};
use crate::control_plane::{descendants, is_alive, stat};

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
    let (begin, before) = (Instant::now(), cpu_seconds(&lab)?);
    sleep(Duration::from_secs(10)).await;
    let cores = (cpu_seconds(&lab)? - before) / begin.elapsed().as_secs_f64();
    let usages: Vec<_> = lab.machines.iter().map(|machine| machine.usage()).collect();
    println!("control plane and two nodes: {cores:.2} cores; {usages:#?}");
    // A loop that spins would add a whole one.
    assert!(cores < 1.5, "{cores:.2} cores");
    Ok(())
}

/// Processor time that the machines and the control plane have used so far.
fn cpu_seconds(lab: &Lab) -> Result<f64> {
    let scratch = lab.plane.files().socket("");
    let is_component = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|directory| directory == scratch)
    };
    let ticks = |pid: u32| -> Option<f64> {
        let fields = stat(pid)?;
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    };
    let components = descendants(std::process::id())?
        .into_iter()
        .filter(is_component);
    let machines = lab
        .machines
        .iter()
        .map(|machine| machine.usage().cpu_seconds);
    // 100 ticks a second, on every Linux there is.
    Ok(components.filter_map(ticks).sum::<f64>() / 100.0 + machines.sum::<f64>())
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
    if !available_to_test(Kind::Real, name)? {
        return Ok(());
    }
    let mut lab = Command::new(std::env::current_exe()?)
        .args(["--exact", "--nocapture", &format!("real::host::{name}")])
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
    // A lab's routes carry the ID of its process.
    let metric = lab.id();
    assert!(routes(metric)? > 0);
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
    wait_for("the routes are removed", || async {
        Ok(routes(metric)? == 0)
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

/// How many routes with that metric there are in the table in which labs make theirs.
fn routes(metric: u32) -> Result<usize> {
    let mut show = Command::new("ip");
    show.args(["-4", "route", "show", "table", "local", "metric"]);
    let shown = show.arg(metric.to_string()).output()?;
    Ok(String::from_utf8(shown.stdout)?.lines().count())
}
