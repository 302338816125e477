//! The fuzz targets of `fuzz/` without libFuzzer: each has to take its corpus, and then for `FUZZ_SECONDS` (10) what comes out when that
//! is changed here and there. The changes follow from `FUZZ_SEED` (1), so that what fails once fails again.

#![allow(
    clippy::disallowed_methods,
    reason = "it measures how long a target has run"
)]

mod mutate;
#[path = "../../../../fuzz/src/lib.rs"]
mod targets;

use mutate::Mutator;
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 10] = [
    ("address", targets::address::run),
    ("datagrams", targets::datagrams::run),
    ("libvirt", targets::libvirt::run),
    ("payloads", targets::payloads::run),
    ("policy", targets::policy::run),
    ("redfish", targets::redfish::run),
    ("retry_after", targets::retry_after::run),
    ("secret", targets::secret::run),
    ("session", targets::session::run),
    ("snmp", targets::snmp::run),
];
/// Nothing takes that long for one input, on whatever machine.
const HANGS_AFTER: Duration = Duration::from_secs(120);

fn number(name: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(name) else {
        return otherwise;
    };
    let number = text.parse();
    number.unwrap_or_else(|_| panic!("{name}={text}: a whole number is needed"))
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Names and contents of a target's corpus.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = fs::read_dir(fuzz().join("corpus").join(target)).expect("a corpus");
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("a name");
        (name, fs::read(entry.path()).expect("a file"))
    };
    let mut files: Vec<_> = directory
        .map(|entry| read(entry.expect("an entry")))
        .collect();
    files.sort();
    files
}

/// As many targets at once as the machine has cores: each is to have its seconds.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Places {
    fn with<T>(&self, run: impl FnOnce() -> T) -> T {
        let free = self.free.lock().expect("nobody panics with it");
        let mut free = self
            .freed
            .wait_while(free, |free| *free == 0)
            .expect("the same");
        *free -= 1;
        drop(free);
        let done = run();
        *self.free.lock().expect("the same") += 1;
        self.freed.notify_one();
        done
    }
}

/// Gives a target one input; the error says where that was kept.
fn give((name, run): Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| run(input))).map_err(|_| keep(name, "crash", input))
}

/// Keeps an input that a target does not take.
fn keep(target: &str, what: &str, input: &[u8]) -> String {
    let directory = fuzz().join("artifacts").join(target);
    fs::create_dir_all(&directory).expect("a directory");
    let path = directory.join(what);
    fs::write(&path, input).expect("a file");
    format!(
        "{target}: see above; what it was given is in {}; keep it in fuzz/corpus/{target} under a name that says what it is",
        path.display()
    )
}

/// Runs a target; `now` holds what it is given. How often it was run, or what it does not take.
fn try_out(target: Target, seconds: u64, now: &Mutex<Vec<u8>>) -> Result<u64, String> {
    let files = corpus(target.0);
    for (name, input) in &files {
        now.lock().expect("nobody panics with it").clone_from(input);
        give(target, input).map_err(|error| format!("{error} (it is {name} already)"))?;
    }
    let seeds: Vec<Vec<u8>> = files.into_iter().map(|(_, input)| input).collect();
    let mut mutator = Mutator::new(number("FUZZ_SEED", 1), &seeds);
    let begun = Instant::now();
    let mut runs = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..64 {
            let input = mutator.next_input();
            now.lock().expect("the same").clone_from(&input);
            give(target, &input)?;
            runs += 1;
        }
    }
    Ok(runs)
}

#[test]
fn every_target_takes_its_corpus_and_whatever_comes_out_when_that_is_changed() {
    let seconds = number("FUZZ_SECONDS", 10);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let places = Arc::new(Places {
        free: Mutex::new(cores),
        freed: Condvar::new(),
    });
    let (sender, receiver) = mpsc::channel();
    let mut running = Vec::new();
    for target in TARGETS {
        let now = Arc::new(Mutex::new(Vec::new()));
        running.push((target.0, Arc::clone(&now)));
        let (sender, places) = (sender.clone(), Arc::clone(&places));
        std::thread::spawn(move || {
            let outcome = places.with(|| try_out(target, seconds, &now));
            let _ = sender.send((target.0, outcome));
        });
    }
    let mut wrong = Vec::new();
    while !running.is_empty() {
        let patience = Duration::from_secs(seconds) + HANGS_AFTER;
        let Ok((name, outcome)) = receiver.recv_timeout(patience) else {
            let held = |(name, now): &(&str, Arc<Mutex<Vec<u8>>>)| {
                keep(name, "hang", &now.lock().expect("the same"))
            };
            panic!(
                "one of these hangs: {:#?}",
                running.iter().map(held).collect::<Vec<_>>()
            );
        };
        running.retain(|(other, _)| *other != name);
        match outcome {
            Ok(runs) => {
                println!("fuzz: {name:<12} {runs:>9} inputs in {seconds} s, and its corpus")
            }
            Err(error) => wrong.push(error),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A target that is not in the list, or has nothing to begin with, would be run by nobody.
#[test]
fn each_target_is_run_and_has_a_corpus_that_is_small() {
    let names = |directory: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(fuzz().join(directory)).expect("a directory");
        let name = |path: PathBuf| {
            path.file_stem()
                .and_then(|name| name.to_str())
                .map(str::to_owned)
        };
        entries
            .filter_map(|entry| name(entry.expect("an entry").path()))
            .collect()
    };
    let listed: BTreeSet<String> = TARGETS.map(|(name, _)| name.to_owned()).into();
    assert_eq!(names("targets"), listed);
    assert_eq!(names("corpus"), listed);
    let sizes = TARGETS.map(|(name, _)| {
        let files = corpus(name);
        assert!(files.len() >= 5, "{name}");
        files.iter().map(|(_, input)| input.len()).sum::<usize>()
    });
    assert!(sizes.iter().sum::<usize>() < 200_000, "{sizes:?}");
}
