//! The copy that is mutated, what is built of it, and how its tests are run.
//!
//! The copy has no program: nothing that is mutated may ever be run as an operator.

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What the tests need of the sources.
const PARTS: [&str; 15] = [
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    "src",
    "tests",
    "benches",
    "deploy",
    // The tests of two drivers play what their pages show.
    "docs/how-to",
    // With the scripts of the peers that the drivers are tested with.
    "crates",
    "e2e",
    "simapi",
    "crds",
    "fuzz/src",
    "fuzz/corpus",
    "fuzz/targets",
];
/// What would be a program.
const PROGRAMS: [&str; 2] = ["src/main.rs", "src/bin"];
/// Most of them wait for a device's time to be over, as in the Makefile's UNIT_THREADS.
const THREADS: &str = "--test-threads=16";

/// Folders and files that have too much in them for their name to tell which tests are the likeliest.
const ROOMS: [&str; 6] = ["src", "shell", "cloud", "lib", "mod", "plan"];

/// Of a test's thread.
const STACK_BYTES: &str = "16777216";

/// How libtest says that a test takes long.
const LONG: &str = " has been running for over 60 seconds";

/// Tests of one binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suite {
    package: &'static str,
    /// An integration test; empty: the tests beside the code.
    test: &'static str,
    /// What the names of its tests begin with.
    filter: &'static str,
}

const fn suite(package: &'static str, test: &'static str, filter: &'static str) -> Suite {
    Suite {
        package,
        test,
        filter,
    }
}

impl Suite {
    /// How its tests begin that are named after this file of a room, or after the folder that it is in.
    fn near(&self, file: &Path) -> Vec<String> {
        let is_whole = self.filter.is_empty() || self.filter.ends_with("::");
        let names = [file.file_stem(), file.parent().and_then(Path::file_name)];
        let names = names.into_iter().flatten().filter_map(|name| name.to_str());
        let names = names.filter(|name| is_whole && !ROOMS.contains(name));
        names.map(|name| format!("{}{name}", self.filter)).collect()
    }
}

const OPERATOR: &str = "node-fencing-operator";
const SHELL: Suite = suite(OPERATOR, "", "shell::");

/// The tests that could catch a mutant, the likeliest first, by the name that the mutant's place begins with.
const TESTS: [(&str, &[Suite]); 6] = [
    (
        "core",
        &[
            // A twentieth of a second, and they catch most.
            suite("fencing-core", "golden", "every_story"),
            suite("fencing-core", "", ""),
            suite("fencing-core", "golden", ""),
            // What watches and detects by a function of the core tests it, too.
            SHELL,
        ],
    ),
    (
        "drivers",
        &[
            suite("fencing-drivers", "", ""),
            suite("fencing-drivers", "drivers", ""),
            suite("fencing-drivers", "fuzz", ""),
            // What compares devices tests how they are named.
            SHELL,
        ],
    ),
    ("cluster", &[suite("fencing-cluster", "", ""), SHELL]),
    ("shell", &[SHELL]),
    ("api", &[SHELL]),
    ("simulation", &[suite(OPERATOR, "sim", "three_hundred")]),
];

/// The tests for a part of the sources.
pub fn suites(part: &str) -> &'static [Suite] {
    let found = TESTS.iter().find(|(name, _)| *name == part);
    found.unwrap_or_else(|| panic!("no tests for {part}")).1
}

/// A suite that was built.
pub struct Binary {
    pub suite: Suite,
    pub program: PathBuf,
    /// The folder of its package.
    folder: PathBuf,
}

/// An error of the compiler.
pub struct Problem {
    pub words: String,
    /// Files of the copy, and bytes of them.
    pub places: Vec<(PathBuf, usize)>,
}

/// How the tests went.
#[derive(Debug)]
pub enum Outcome {
    Passed,
    /// The name of the first test that failed.
    Failed(String),
    /// With the name of the first that goes on for longer than a minute.
    Hangs(String),
}

/// The copy.
pub struct Workspace {
    /// The sources as they were when it began, by their paths: they may be worked on meanwhile.
    sources: BTreeMap<PathBuf, Vec<u8>>,
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Of these sources, below their `target/mutants`.
    pub fn copy_of(source: &Path) -> Self {
        let mut files = BTreeSet::new();
        for part in PARTS {
            list(&source.join(part), &mut files);
        }
        let mut sources = BTreeMap::new();
        for file in files {
            let path = file.strip_prefix(source).expect("below the root");
            if !PROGRAMS.iter().any(|it| path.starts_with(it)) {
                sources.insert(path.to_owned(), fs::read(&file).expect("a readable file"));
            }
        }
        // A mutant that leaves something without use or words is one all the same.
        let manifest = sources.get_mut(Path::new("Cargo.toml"));
        let manifest = manifest.expect("the workspace's");
        let text = String::from_utf8_lossy(manifest);
        *manifest = text.replace("= \"deny\"", "= \"allow\"").into_bytes();
        let here = source.join("target/mutants");
        Self {
            sources,
            root: here.join("workspace"),
            target: here.join("target"),
        }
    }

    /// Writes the copy with these changes. What is there already is left alone: it is built.
    fn write(&self, changed: &BTreeMap<PathBuf, String>) {
        let mut stale = BTreeSet::new();
        list(&self.root, &mut stale);
        for (path, text) in &self.sources {
            let text = changed.get(path).map_or(text.as_slice(), String::as_bytes);
            let copy = self.root.join(path);
            if fs::read(&copy).ok().as_deref() != Some(text) {
                fs::create_dir_all(copy.parent().expect("a parent")).expect("a directory");
                fs::write(&copy, text).expect("a file is written");
            }
            stale.remove(&copy);
        }
        for file in stale {
            fs::remove_file(file).expect("a file is removed");
        }
    }

