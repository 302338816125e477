//! The programs of the control plane, built from pinned Go modules once and kept under `target/lab`.
//!
//! `e2e/control-plane` is a Go module of our own that requires Kubernetes, etcd, the external-attacher, kubectl, both helms and kubeconform at
//! fixed versions; its other module files pin other versions of Kubernetes, and what does not go with one. Each program is kept under the hash of what it is made of, and all of them are linked into one directory
//! named after all inputs: a change to a small program of ours does not link the large ones again. A build happens in a
//! temporary directory under a file lock, so that labs which start together build once and nobody sees half a program.

mod version;

use std::{
    fs::{self, File},
    io::{IsTerminal, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use fencing_testbed::paths::{lab_directory, workspace};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use version::{KUBERNETES, kubernetes, ldflags};
pub use version::{is_usual_kubernetes, kubernetes_minor, kubernetes_version};

/// Its modules are pinned by `go.mod`, whatever the version of Kubernetes.
const ATTACHER: (&str, &str, &str) = (
    "csi-attacher",
    "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
    "go.mod",
);

/// Programs that are no part of a cluster, and what pins their modules: whatever the version of Kubernetes.
const TOOLS: [(&str, &str, &str); 4] = [
    ("helm", "helm.sh/helm/v4/cmd/helm", "go.mod"),
    ("helm3", "helm.sh/helm/v3/cmd/helm", "go.mod"),
    (
        "kubeconform",
        "github.com/yannh/kubeconform/cmd/kubeconform",
        "go.mod",
    ),
    // It does not go with a Kubernetes of today.
    (
        "validate-krew-manifest",
        "sigs.k8s.io/krew/cmd/validate-krew-manifest",
        "krew.mod",
    ),
];

/// Its package is not a folder of `e2e/control-plane/cmd`.
const KUBECTL: (&str, &str) = ("kubectl", "k8s.io/kubernetes/cmd/kubectl");

/// How long a build from nothing takes on two cores, as measured, for those who wait.
const COLD_BUILD: &str =
    "about 6 minutes on 2 cores with an empty build cache, under a minute with a warm one";

/// Which programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// What a cluster runs: enough for the demo.
    Cluster,
    /// With kubectl, both helms and what else tests call.
    All,
}

/// The built programs.
#[derive(Debug, Clone)]
pub struct Toolchain {
    directory: PathBuf,
}

/// One program to build.
struct Program {
    name: String,
    package: String,
    /// What pins its modules.
    modules: &'static str,
    /// Hash of everything it is made of.
    key: String,
    /// Whether a cluster runs it.
    is_of_cluster: bool,
}

impl Toolchain {
    /// Builds what is wanted and not built yet, with progress on standard error, and returns where the programs are. Blocks.
    pub fn build(wanted: Programs) -> Result<Self> {
        let module = workspace().join("e2e/control-plane");
        let mut programs = programs(&module)?;
        // Also where all are built: what a fresh machine lacks must be missed here.
        programs.retain(|it| wanted == Programs::All || it.is_of_cluster);
        let directory = set(&programs);
        if directory.is_dir() {
            return Ok(Self { directory });
        }
        fs::create_dir_all(lab_directory())?;
        let lock = File::create(lab_directory().join("toolchain.lock"))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            eprintln!(
                "lab: another process is building the control plane; waiting for it ({COLD_BUILD})"
            );
            flock(&lock, FlockOperation::LockExclusive)?;
        }
        if !directory.is_dir() {
            build_all(&module, &programs, &directory)?;
        }
        Ok(Self { directory })
    }

    /// The directory with all programs, good as an entry of PATH.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of one program: `control-plane`, `kubectl`, [`ATTACHER`]'s, one of [`TOOLS`], or a folder of `e2e/control-plane/cmd`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// All programs.
fn programs(module: &Path) -> Result<Vec<Program>> {
    let version = Command::new("go")
        .arg("version")
        .current_dir(module)
        .output();
    let version = version.context("failed to run `go version`: the lab needs Go, see README.md")?;
    ensure!(
        version.status.success(),
        "`go version`: {}",
        String::from_utf8_lossy(&version.stderr)
    );
    let base = |modules: &str| -> Result<Sha256> {
        let mut base = Sha256::new();
        add(&mut base, &version.stdout);
        for file in [modules.to_owned(), modules.replace(".mod", ".sum")] {
            add(&mut base, &fs::read(module.join(file))?);
        }
        add(&mut base, ldflags(modules).as_bytes());
        Ok(base)
    };
    let (ours, _) = kubernetes();
    let (kubectl, package) = KUBECTL;

    let mut programs = Vec::new();
    let tools = TOOLS
        .into_iter()
        .chain([(kubectl, package, ours), ATTACHER]);
    for (name, package, modules) in tools {
        programs.push(Program {
            name: name.to_owned(),
            package: package.to_owned(),
            modules,
            key: hex(base(modules)?),
            is_of_cluster: name == ATTACHER.0,
        });
    }
    for folder in sorted(&module.join("cmd"))? {
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .context("a folder's name is not UTF-8")?;
        let mut hash = base(ours)?;
        let mut sources = 0;
        for file in sorted(&folder)?
            .iter()
            .filter(|file| file.extension().is_some_and(|end| end == "go"))
        {
            add(
                &mut hash,
                file.file_name().unwrap_or_default().as_encoded_bytes(),
            );
            add(&mut hash, &fs::read(file)?);
            sources += 1;
        }
        if sources > 0 {
            programs.push(Program {
                name: name.to_owned(),
                package: format!("./cmd/{name}"),
                modules: ours,
                key: hex(hash),
                is_of_cluster: true,
            });
        }
    }
    // The largest first: it compiles what the others share, and who waits sees the longest wait announced first.
    programs.sort_by_key(|program| (program.name != "control-plane", program.name.clone()));
    Ok(programs)
}

/// Where these programs are linked, by the hash over all their keys.
fn set(programs: &[Program]) -> PathBuf {
    let mut all = Sha256::new();
    for program in programs {
        add(&mut all, program.name.as_bytes());
        add(&mut all, program.key.as_bytes());
    }
    lab_directory().join(format!("bin-{}", hex(all)))
}

/// Builds the programs that the store does not have, then links all of them into `directory`.
fn build_all(module: &Path, programs: &[Program], directory: &Path) -> Result<()> {
    let store = lab_directory().join("store");
    fs::create_dir_all(&store)?;
    let missing: Vec<_> = programs
        .iter()
        .filter(|program| !stored(&store, program).is_file())
        .collect();
    if !missing.is_empty() {
        eprintln!(
            "lab: building the control plane, Kubernetes {}: {COLD_BUILD}",
            kubernetes_version()
        );
    }
    for (index, program) in missing.iter().enumerate() {
        let title = format!("{} ({} of {})", program.name, index + 1, missing.len());
        let temporary = tempfile::tempdir_in(&store)?;
        let output = temporary.path().join(&program.name);
        go_build(module, program, &output, &title)?;
        fs::rename(&output, stored(&store, program))?;
    }
    let temporary = tempfile::tempdir_in(lab_directory())?;
    for program in programs {
        fs::hard_link(
            stored(&store, program),
            temporary.path().join(&program.name),
        )?;
    }
    fs::rename(temporary.keep(), directory)?;
    remove_old(&store)
}

/// Removes all but the latest sets of programs, and programs that are in no set.
fn remove_old(store: &Path) -> Result<()> {
    // One for each Kubernetes: what tries all of them builds none twice.
    const KEPT: usize = KUBERNETES.len() + 2;
    let is_set = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"bin-"))
    };
    let mut sets: Vec<_> = sorted(&lab_directory())?
        .into_iter()
        .filter(is_set)
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .collect();
    sets.sort();
    for (_, path) in sets.iter().rev().skip(KEPT) {
        fs::remove_dir_all(path)?;
    }
    for program in sorted(store)? {
        if program.is_file() && program.metadata()?.nlink() == 1 {
            fs::remove_file(program)?;
        }
    }
    Ok(())
}

