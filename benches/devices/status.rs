//! One status of one BMC, by our driver and by `ipmitool`, in turn.

use crate::ours;
use crate::theirs::Programs;
use anyhow::{Result, ensure};
use fencing_testbed::bench::emulators::{Emulated, Emulators};
use fencing_testbed::bench::table::{Table, spread};
use fencing_testbed::bmc::Credentials;
use serde_json::json;
use std::path::Path;
use std::time::Instant;
use tokio::process::Command;

/// The cipher suites.
const SUITES: [u32; 2] = [17, 3];

/// What one way of reading took, time after time.
#[derive(Default)]
struct Taken {
    milliseconds: Vec<f64>,
    datagrams: Vec<f64>,
}

/// All ways, as a table.
pub async fn measure(readings: usize) -> Result<String> {
    let programs = Programs::fetch().await?;
    let binary = Path::new(env!("CARGO_BIN_EXE_node-fencing-operator"));
    let mut emulators = Emulators::start(1, 0).await?;
    let bmc = emulators.fleet.ipmi[0].clone();
    let directory = tempfile::tempdir()?;
    let titles = [
        "our driver, in a process that runs",
        "`node-fencing-operator probe`, a process, suites and clock with it",
        "`ipmitool chassis power status`, a process",
    ];
    let mut table = Table::new(
        &format!("one status: session opened, read, closed ({readings} times each, in turn)"),
        titles.map(str::to_owned),
    );
    for suite in SUITES {
        let driver = ours::driver(&bmc, suite)?;
        let file = directory.path().join(format!("suite-{suite}.yaml"));
        std::fs::write(&file, objects(&bmc, suite))?;
        let mut taken = [Taken::default(), Taken::default(), Taken::default()];
        for _ in 0..readings {
            let [own, process, other] = &mut taken;
            timed(&mut emulators, own, ours::status(&driver)).await?;
            timed(&mut emulators, process, probe(binary, &file)).await?;
            timed(&mut emulators, other, programs.status(&bmc, suite)).await?;
        }
        let row = |unit: &str, digits, pick: fn(&Taken) -> &Vec<f64>| {
            taken
                .each_ref()
                .map(|one| spread(unit, digits, pick(one).iter().copied()))
        };
        table.words(
            &format!("suite {suite}"),
            row("ms", 2, |one| &one.milliseconds),
        );
        table.words(
            &format!("suite {suite}, datagrams to the BMC"),
            row("", 0, |one| &one.datagrams),
        );
    }
    Ok(table.to_string())
}

async fn timed(
    emulators: &mut Emulators,
    taken: &mut Taken,
    work: impl Future<Output = Result<()>>,
) -> Result<()> {
    let before = emulators.datagram_count().await?;
    let begun = Instant::now();
    work.await?;
    taken
        .milliseconds
        .push(begun.elapsed().as_secs_f64() * 1000.0);
    // The last datagram may still be on its way.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let datagrams = emulators.datagram_count().await? - before;
    taken.datagrams.push(datagrams as f64);
    Ok(())
}

async fn probe(binary: &Path, file: &Path) -> Result<()> {
    let mut command = Command::new(binary);
    command.arg("probe").arg(file);
    command.args(["--allow-device-cidr", "127.0.0.0/8"]);
    let output = command.output().await?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(())
}

/// The FenceDevice and its Secret: JSON is YAML.
fn objects(bmc: &Emulated, suite: u32) -> String {
    let login = Credentials::default();
    let device = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "bmc"},
        "spec": {
            "nodeName": "node-0",
            "ipmi": {"address": bmc.address.ip(), "port": bmc.address.port(), "cipherSuite": suite},
            "credentialsRef": {"name": "bmc"},
        },
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "stringData": {"username": login.username, "password": login.password},
    });
    format!("{device}\n---\n{secret}\n")
}
