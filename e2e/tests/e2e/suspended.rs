//! R8: a machine that is suspended reads Off, keeps its containers, and goes on in the same boot. Fencing cannot tell it from one that is off: when it
//! resumes after the release, two machines write, and these tests say so. What they are about is what the operator does then: people are called,
//! no pod gets to the node until it has booted, and the operator itself never resumes it. Under the taint no volume has moved yet. And a BMC
//! that tells a machine that sleeps from one that is off is believed.

use anyhow::{Context, Result, ensure};
use e2e::csi::{Fault, Faults};
use e2e::judge::rules::{ATTACHED, ONE_WRITER, Rule, SILENT};
use e2e::lab::{Kind, LIMIT, Lab, Setup, condition, escalation, has_taint, stage};
use e2e::proxy::writes::{OUT_OF_SERVICE, QUARANTINE};
use e2e::volume::oracle::DataLoss;
use e2e::workload::wait_node_ready;
use fencing_testbed::eventually::eventually;
use fencing_testbed::ipmi::IpmiBmc;
use fencing_testbed::sushy::Libvirt;
use kube::api::DynamicObject;
use serde_json::json;

use crate::ipmi;
use crate::outage::{Outage, POD};
use crate::rack_power::impatient;
use crate::turned_on::{after, resets};

/// One line each 20 ms: a second of a container that writes alone.
const ALONE: usize = 50;

impl Outage {
    /// The suspended machine is taken for one that is off, and its volume moves. Nothing is lost yet, and it is not turned on.
    async fn is_fenced_while_suspended(&self) -> Result<DynamicObject> {
        let Self { lab, node, .. } = self;
        self.rig()?.machine.suspend();
        let fence = lab.wait_stage(node, "Recovered").await?;
        let workloads = &lab.workloads;
        workloads.wait_running_elsewhere(POD, node, LIMIT).await?;
        ensure!(has_taint(&lab.node(node).await?, QUARANTINE));
        ensure!(!self.rig()?.machine.is_on(), "the operator resumed it");
        lab.silent_after_proof(&fence).await?;
        lab.volumes_are_whole().await?;
        Ok(fence)
    }

    /// The machine goes on in its boot, with its container: the risk that remains. All that is wrong is what this boot writes, and that ends when its
    /// kubelet hears of the deletion.
    async fn is_lost_by_its_boot_alone(&self, boot: &str) -> Result<()> {
        let Self { lab, volume, .. } = self;
        ensure!(self.rig()?.machine.boot_id() == boot, "it has booted");
        let by_it = |losses: &DataLoss| match losses {
            DataLoss::Writes(losses) => {
                let mut wrong = losses.iter().flat_map(|loss| &loss.wrong);
                wrong.all(|(write, _)| write.boot == boot)
            }
            DataLoss::Unreadable(_) => false,
        };
        eventually("the resumed container writes, too", LIMIT, async || {
            let found = lab.volumes_are_whole().await.err();
            let lost = found.as_ref().and_then(|it| it.downcast_ref::<DataLoss>());
            ensure!(lost.is_some_and(by_it), "found: {found:?}");
            Ok(())
        })
        .await?;
        eventually("the resumed container is ended", LIMIT, async || {
            let writes = lab.volumes.writes(volume)?;
            let last = writes.iter().rposition(|write| write.boot == boot);
            let since = writes.len() - last.context("it wrote")?;
            ensure!(since > ALONE, "{since} lines since");
            Ok(())
        })
        .await
    }

    /// Of the records of the whole run nothing speaks against the operator, but for what the resumed boot wrote: these rules.
    async fn only_breaks(&self, rules: &[&Rule]) -> Result<()> {
        let found = self.lab.judged().await?.violations;
        let is_known = |rule: &Rule| rules.iter().any(|known| known.name == rule.name);
        ensure!(
            !found.is_empty() && found.iter().all(|it| is_known(it.rule)),
            "{found:#?}"
        );
        self.operator.check()
    }
}