fn go_build(module: &Path, program: &Program, output: &Path, title: &str) -> Result<()> {
    let package = &program.package;
    let modules = format!("-modfile={}", program.modules);
    let log = tempfile::NamedTempFile::new()?;
    let mut build = Command::new("go")
        .args([
            "build",
            "-mod=readonly",
            &modules,
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            &ldflags(program.modules),
            "-o",
        ])
        .arg(output)
        .arg(package)
        .env("CGO_ENABLED", "0")
        .current_dir(module)
        .stdin(Stdio::null())
        .stdout(log.reopen()?)
        .stderr(log.reopen()?)
        .spawn()
        .context("failed to run `go build`")?;
    let start = Instant::now();
    let mut progress = Progress::new(title);
    let status = loop {
        if let Some(status) = build.try_wait()? {
            break status;
        }
        progress.tick(start.elapsed());
        std::thread::sleep(Duration::from_millis(200));
    };
    if !status.success() {
        bail!(
            "`go build {package}` failed ({status}):\n{}",
            fs::read_to_string(log.path())?
        );
    }
    progress.end(start.elapsed());
    Ok(())
}

/// One line that counts seconds on a terminal; a line every so often elsewhere, so that a CI log shows life.
struct Progress<'a> {
    title: &'a str,
    terminal: bool,
    said: Duration,
}

impl<'a> Progress<'a> {
    const QUIET: Duration = Duration::from_secs(20);

    fn new(title: &'a str) -> Self {
        Self {
            title,
            terminal: std::io::stderr().is_terminal(),
            said: Duration::ZERO,
        }
    }

    fn tick(&mut self, elapsed: Duration) {
        let period = if self.terminal {
            Duration::from_secs(1)
        } else {
            Self::QUIET
        };
        if elapsed >= self.said + period {
            self.said = elapsed;
            self.say(
                &format!("building {}: {} s", self.title, elapsed.as_secs()),
                !self.terminal,
            );
        }
    }

    fn end(&self, elapsed: Duration) {
        self.say(
            &format!("built {} in {:.1} s", self.title, elapsed.as_secs_f64()),
            true,
        );
    }

    /// On a terminal each line overwrites the one before.
    fn say(&self, text: &str, ended: bool) {
        let (start, end) = (
            if self.terminal { "\r\x1b[K" } else { "" },
            if ended { "\n" } else { "" },
        );
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "{start}lab: {text}{end}").and_then(|()| out.flush());
    }
}

fn stored(store: &Path, program: &Program) -> PathBuf {
    store.join(format!("{}-{}", program.name, program.key))
}

fn sorted(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("failed to list {}", directory.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Adds a part with its length, so that no two lists of parts hash alike.
fn add(hash: &mut Sha256, part: &[u8]) {
    hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
    hash.update(part);
}

fn hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .take(10)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
