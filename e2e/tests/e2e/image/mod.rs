//! The images that `make image` has built: that each holds what it needs and no surprise, and that a fence goes through from inside it.
//!
//! Not for `make test`, which builds no image: `make image-test`, and `make image-test TARGET=agents`. The archive comes with the environment.

mod agents;
mod operator;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::image::Image;
use e2e::lab::{Lab, Setup};
use e2e::operator::Options;
use fencing_testbed::paths::workspace;
use http::StatusCode;
use serde_json::Value;

use crate::power_cut::power_cut_before;

/// A node loses its power, and an operator in a container moves its volume.
async fn a_fence_goes_through(name: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let lab = Lab::start(Setup::new(name, 2).alone()).await?;
    let options = Options {
        image: Some(Arc::new(Image::unpack(directory.path())?)),
        ..Options::default()
    };
    let operator = lab.operator_with(options).await?;
    ensure!(operator.get("/livez").await?.0 == StatusCode::OK);
    power_cut_before(&lab, &operator).await?;
    // Of a process with the ID 1 the kernel expects that it handles the signal itself.
    operator.stop(Duration::from_secs(5)).await
}

/// What is so in either of them.
fn it_is_an_image_of_the_operator(image: &Image) -> Result<()> {
    // Like the pod of deploy/, which runs as this user whatever the image says.
    ensure!(image.user()? == (65_532, 65_532), "{:?}", image.user()?);
    ensure!(image.entry_point()? == ["/node-fencing-operator"]);
    for file in ["LICENSE", "THIRD-PARTY-LICENSES"] {
        let path = image.root().join("licenses").join(file);
        ensure!(path.is_file(), "no {}", path.display());
    }
    the_labels_are_of_this_build(image)?;
    nobody_else_writes_or_gains_rights(image)?;
    the_bill_of_materials_names_the_crates(image)
}

/// And not what a container tool remembers of an earlier one.
fn the_labels_are_of_this_build(image: &Image) -> Result<()> {
    let label = |name| image.label(&format!("org.opencontainers.image.{name}"));
    for name in ["created", "url", "documentation", "vendor", "base.name"] {
        ensure!(label(name).is_some_and(|it| !it.is_empty()), "no {name}");
    }
    let (version, revision) = (label("version"), label("revision"));
    let (version, revision) = version.zip(revision).context("no label")?;
    let manifest = fs::read_to_string(workspace().join("Cargo.toml"))?;
    ensure!(manifest.contains(&format!("\nversion = \"{version}\"\n")));
    let inside = fs::read_to_string(image.root().join("VERSION"))?;
    let labels = format!("{version} {revision} ");
    ensure!(inside.starts_with(&labels), "{inside} inside, {labels}");
    Ok(())
}

/// Root alone can write, but to folders like /tmp, where nobody can take away what is another's; and no file runs with the rights of its owner.
fn nobody_else_writes_or_gains_rights(image: &Image) -> Result<()> {
    for (path, metadata) in everything_in(image.root())? {
        // A runtime lays a /dev of its own over that of an image.
        if path.starts_with("/dev") {
            continue;
        }
        let (mode, is_directory) = (metadata.mode(), metadata.is_dir());
        let gains = !is_directory && mode & 0o6000 != 0;
        ensure!(!gains, "{} has mode {mode:o}", path.display());
        let is_like_tmp = is_directory && mode & 0o1777 == 0o1777;
        let writes = mode & 0o002 != 0 && !is_like_tmp && !metadata.is_symlink();
        ensure!(!writes, "{} has mode {mode:o}", path.display());
        let owner = metadata.uid();
        ensure!(owner != 65_532, "{} is the operator's", path.display());
    }
    Ok(())
}

/// Every crate that the operator names itself. (Which further ones there are depends on the machine it is built for.)
fn the_bill_of_materials_names_the_crates(image: &Image) -> Result<()> {
    let path: PathBuf = image.root().join("node-fencing-operator.cdx.json");
    let bill: Value = serde_json::from_slice(&fs::read(path)?)?;
    let components = bill["components"].as_array().context("no components")?;
    let listed = components.iter().filter_map(|it| it["name"].as_str());
    let listed: BTreeSet<&str> = listed.collect();
    let manifest = fs::read_to_string(workspace().join("Cargo.toml"))?;
    let (_, own) = manifest.split_once("[dependencies]\n").context("no list")?;
    let (own, _) = own.split_once("\n\n").context("a list without an end")?;
    let lines = own.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split([' ', '.']).next());
    let missing: Vec<&str> = names.filter(|name| !listed.contains(name)).collect();
    ensure!(missing.is_empty(), "the bill lacks {missing:?}: {listed:?}");
    Ok(())
}

/// All files and folders below a root, by their paths in it.
fn everything_in(root: &Path) -> Result<Vec<(PathBuf, fs::Metadata)>> {
    let (mut left, mut found) = (vec![root.to_owned()], Vec::new());
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            let inside = Path::new("/").join(path.strip_prefix(root)?);
            if metadata.is_dir() {
                left.push(path);
            }
            found.push((inside, metadata));
        }
    }
    Ok(found)
}
