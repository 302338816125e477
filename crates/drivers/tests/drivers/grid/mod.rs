//! Every driver against every fault that a device can have, from one table: `rows` has the faults with the verdict that holds for all
//! drivers, a file for each driver says how the fault comes about there, and `verdict` is the one judge of all cells.
//!
//! `cargo test --test drivers grid -- --nocapture` prints the grid. A number in it points at the reason why there is no such thing
//! for a driver, or at the test that shows it elsewhere.

mod cell;
mod cloud;
mod course;
mod fence_agent;
mod ipmi;
mod liar;
mod manual;
mod network_fence;
mod pdu;
mod redfish;
mod rows;
mod verdict;

use cell::Cell;
use rows::{Fault, ROWS};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use verdict::Verdict;

/// How a driver's device gets a fault.
type Provoke = fn(Fault) -> Cell;
/// The columns.
const DRIVERS: [(&str, Provoke); 20] = [
    ("redfish", redfish::provoke),
    ("ipmi", ipmi::provoke),
    ("pdu", pdu::provoke),
    ("httpOutlet", cloud::http_outlet),
    ("fenceAgent", fence_agent::provoke),
    ("manual", manual::provoke),
    ("openstack", cloud::openstack),
    ("vsphere", cloud::vsphere),
    ("proxmox", cloud::proxmox),
    ("libvirt", cloud::libvirt),
    ("hetznerCloud", cloud::hetzner_cloud),
    ("aws", cloud::aws),
    ("azure", cloud::azure),
    ("gcp", cloud::gcp),
    ("kubevirt", cloud::kubevirt),
    ("bareMetalHost", cloud::bare_metal_host),
    ("nutanix", cloud::nutanix),
    ("xapi", cloud::xapi),
    ("webhook", cloud::webhook),
    ("networkFence", network_fence::provoke),
];

/// A cell of the grid.
#[derive(Clone)]
enum Square {
    /// What was seen.
    Shown(String),
    /// What was seen instead of the verdict.
    Differs(String),
    /// Points at a note.
    Noted(String),
}

/// The notes below the grid, each once.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn sign(&mut self, note: &str) -> String {
        let known = self.0.iter().position(|other| other == note);
        let index = known.unwrap_or_else(|| {
            self.0.push(note.to_owned());
            self.0.len() - 1
        });
        format!("[{}]", index + 1)
    }
}

/// Is this test there, or this file where no test is named?
fn exists(file: &str, test: &str) -> bool {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(file),
    );
    text.is_ok_and(|text| test.is_empty() || text.contains(&format!("fn {test}(")))
}

/// Tries the cell, and says what is wrong if anything is.
async fn tried(cell: Cell, verdict: Verdict) -> Square {
    match cell {
        Cell::Runs(bench) => match verdict.shown(&bench.await).await {
            Ok(seen) => Square::Shown(seen),
            Err(seen) => Square::Differs(seen),
        },
        Cell::Never(why) => Square::Noted(why.to_owned()),
        Cell::Elsewhere(file, test) if exists(file, test) => {
            Square::Noted(format!("{file} {test}").trim_end().to_owned())
        }
        Cell::Elsewhere(file, test) => Square::Differs(format!("there is no {test} in {file}")),
    }
}

/// Cells that are tried at the same time: they do little but wait. All at once would be a load under which no device is asked in time.
const AT_ONCE: usize = 96;

async fn grid() -> Vec<Vec<Square>> {
    let width = DRIVERS.len();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut trials = JoinSet::new();
    for (row, (fault, _, verdict)) in ROWS.into_iter().enumerate() {
        for (column, (_, provoke)) in DRIVERS.into_iter().enumerate() {
            let room = Arc::clone(&room);
            trials.spawn(async move {
                let _place = room.acquire_owned().await;
                // A panic is the cell's alone.
                let trial = tokio::spawn(async move { tried(provoke(fault), verdict).await });
                let square = trial.await;
                let square = square.unwrap_or_else(|error| Square::Differs(error.to_string()));
                (row * width + column, square)
            });
        }
    }
    let mut squares = trials.join_all().await;
    squares.sort_by_key(|(place, _)| *place);
    let squares: Vec<Square> = squares.into_iter().map(|(_, square)| square).collect();
    squares.chunks(width).map(<[Square]>::to_vec).collect()
}

/// The grid as a table, and its notes.
fn printed(grid: &[Vec<Square>]) -> String {
    let mut notes = Notes::default();
    let mut text = String::new();
    let mut line = |cells: &[String]| {
        let (first, rest) = cells.split_first().expect("a row has a name");
        let rest: Vec<String> = rest.iter().map(|cell| format!("{cell:<20}")).collect();
        writeln!(text, "| {first:<34} | {} |", rest.join(" | ")).expect("a string grows");
    };
    let names = DRIVERS.iter().map(|(name, _)| (*name).to_owned());
    line(&[vec!["fault".to_owned()], names.collect()].concat());
    for ((_, words, _), squares) in ROWS.iter().zip(grid) {
        let cell = |square: &Square| match square {
            Square::Shown(seen) => seen.clone(),
            Square::Differs(_) => "DIFFERS".to_owned(),
            Square::Noted(note) => notes.sign(note),
        };
        line(
            &[
                vec![(*words).to_owned()],
                squares.iter().map(cell).collect(),
            ]
            .concat(),
        );
    }
    for (index, note) in notes.0.iter().enumerate() {
        writeln!(text, "[{}] {note}", index + 1).expect("a string grows");
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn every_driver_gives_every_fault_its_verdict() {
    let grid = grid().await;
    println!("{}", printed(&grid));
    let mut wrong = String::new();
    for ((_, words, verdict), squares) in ROWS.iter().zip(&grid) {
        for ((driver, _), square) in DRIVERS.iter().zip(squares) {
            if let Square::Differs(seen) = square {
                writeln!(wrong, "{driver}, {words}: not {verdict:?}: {seen}").expect("it grows");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_fault_is_a_row() {
    for (index, (fault, words, _)) in ROWS.iter().enumerate() {
        assert_eq!(*fault as usize, index, "{words}");
    }
    assert_eq!(Fault::AllDark as usize + 1, ROWS.len());
}
