//! ipmitool, which none of us wrote either, reads and switches a machine through each of them; what is particular to one
//! is shown, because the operator's driver has to get along with it.

use std::{process::Output, time::Instant};

use super::*;
use crate::{
    bmc::Plug,
    debian::{self, Packages},
};

const UUID: &str = "9b3c7c1e-5f0a-4f05-8a0d-2f6d5c0b7a11";

struct Bench {
    peer: IpmiPeer,
    plug: Arc<Plug>,
    ipmitool: Packages,
    guard: Arc<Guard>,
    _logs: TempDir,
}

async fn bench(brand: Brand, address: [u8; 4]) -> Result<Bench> {
    let plug = Arc::new(Plug::new("node-1", UUID));
    let (guard, logs) = (Guard::start()?, tempfile::tempdir()?);
    let user = Credentials::default();
    let (address, power) = (address.into(), plug.clone());
    let peer = IpmiPeer::start(brand, address, power, user, &guard, logs.path()).await?;
    let unpack = || Packages::unpack("ipmitool", &["ipmitool"]);
    let ipmitool = tokio::task::spawn_blocking(unpack).await??;
    Ok(Bench {
        peer,
        plug,
        ipmitool,
        guard,
        _logs: logs,
    })
}

impl Bench {
    async fn ask(&self, suite: &str, password: &str, asked: &[&str]) -> Result<Output> {
        let (ip, port) = (self.peer.address().ip(), self.peer.address().port());
        let mut command: tokio::process::Command = self.ipmitool.command("ipmitool").into();
        // On loopback nothing is lost: it is not to ask again because somebody is slow.
        command
            .args(["-I", "lanplus", "-C", suite, "-N", "20", "-R", "2"])
            .args([
                "-L",
                "OPERATOR",
                "-H",
                &ip.to_string(),
                "-p",
                &port.to_string(),
            ])
            .args(["-U", "fence", "-P", password])
            .args(asked);
        Ok(command.output().await?)
    }

    /// What ipmitool says on suite 3, with the right password.
    async fn says(&self, asked: &[&str], wanted: &str) -> Result<()> {
        let output = self.ask("3", "s3cret-Bmc", asked).await?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success() && said.contains(wanted),
            "{asked:?}: {output:?}; the end of its log:\n{}",
            self.peer.process().tail(15)
        );
        Ok(())
    }

    async fn fails(&self, suite: &str, password: &str, wanted: &str) -> Result<()> {
        let output = self.ask(suite, password, &["-v", "power", "off"]).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(1) && said.contains(wanted),
            "{output:?}"
        );
        ensure!(self.plug.is_on());
        Ok(())
    }

    async fn reads_and_switches(&self) -> Result<()> {
        self.says(&["power", "status"], "Chassis Power is on")
            .await?;
        self.says(&["power", "off"], "Chassis Power Control: Down/Off")
            .await?;
        ensure!(!self.plug.is_on(), "it must be off when it says so");
        self.says(&["power", "status"], "Chassis Power is off")
            .await?;
        self.plug.set_power(true);
        self.says(&["power", "status"], "Chassis Power is on")
            .await?;
        self.plug.set_power(false);
        self.says(&["power", "on"], "Chassis Power Control: Up/On")
            .await?;
        ensure!(self.plug.is_on());
        self.says(&["mc", "guid"], &format!("System GUID   : {UUID}"))
            .await?;
        let switched = self.peer.switched().into_iter().map(|(_, on)| on);
        assert_eq!(switched.collect::<Vec<_>>(), [false, true]);
        Ok(())
    }

    async fn ends_with_its_guard(&self) -> Result<()> {
        self.guard.end();
        let end = Instant::now() + Duration::from_secs(5);
        while self.peer.process().ended().is_none() {
            ensure!(Instant::now() < end, "it must end with the guard");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ipmi_sim_switches_a_machine_of_the_lab() -> Result<()> {
    if !debian::available_to_test("ipmi_sim_switches_a_machine_of_the_lab")? {
        return Ok(());
    }
    let bench = bench(Brand::IpmiSim, [127, 81, 1, 1]).await?;
    bench.reads_and_switches().await?;
    bench.fails("3", "wrong", "RAKP 2 HMAC is invalid").await?;
    bench
        .fails("17", "s3cret-Bmc", "invalid authentication algorithm")
        .await?;
    let zero = bench.ask("0", "wrong", &["power", "status"]).await?;
    ensure!(zero.status.success(), "it accepts suite 0: {zero:?}");
    bench.ends_with_its_guard().await
}

#[tokio::test(flavor = "multi_thread")]
async fn pyghmi_switches_a_machine_of_the_lab() -> Result<()> {
    if !debian::available_to_test("pyghmi_switches_a_machine_of_the_lab")? {
        return Ok(());
    }
    let bench = bench(Brand::Pyghmi, [127, 81, 1, 2]).await?;
    bench.reads_and_switches().await?;
    bench.fails("3", "wrong", "RAKP 2 HMAC is invalid").await?;
    bench.ends_with_its_guard().await
}