/// The machine resumes after the release: by somebody's hand, and not by the operator's, which would have turned on what it had turned off.
async fn resumes_after_the_release(name: &str, kind: Kind, mode: &str) -> Result<()> {
    let Some(lab) = Lab::start_if_available(Setup::new(name, 2).on(kind)).await? else {
        return Ok(());
    };
    let (policy, commands): (_, &[_]) = match mode {
        "PowerOff" => (after(1), &["ForceOff"]),
        _ => (json!({}), &[]),
    };
    let outage = Outage::of(lab, mode, policy).await?;
    let rig = outage.rig()?;
    let boot = rig.machine.boot_id();
    outage.is_fenced_while_suspended().await?;
    ensure!(resets(&rig.bmc) == commands, "{:?}", resets(&rig.bmc));

    rig.machine.set_power(true);
    outage.is_lost_by_its_boot_alone(&boot).await?;
    outage.calls_people_until_it_boots().await?;
    outage.only_breaks(&[&ATTACHED, &ONE_WRITER, &SILENT]).await
}

/// The machine resumes while the volume is still with it: there it stays for as long as the machine lives. In mode PowerOff that is not long.
async fn resumes_under_the_taint(name: &str, kind: Kind, mode: &str) -> Result<()> {
    let Some(outage) = Outage::set(name, kind, mode).await? else {
        return Ok(());
    };
    let Outage { lab, node, .. } = &outage;
    let detach = Fault::failure("the array is on fire");
    let faults = Faults {
        detach,
        ..Faults::default()
    };
    lab.control_plane.array().set_faults(&faults).await?;
    let rig = outage.rig()?;
    let boot = rig.machine.boot_id();
    rig.machine.suspend();
    lab.wait_stage(node, "Detaching").await?;

    rig.machine.set_power(true);
    ensure!(rig.machine.boot_id() == boot, "it has booted");
    match mode {
        "PowerOff" => turned_off_again(&outage).await?,
        _ => contradicted(&outage).await?,
    }
    ensure!(has_taint(&lab.node(node).await?, OUT_OF_SERVICE));
    // A boot is the way out, and then everything goes on.
    rig.machine.set_power(false);
    lab.control_plane.array().clear_faults().await?;
    let workloads = &lab.workloads;
    workloads.wait_running_elsewhere(POD, node, LIMIT).await?;
    lab.wait_stage(node, "Recovered").await?;
    outage.restore().await?;
    outage.wait_no_taint(QUARANTINE).await?;
    lab.volumes_are_whole().await?;
    outage.only_breaks(&[&SILENT]).await
}

async fn contradicted(outage: &Outage) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    wait_node_ready(lab.control_plane.admin(), node, "True", LIMIT).await?;
    let is_called = |fence: &DynamicObject| matches!(escalation(fence), Some(("FenceContradiction", words)) if words.contains("its machine never went down"));
    lab.wait_fence(node, is_called).await?;
    let is_refuted = |fence: &DynamicObject| {
        condition(fence, "NodeConfirmedDown").is_some_and(|it| it["status"] == "False")
    };
    lab.wait_fence(node, is_refuted).await?;
    ensure!(resets(&outage.rig()?.bmc).is_empty());
    Ok(())
}

/// It has power now, so this off is none that does nothing.
async fn turned_off_again(outage: &Outage) -> Result<()> {
    let rig = outage.rig()?;
    eventually("it is turned off again", LIMIT, async || {
        ensure!(!rig.machine.is_on());
        Ok(())
    })
    .await?;
    let commands = resets(&rig.bmc);
    let (first, again) = commands.split_first().context("it was turned off")?;
    ensure!(first == "ForceOff" && !again.is_empty(), "{commands:?}");
    ensure!(again.iter().all(|it| it == "ForceOff"), "{commands:?}");
    Ok(())
}

/// A test for each kind of node and each mode that may fence.
macro_rules! resumes {
    ($($name:ident: $story:ident($lab:literal, $kind:ident, $mode:literal);)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() -> Result<()> {
            $story($lab, Kind::$kind, $mode).await
        }
    )*};
}

