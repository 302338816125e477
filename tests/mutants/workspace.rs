//! The copy that is mutated: one tree and one target directory for all mutants, so that each costs an incremental build.
//!
//! The copy has no binary (nothing that is mutated may ever be run as an operator) and no debug
//! information.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What the tests need of the sources.
const PARTS: [&str; 14] = [
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    "src",
    "tests",
    "benches",
    "deploy",
    // With the scripts of the peers that the drivers are tested with.
    "crates",
    "e2e",
    "simapi",
    "crds",
    "fuzz/src",
    "fuzz/corpus",
    "fuzz/targets",
];
/// Most of them wait for a device's time to be over, as in the Makefile's UNIT_THREADS.
const THREADS: &str = "--test-threads=16";
/// A test that runs longer than this hangs.
const TESTS_TIME_MAX: Duration = Duration::from_secs(600);
/// A build that takes longer than this hangs.
const BUILD_TIME_MAX: Duration = Duration::from_secs(1800);

/// A layer of the crate: the modules that it is built from, and the tests that could catch a mutant there.
#[derive(Clone, Copy, PartialEq)]
pub struct Layer {
    modules: &'static [&'static str],
    suites: &'static [Suite],
}

/// Tests of one binary.
#[derive(Clone, Copy, PartialEq)]
struct Suite {
    /// Cargo's arguments for the binary.
    target: &'static [&'static str],
    /// What the names of its tests begin with.
    filter: &'static str,
}

const fn integration(target: &'static [&'static str]) -> Suite {
    Suite { target, filter: "" }
}

const fn unit(filter: &'static str) -> Suite {
    let target = &["--package", "node-fencing-operator", "--lib"];
    Suite { target, filter }
}

const CORE: Layer = Layer {
    modules: SHELL.modules,
    suites: &[
        integration(&["--package", "fencing-core", "--test", "golden"]),
        integration(&["--package", "fencing-core", "--lib"]),
        // What watches and detects by a function of the core tests it, too.
        unit("shell::"),
    ],
};
const DRIVERS: Layer = Layer {
    modules: SHELL.modules,
    suites: &[
        integration(&["--package", "fencing-drivers", "--test", "drivers"]),
        integration(&["--package", "fencing-drivers", "--lib"]),
        integration(&["--package", "fencing-drivers", "--test", "fuzz"]),
    ],
};
const CLUSTER: Layer = Layer {
    modules: SHELL.modules,
    suites: &[
        integration(&["--package", "fencing-cluster", "--lib"]),
        unit("shell::"),
    ],
};
const SHELL: Layer = Layer {
    modules: &["args", "probe_file", "shell", "telemetry", "words"],
    suites: &[unit("shell::")],
};

/// Over everything.
pub const SIMULATION: Layer = Layer {
    modules: SHELL.modules,
    suites: &[Suite {
        target: &["--test", "sim"],
        filter: "three_hundred",
    }],
};

/// The layer of a place.
pub fn layer(place: &str) -> Layer {
    match place.split("::").next() {
        Some("core") => CORE,
        Some("drivers") => DRIVERS,
        Some("cluster") => CLUSTER,
        _ => SHELL,
    }
}

/// How the tests went.
pub enum Outcome {
    Passed,
    /// The name of the first test that failed.
    Failed(String),
    DoesNotBuild(String),
    Hangs,
}

/// The copy.
pub struct Workspace {
    root: PathBuf,
    /// `src/lib.rs` as it is.
    root_module: String,
    target: PathBuf,
    output: PathBuf,
}

impl Workspace {
    /// Copies the sources anew, below `target/mutants`.
    pub fn copy_of(source: &Path) -> Self {
        let here = source.join("target/mutants");
        let root = here.join("workspace");
        let _ = fs::remove_dir_all(&root);
        for part in PARTS {
            copy(&source.join(part), &root.join(part));
        }
        fs::remove_file(root.join("src/main.rs")).expect("the copy gets no binary");
        fs::remove_dir_all(root.join("src/bin")).expect("nor the plugin's");
        let lib = root.join("src/lib.rs");
        Self {
            root,
            root_module: fs::read_to_string(lib).expect("src/lib.rs is readable"),
            target: here.join("target"),
            output: here.join("output.txt"),
        }
    }