    /// Builds the tests of the sources with these changes, or says why they do not build.
    pub fn build(
        &self,
        changed: &BTreeMap<PathBuf, String>,
        suites: &[Suite],
    ) -> Result<BTreeMap<Suite, Binary>, Vec<Problem>> {
        self.write(changed);
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["test", "--locked", "--no-run", "--quiet"])
            .arg("--message-format=json")
            // Its tests compute, while those of the others wait.
            .arg("--config=profile.dev.package.fencing-core.opt-level=1");
        let mut targets = BTreeSet::new();
        for suite in suites {
            targets.insert(format!("--package={}", suite.package));
            targets.insert(match suite.test {
                "" => "--lib".to_owned(),
                test => format!("--test={test}"),
            });
        }
        let output = cargo
            .args(targets)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "none")
            .output()
            .expect("cargo runs");
        let messages: Vec<Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        if output.status.success() {
            let binary = |suite: &Suite| {
                let mut found = messages.iter().filter_map(|it| built(*suite, it));
                let binary = found.next().expect("cargo names what it has built");
                (*suite, binary)
            };
            return Ok(suites.iter().map(binary).collect());
        }
        let mut problems: Vec<Problem> = messages.iter().filter_map(problem).collect();
        if problems.is_empty() {
            problems.push(Problem {
                words: String::from_utf8_lossy(&output.stderr).into_owned(),
                places: Vec::new(),
            });
        }
        Err(problems)
    }
}

/// The binary of the suite, if this message of cargo is about it.
fn built(suite: Suite, message: &Value) -> Option<Binary> {
    let name = match suite.test {
        "" => suite.package.replace('-', "_"),
        test => test.to_owned(),
    };
    let program = message["executable"].as_str()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    (message["target"]["name"] == name.as_str()).then(|| Binary {
        suite,
        program: program.into(),
        folder: manifest.parent().unwrap_or(Path::new("/")).to_owned(),
    })
}

/// The error that this message of cargo is about.
fn problem(message: &Value) -> Option<Problem> {
    let error = &message["message"];
    let places = |error: &Value| {
        let mut places = Vec::new();
        for span in error["spans"].as_array().into_iter().flatten() {
            let mut span = span;
            // A macro is called at the end of this.
            while let (Some(file), Some(byte)) =
                (span["file_name"].as_str(), span["byte_start"].as_u64())
            {
                let byte = usize::try_from(byte).unwrap_or(usize::MAX);
                places.push((PathBuf::from(file), byte, span["is_primary"] != true));
                span = &span["expansion"]["span"];
            }
        }
        places
    };
    if error["level"] != "error" {
        return None;
    }
    let mut all = places(error);
    all.sort_by_key(|(_, _, is_beside)| *is_beside);
    for child in error["children"].as_array().into_iter().flatten() {
        all.extend(places(child));
    }
    Some(Problem {
        words: error["message"].as_str().unwrap_or_default().to_owned(),
        places: all
            .into_iter()
            .map(|(file, byte, _)| (file, byte))
            .collect(),
    })
}

impl Binary {
    /// Runs the tests with a mutant on (0: none) until one fails, or the time is over.
    pub fn run(&self, mutant: usize, time_max: Duration) -> Outcome {
        self.run_some(&[self.suite.filter.to_owned()], mutant, time_max)
    }

    /// The same for those alone that are named after this file or its folder.
    pub fn run_near(&self, file: &Path, mutant: usize, time_max: Duration) -> Outcome {
        let near = self.suite.near(file);
        match near.is_empty() {
            true => Outcome::Passed,
            false => self.run_some(&near, mutant, time_max),
        }
    }

    fn run_some(&self, filters: &[String], mutant: usize, time_max: Duration) -> Outcome {
        let started = Instant::now();
        let mut child = Command::new(&self.program)
            .args(filters)
            .arg(THREADS)
            .current_dir(&self.folder)
            .env("MUTANT", mutant.to_string())
            .env("FUZZ_SECONDS", "1")
            // What a property has found for one mutant is not tried for the next.
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env("RUST_BACKTRACE", "0")
            // Each switch is a branch of its own in a future, and debug builds give each its place.
            .env("RUST_MIN_STACK", STACK_BYTES)
            .env_remove("UPDATE")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a test binary runs");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let (tell, told) = channel();
        thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let _ = tell.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        let (mut last, mut longest) = (String::new(), String::new());
        loop {
            match told.recv_timeout(time_max.saturating_sub(started.elapsed())) {
                Ok(line) => {
                    let test = line.strip_prefix("test ");
                    if let Some(test) = test.and_then(|it| it.strip_suffix(" ... FAILED")) {
                        end(child);
                        return Outcome::Failed(test.to_owned());
                    }
                    let long = test.and_then(|it| it.strip_suffix(LONG));
                    if let Some(long) = long.filter(|_| longest.is_empty()) {
                        long.clone_into(&mut longest);
                    }
                    if !line.is_empty() {
                        last = line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    end(child);
                    return Outcome::Hangs(longest);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = child.wait().expect("it can be waited for");
                    return match status.success() {
                        true => Outcome::Passed,
                        false => Outcome::Failed(format!("a test binary that broke off: {last}")),
                    };
                }
            }
        }
    }
}

/// Ends a process with what it has started, which would go on without it.
fn end(mut child: Child) {
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
}

/// All files in a folder, or the file itself.
fn list(path: &Path, files: &mut BTreeSet<PathBuf>) {
    if path.is_file() {
        files.insert(path.to_owned());
    }
    for entry in fs::read_dir(path).into_iter().flatten() {
        list(&entry.expect("an entry").path(), files);
    }
}
