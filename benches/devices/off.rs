//! A hundred BMCs are turned off and confirmed: by one process of ours, and by `fence_ipmilan`, eight at a time.

use crate::ours;
use crate::theirs::{Programs, Running};
use anyhow::{Context, Result, ensure};
use fencing_testbed::bench::emulators::{Emulated, Emulators};
use fencing_testbed::bench::mib;
use fencing_testbed::bench::table::{Table, spread};
use fencing_testbed::usage::Usage;
use futures::{StreamExt, TryStreamExt, stream};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::process::Stdio;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::task::JoinSet;

/// BMCs.
const BMCS: usize = 100;
/// `fence_ipmilan`s at the same time.
const PARALLEL: usize = 8;
/// Rounds of ours for one of theirs, which take ten times as long.
const OURS_FOR_THEIRS: usize = 5;

/// One round.
struct Round {
    /// From the start of the first process to the end of the last.
    took: Duration,
    cpu: Duration,
    peak_bytes: u64,
    /// Datagrams to a BMC.
    datagrams: f64,
}

/// What the one process says of itself at its end.
#[derive(Serialize, Deserialize)]
struct Report {
    cpu: Duration,
    peak_bytes: u64,
}

/// Both, as a table.
pub async fn measure(rounds: usize) -> Result<String> {
    let programs = Programs::fetch().await?;
    let mut emulators = Emulators::start(BMCS, 0).await?;
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        own.push(round(&mut emulators, one_process).await?);
        if number % OURS_FOR_THEIRS == 0 {
            let fences = async |bmcs: &[Emulated]| eight_at_a_time(&programs, bmcs).await;
            others.push(round(&mut emulators, fences).await?);
        }
        let last = |rounds: &[Round]| rounds.last().map(|round| round.took);
        eprintln!(
            "off, round {number}: {:?}, fence_ipmilan {:?}",
            last(&own),
            last(&others)
        );
    }
    Ok(table(&own, &others))
}

fn table(own: &[Round], others: &[Round]) -> String {
    let window = ours::plan().window;
    let seconds = window.as_secs();
    let titles = [
        format!("one process of ours, {} rounds", own.len()),
        format!(
            "`fence_ipmilan`, {PARALLEL} at a time, {} rounds",
            others.len()
        ),
    ];
    let mut table = Table::new(&format!("{BMCS} BMCs, IPMI suite 17"), titles);
    let mut row = |name: &str, unit: &str, digits: usize, value: fn(&Round) -> f64| {
        let cell = |rounds: &[Round]| spread(unit, digits, rounds.iter().map(value));
        table.words(name, [cell(own), cell(others)]);
    };
    row("off and confirmed, all of them", "s", 2, |round| {
        round.took.as_secs_f64()
    });
    row("CPU time", "s", 3, |round| round.cpu.as_secs_f64());
    row("peak memory", "MiB", 1, |round| mib(round.peak_bytes));
    row("datagrams to a BMC", "", 0, |round| round.datagrams);
    let beyond = |round: &Round| round.took.saturating_sub(window).as_secs_f64();
    let beyond = spread("s", 2, own.iter().map(beyond));
    table.words(
        &format!("beyond the proof's window of {seconds} s"),
        [beyond, "one reading, no window".to_owned()],
    );
    table.to_string()
}

/// Turns all of them on, has them turned off, and makes sure that they are.
async fn round(
    emulators: &mut Emulators,
    turn_off: impl AsyncFn(&[Emulated]) -> Result<(Duration, u64)>,
) -> Result<Round> {
    emulators.turn_on().await?;
    let before = emulators.datagram_count().await?;
    let begun = Instant::now();
    let (cpu, peak_bytes) = turn_off(&emulators.fleet.ipmi).await?;
    let took = begun.elapsed();
    let off = emulators.off_count().await?;
    ensure!(off == u64::try_from(BMCS)?, "only {off} machines are off");
    let datagrams = emulators.datagram_count().await? - before;
    Ok(Round {
        took,
        cpu,
        peak_bytes,
        datagrams: datagrams as f64 / BMCS as f64,
    })
}

async fn one_process(bmcs: &[Emulated]) -> Result<(Duration, u64)> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("turn-off")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take().context("its standard input")?;
    stdin.write_all(&serde_json::to_vec(bmcs)?).await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    ensure!(
        output.status.success(),
        "the one process: {}",
        output.status
    );
    let report: Report = serde_json::from_slice(&output.stdout)?;
    Ok((report.cpu, report.peak_bytes))
}

/// The one process itself.
pub async fn turn_off() -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let bmcs: Vec<Emulated> = serde_json::from_str(&text)?;
    let mut jobs = JoinSet::new();
    for bmc in bmcs {
        jobs.spawn(async move { ours::turn_off(&bmc).await });
    }
    while let Some(job) = jobs.join_next().await {
        job??;
    }
    // Finer than the ticks of /proc.
    let cpu = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    let cpu = Duration::new(u64::try_from(cpu.tv_sec)?, u32::try_from(cpu.tv_nsec)?);
    let Usage { peak_bytes, .. } = Usage::of("self")?;
    println!("{}", serde_json::to_string(&Report { cpu, peak_bytes })?);
    Ok(())
}

async fn eight_at_a_time(programs: &Programs, bmcs: &[Emulated]) -> Result<(Duration, u64)> {
    let before = Usage::of("self")?.children_cpu;
    let (running, peak_bytes) = (Running::default(), AtomicU64::new(0));
    let fences = stream::iter(bmcs).map(|bmc| programs.fence(bmc, &running));
    let all = fences.buffer_unordered(PARALLEL).try_collect::<Vec<()>>();
    tokio::select! {
        fenced = all => drop(fenced?),
        () = running.watch(&peak_bytes) => {}
    }
    let cpu = Usage::of("self")?.children_cpu - before;
    Ok((cpu, peak_bytes.into_inner()))
}