    /// Where the copy is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file of the copy.
    fn file(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Runs the tests of a layer, until a suite of them fails.
    pub fn test(&self, layer: Layer) -> Outcome {
        self.cut(layer);
        for suite in layer.suites {
            match self.run(*suite) {
                Outcome::Passed => {}
                other => return other,
            }
        }
        Outcome::Passed
    }

    /// Leaves the modules away that the layer does not know: they would only cost time.
    fn cut(&self, layer: Layer) {
        let known = |line: &&str| {
            let module = line.strip_prefix("pub mod ").unwrap_or_default();
            let module = module.trim_end_matches(';');
            module.is_empty() || layer.modules.contains(&module)
        };
        let lines: Vec<&str> = self.root_module.lines().filter(known).collect();
        let path = self.file("src/lib.rs");
        let now = fs::read_to_string(&path).expect("src/lib.rs is readable");
        let cut = lines.join("\n");
        if now != cut {
            fs::write(path, cut).expect("src/lib.rs is written");
        }
    }

    /// Builds a suite and runs it.
    fn run(&self, suite: Suite) -> Outcome {
        let test = [&["test", "--locked"], suite.target].concat();
        let build = [&test[..], &["--no-run", "--quiet"]].concat();
        match self.cargo(&build, BUILD_TIME_MAX) {
            Some(status) if status.success() => {}
            Some(_) => return Outcome::DoesNotBuild(self.first_error()),
            None => return Outcome::Hangs,
        }
        let run = [&test[..], &["--", suite.filter, THREADS]].concat();
        match self.cargo(&run, TESTS_TIME_MAX) {
            Some(status) if status.success() => Outcome::Passed,
            Some(_) => Outcome::Failed(self.who_failed()),
            None => Outcome::Hangs,
        }
    }

    /// Runs cargo in the copy; `None`: it took too long.
    fn cargo(&self, arguments: &[&str], time_max: Duration) -> Option<ExitStatus> {
        let output = File::create(&self.output).expect("a file for the output");
        let errors = output.try_clone().expect("the same file for the errors");
        let mut child = Command::new(env!("CARGO"))
            .args(arguments)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "none")
            .env("FUZZ_SECONDS", "1")
            // What a property has found for one mutant is not tried for the next.
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env_remove("UPDATE")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .expect("cargo runs");
        let started = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("cargo can be waited for") {
                return Some(status);
            }
            if started.elapsed() > time_max {
                // With the test that it runs, which would go on without it.
                let group = format!("-{}", child.id());
                let kill = Command::new("kill").args(["-KILL", "--", &group]).status();
                kill.expect("cargo can be ended");
                child.wait().expect("cargo ends");
                return None;
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// The test that failed, or the story that is told differently.
    fn who_failed(&self) -> String {
        let output = fs::read_to_string(&self.output).expect("the output is text");
        let story = output
            .lines()
            .find_map(|line| Some(line.split_once(".txt, line")?.0));
        let test = output
            .lines()
            .find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        match (story, test) {
            (Some(story), _) => format!("golden story {story}"),
            (None, Some(test)) => test.to_owned(),
            (None, None) => format!("a test binary that broke off: {}", last_line(&output)),
        }
    }

    fn first_error(&self) -> String {
        let output = fs::read_to_string(&self.output).expect("the output is text");
        let error = output.lines().find(|line| line.starts_with("error"));
        error.unwrap_or(last_line(&output)).to_owned()
    }
}

fn last_line(text: &str) -> &str {
    text.lines()
        .rfind(|line| !line.is_empty())
        .unwrap_or_default()
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a directory for the copy");
        for entry in fs::read_dir(from).expect("a readable directory") {
            let path = entry.expect("an entry").path();
            copy(&path, &to.join(path.file_name().expect("a name")));
        }
    } else {
        fs::create_dir_all(to.parent().expect("a parent")).expect("a directory for the copy");
        fs::copy(from, to).expect("a file is copied");
    }
}