resumes! {
    simulated_node_resumes_after_the_release_in_confirm_only: resumes_after_the_release("resumes-confirm", Simulated, "ConfirmOnly");
    simulated_node_resumes_after_the_release_in_power_off: resumes_after_the_release("resumes-off", Simulated, "PowerOff");
    simulated_node_resumes_under_the_taint_in_confirm_only: resumes_under_the_taint("tainted-confirm", Simulated, "ConfirmOnly");
    simulated_node_resumes_under_the_taint_in_power_off: resumes_under_the_taint("tainted-off", Simulated, "PowerOff");
    real_node_resumes_after_the_release_in_confirm_only: resumes_after_the_release("real-resumes-confirm", Real, "ConfirmOnly");
    real_node_resumes_after_the_release_in_power_off: resumes_after_the_release("real-resumes-off", Real, "PowerOff");
    real_node_resumes_under_the_taint_in_confirm_only: resumes_under_the_taint("real-tainted-confirm", Real, "ConfirmOnly");
    real_node_resumes_under_the_taint_in_power_off: resumes_under_the_taint("real-tainted-off", Real, "PowerOff");
}

/// The one kind of BMC that can tell: it says S3 beside its Off, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_whose_bmc_says_that_it_sleeps_is_not_tainted() -> Result<()> {
    const AWAKE: u8 = 0x00;
    const S3: u8 = 0x03;
    let says = |bmc: &IpmiBmc, state| bmc.faults(|faults| faults.acpi_state = Some(state));
    let by = Outage::by("asleep", "ConfirmOnly", impatient(), async |lab| {
        let bmcs = ipmi::own(lab).await?;
        bmcs.iter().for_each(|bmc| says(bmc, AWAKE));
        Ok(bmcs)
    });
    let (outage, bmcs) = by.await?;
    let Outage { lab, node, .. } = &outage;
    let (machine, bmc) = (&outage.rig()?.machine, ipmi::of(lab, &bmcs, node)?);
    let boot = machine.boot_id();
    says(bmc, S3);
    machine.suspend();
    let fence = lab
        .wait_fence(node, |fence| stage(fence) == "Verifying")
        .await?;
    let told = lab.wait_told(&fence, "DeviceFailed").await?;
    ensure!(
        told.contains("but the device reports sleeping (ACPI S3)"),
        "{told}"
    );
    says(bmc, AWAKE);
    machine.set_power(true);
    lab.wait_stage(node, "SelfRecovered").await?;
    ensure!(lab.times_tainted(node).await? == 0, "it was tainted");
    ensure!(machine.boot_id() == boot, "it has booted");
    outage.verdict().await
}

/// sushy-tools over libvirt, on a domain that its hypervisor has saved: it reads Off, an off is accepted and does nothing, and an on restores its memory.
/// So the off has not turned it off, and the operator, which is to turn on again what it has turned off, does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saved_domain_is_not_restored_by_the_operator() -> Result<()> {
    let test = "a_saved_domain_is_not_restored_by_the_operator";
    let Some(libvirt) = Libvirt::to_test(test).await? else {
        return Ok(());
    };
    let lab = Lab::start(Setup::new("saved-domain", 2)).await?;
    let emulators = [
        lab.saved_domain(1, &libvirt).await?,
        lab.saved_domain(2, &libvirt).await?,
    ];
    let outage = Outage::of(lab, "PowerOff", after(1)).await?;
    let mut pairs = outage.lab.rigs.iter().zip(&emulators);
    let pair = pairs.find(|(rig, _)| rig.machine.name() == outage.node);
    let (rig, emulator) = pair.context("an emulator for each machine")?;
    let boot = rig.machine.boot_id();
    let fence = outage.is_fenced_while_suspended().await?;
    let attempts = &fence.data["status"]["attempts"];
    let told = |part: &str| attempts[0][part].as_str().unwrap_or_default().to_owned();
    ensure!(
        (told("action"), told("result")) == ("PowerOff".to_owned(), "Succeeded".to_owned()),
        "{attempts}"
    );
    ensure!(attempts[1].is_null(), "{attempts}");
    let says = condition(&fence, "Succeeded").cloned().unwrap_or_default();
    let words = "no off command of this NodeFence turned it off";
    ensure!(
        says["message"]
            .as_str()
            .is_some_and(|it| it.contains(words)),
        "{says}"
    );
    ensure!(emulator.switched().is_empty(), "{:?}", emulator.switched());

    // What the operator did not do: an on.
    emulator.turn_on().await?;
    ensure!(rig.machine.is_on());
    outage.is_lost_by_its_boot_alone(&boot).await?;
    outage.only_breaks(&[&ATTACHED, &ONE_WRITER, &SILENT]).await
}
