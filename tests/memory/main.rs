//! What one answer of a device costs in memory, however large it is and whatever is in it: a mebibyte at most (S19). What one of the API
//! server costs. And that a panic shows no password.
//!
//! Each answer is given to a process of its own, this binary once more, so that what is measured is the driver and not the device that
//! attacks it. That process first hears a good answer and a small one of the bad kind, which allocate what is kept; then the high-water
//! mark of the allocator is reset, and the large one comes. (The kernel's own mark, `VmHWM`, also moves by what other threads have not yet
//! accounted for.)

#![allow(
    dead_code,
    reason = "the devices are those of crates/drivers/tests/drivers, and serve other tests there"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "tests measure how long they wait"
)]

#[path = "../../crates/drivers/tests/drivers/agent.rs"]
mod agent;
mod api;
#[path = "../../crates/drivers/tests/drivers/bmc.rs"]
mod bmc;
mod clouds;
#[path = "../../crates/drivers/tests/drivers/device.rs"]
mod device;
mod flood;
mod panic;
mod redfish;
mod udp;

use peak_alloc::PeakAlloc;
use std::net::SocketAddr;
use std::process::Command;

/// Counts what is allocated.
#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// More than this much, in KiB, no answer may cost.
const GROWTH_KIB_MAX: u64 = 1024;
/// How often a driver asks: for a good answer, for a small bad one, and for the one that is measured.
const ASKED: usize = 3;

/// The driver in a process of its own: by how much that has grown at its peak, in KiB, and what it has made of the answer.
fn measured(driver: &str, at: SocketAddr) -> (u64, String) {
    let own = std::env::current_exe().expect("this binary");
    let output = Command::new(own)
        .args([
            "the_process_that_is_measured",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env("MEASURED_DRIVER", driver)
        .env("MEASURED_AT", at.to_string())
        .output()
        .expect("the process");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{words}");
    let line = text.lines().find_map(|line| line.split_once("measured: "));
    let (growth, verdict) = line
        .and_then(|(_, line)| line.split_once(' '))
        .expect("a measurement");
    (growth.parse().expect("a number"), verdict.to_owned())
}

#[test]
#[ignore = "the other tests run it, in a process of its own whose memory they measure"]
fn the_process_that_is_measured() {
    let variable = |name| std::env::var(name).expect("what is measured");
    let (driver, at) = (variable("MEASURED_DRIVER"), variable("MEASURED_AT"));
    let at: SocketAddr = at.parse().expect("an address");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let ask = async || match driver.as_str() {
            "redfish" => redfish::ask(at).await,
            "redfish-off" => redfish::turn_off(at).await,
            "ipmi" => udp::ask_ipmi(at).await,
            "ipmi-session" => flood::ask_ipmi(at).await,
            "pdu-session" => flood::ask_pdu(at).await,
            "pdu" => udp::ask_pdu(at).await,
            kind if kind.starts_with("api-") => api::request(kind, at).await,
            kind => clouds::ask(kind, at).await,
        };
        for _ in 1..ASKED {
            ask().await;
        }
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        let verdict = ask().await;
        let growth = ALLOCATED.peak_usage().saturating_sub(before);
        println!("measured: {} {verdict}", growth.div_ceil(1024));
    });
}

/// What was sent, what it cost, and what was made of it.
type Row = (String, u64, String);

/// One line for each answer, and those that cost too much.
fn judge(rows: Vec<Row>) {
    judge_within(GROWTH_KIB_MAX, &rows);
}

/// The same, with another bound.
fn judge_within(most: u64, rows: &[Row]) {
    for (what, growth, verdict) in rows {
        println!("{growth:>6} KiB  {what}: {verdict}");
    }
    let wrong: Vec<_> = rows
        .iter()
        .filter(|(_, growth, verdict)| *growth > most || verdict.starts_with("Off"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
