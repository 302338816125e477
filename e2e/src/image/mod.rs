//! An image with the operator, out of the archive that `make image` leaves: what a registry would hand out, and [`Container`], which runs it as
//! a kubelet would.

mod container;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

pub use self::container::Container;
use fencing_testbed::{debian, fetch::run, skip::or_skip};

/// Names the archive. `make image-test` sets it.
const VARIABLE: &str = "NODE_FENCING_IMAGE";

/// Of containerd, for an image that names none.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whether this host can run a container; if not, why, in one line.
pub fn available() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("runc gives an image's user to a process for root alone".to_owned());
    }
    debian::available()
}

/// The same for a test. `false`: it is to end here, and has been counted as skipped.
pub fn available_to_test(test: &str) -> Result<bool> {
    or_skip(available(), "containers", test)
}

/// An image that has been unpacked.
#[derive(Debug)]
pub struct Image {
    root: PathBuf,
    /// `config` of the image's configuration, with OCI's names.
    config: Value,
    compressed_bytes: usize,
}

impl Image {
    /// Unpacks the archive that the environment names, below this directory. Blocks.
    pub fn unpack(directory: &Path) -> Result<Self> {
        let archive = std::env::var_os(VARIABLE)
            .with_context(|| format!("{VARIABLE} names no archive: make image-test"))?;
        let layout = directory.join("layout");
        let root = directory.join("root");
        extract(Path::new(&archive), &layout)?;
        let mut manifest = json(&layout.join("index.json"))?;
        // An index may be of images, or of further indexes.
        while let Some(next) = manifest["manifests"].get(0) {
            manifest = json(&blob(&layout, next)?)?;
        }
        for layer in manifest["layers"].as_array().context("no layers")? {
            let layer = blob(&layout, layer)?;
            extract(&layer, &root)?;
            take_away(&layer, &root)?;
        }
        let config = json(&blob(&layout, &manifest["config"])?)?["config"].clone();
        let mut gzip = Command::new("gzip");
        let compressed = gzip.arg("--stdout").arg(&archive).output()?;
        ensure!(compressed.status.success(), "gzip failed");
        Ok(Self {
            root,
            config,
            compressed_bytes: compressed.stdout.len(),
        })
    }

    /// Its root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What a registry would hand out, about.
    pub fn compressed_bytes(&self) -> usize {
        self.compressed_bytes
    }

    /// A label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.config["Labels"][name].as_str()
    }

    /// The numbers of its user and group: a kubelet that has to see to `runAsNonRoot` takes no name.
    pub fn user(&self) -> Result<(u32, u32)> {
        let user = self.config["User"].as_str().unwrap_or_default();
        let (user, group) = user.split_once(':').context("the image has no user")?;
        Ok((user.parse()?, group.parse()?))
    }

    /// The variables that a runtime gives to whatever runs in it: its own, and a PATH where it has none.
    pub fn environment(&self) -> Result<Vec<String>> {
        let own = self.config.get("Env").filter(|it| !it.is_null());
        let mut own: Vec<String> = own.map_or(Ok(Vec::new()), Vec::<String>::deserialize)?;
        if !own.iter().any(|it| it.starts_with("PATH=")) {
            own.push(PATH.to_owned());
        }
        Ok(own)
    }

    /// What it runs.
    pub fn entry_point(&self) -> Result<Vec<String>> {
        let words = self.config["Entrypoint"].clone();
        serde_json::from_value(words).context("the image has no entry point")
    }
}

fn extract(archive: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(archive);
    run(tar.arg("--directory").arg(into)).map(drop)
}

/// What a layer takes away from those below it, it says by a file `.wh.NAME` in the place of NAME.
fn take_away(layer: &Path, root: &Path) -> Result<()> {
    let listed = run(Command::new("tar").arg("--list").arg("--file").arg(layer))?;
    for mark in listed.lines().map(|line| root.join(line)) {
        let name = mark.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_prefix(".wh.")) else {
            continue;
        };
        ensure!(!name.starts_with(".wh."), "{} is not known", mark.display());
        run(Command::new("rm")
            .arg("-rf")
            .args([mark.with_file_name(name), mark]))?;
    }
    Ok(())
}

fn json(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("no {} in the archive", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Where the archive keeps what a descriptor names.
fn blob(layout: &Path, descriptor: &Value) -> Result<PathBuf> {
    let digest = descriptor["digest"].as_str().context("no digest")?;
    Ok(layout.join("blobs").join(digest.replace(':', "/")))
}
