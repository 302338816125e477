//! Cases 1 and 2 once more through each provider that has a peer of others here, and in clusters of ours below for those that have none:
//! see [`crate::hypervisor`] for those that run with every change. These take a minute each, and `make peers` runs them.

mod ironic;
mod storage_fence;

use anyhow::{Result, ensure};
use e2e::lab::{Lab, Setup};
use fencing_testbed::debian;
use fencing_testbed::libvirtd::{Domains, Programs};
use fencing_testbed::skip::or_skip;
use fencing_testbed::sushy::Libvirt;
use std::process::Command;

use super::hung_kubelet::hung_kubelet_until;
use super::hypervisor::{cut, only, turned_off};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn power_cut_moves_the_volume_by_aws() -> Result<()> {
    let lab = Lab::start(Setup::new("aws-cut", 2)).await?;
    let region = lab.aws().await?;
    cut(&lab, &|machine| region.switched(machine)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn hung_kubelet_is_turned_off_by_aws() -> Result<()> {
    let lab = Lab::start(Setup::new("aws-hung", 2)).await?;
    let region = lab.aws().await?;
    turned_off(&lab, &|machine| region.switched(machine)).await
}

/// Mounts that only one process sees. `false`: the test is to end here.
fn mounts_to_test(test: &str) -> Result<bool> {
    let mut probe = Command::new("unshare");
    let probed = probe.args(["--mount", "true"]).output();
    let is_good = probed.is_ok_and(|it| it.status.success());
    let mounts = is_good.then_some(());
    let mounts = mounts.ok_or_else(|| "`unshare --mount` needs root".to_owned());
    or_skip(mounts, "mounts", test)
}

/// Debian's agents in the place where its package has them, which takes a mount that only the operator sees; none: the test is to end here.
fn agents_to_test(test: &str) -> Result<bool> {
    Ok(debian::available_to_test(test)? && mounts_to_test(test)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn power_cut_moves_the_volume_by_a_fence_agent() -> Result<()> {
    if !agents_to_test("power_cut_moves_the_volume_by_a_fence_agent")? {
        return Ok(());
    }
    let lab = Lab::start(Setup::new("agent-cut", 2)).await?;
    let bmcs = lab.fence_agent().await?;
    cut(&lab, &|machine| bmcs[machine].switched()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn hung_kubelet_is_turned_off_by_a_fence_agent() -> Result<()> {
    if !agents_to_test("hung_kubelet_is_turned_off_by_a_fence_agent")? {
        return Ok(());
    }
    let lab = Lab::start(Setup::new("agent-hung", 2)).await?;
    let bmcs = lab.fence_agent().await?;
    turned_off(&lab, &|machine| bmcs[machine].switched()).await
}

/// A lab on a host of libvirt; none: the test is to end here.
async fn on_libvirt(name: &str, test: &str) -> Result<Option<(Lab, Domains)>> {
    let programs = Programs::to_test(test).await?;
    let Some((programs, libvirt)) = programs.zip(Libvirt::to_test(test).await?) else {
        return Ok(None);
    };
    let lab = Lab::start(Setup::new(name, 2)).await?;
    let domains = lab.libvirt(programs, &libvirt).await?;
    Ok(Some((lab, domains)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn power_cut_moves_the_volume_by_libvirt() -> Result<()> {
    let test = "power_cut_moves_the_volume_by_libvirt";
    let Some((lab, domains)) = on_libvirt("libvirt-cut", test).await? else {
        return Ok(());
    };
    cut(&lab, &|machine| domains.switched(machine)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn hung_kubelet_is_turned_off_by_libvirt() -> Result<()> {
    let test = "hung_kubelet_is_turned_off_by_libvirt";
    let Some((lab, domains)) = on_libvirt("libvirt-hung", test).await? else {
        return Ok(());
    };
    turned_off(&lab, &|machine| domains.switched(machine)).await?;
    // Another client of the host reads the same.
    for rig in &lab.rigs {
        let state = domains.state(rig.machine.name()).await?;
        ensure!(state == "running (booted)", "{state}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn power_cut_moves_the_volume_by_kubevirt() -> Result<()> {
    let lab = Lab::start(Setup::new("kubevirt-cut", 2)).await?;
    let cluster = lab.kubevirt().await?;
    cut(&lab, &|machine| cluster.switched(machine)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn hung_kubelet_is_turned_off_by_kubevirt() -> Result<()> {
    let lab = Lab::start(Setup::new("kubevirt-hung", 2)).await?;
    let cluster = lab.kubevirt().await?;
    turned_off(&lab, &|machine| cluster.switched(machine)).await
}

/// Metal3 keeps a host off while the annotation is there, and turns it on once a human has taken that away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, which CI has no time for; `make peers` and `make test-all` run it"]
async fn hung_kubelet_is_turned_off_by_metal3() -> Result<()> {
    let lab = Lab::start(Setup::new("metal3-hung", 2)).await?;
    let cluster = lab.metal3().await?;
    let node =
        hung_kubelet_until(&lab, async |rig| cluster.release(rig.machine.name()).await).await?;
    only(
        &lab,
        &|machine| cluster.switched(machine),
        &node,
        &[false, true],
    )
}
