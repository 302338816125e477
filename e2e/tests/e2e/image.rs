//! The image that `make image` has built: that it holds what it needs and nothing else, and that a fence goes through from inside it.
//!
//! Not for `make test`, which builds no image: `make image-test`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::image::{self, Image};
use e2e::lab::{Lab, Setup};
use e2e::operator;
use e2e::toolchain::workspace;
use http::StatusCode;
use serde_json::Value;

use crate::power_cut::power_cut_before;

/// What it may weigh where it is pulled.
const BYTES_MAX: usize = 20_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an image: make image-test"]
async fn a_fence_goes_through_from_inside_the_image() -> Result<()> {
    if !image::available_to_test("a_fence_goes_through_from_inside_the_image")? {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let lab = Lab::start(Setup::new("image", 2).alone()).await?;
    let options = operator::Options {
        image: Some(Arc::new(Image::unpack(directory.path())?)),
        ..operator::Options::default()
    };
    let operator = lab.operator_with(options).await?;
    ensure!(operator.get("/livez").await?.0 == StatusCode::OK);
    power_cut_before(&lab, &operator).await?;
    // Of a process with the ID 1 the kernel expects that it handles the signal itself.
    operator.stop(Duration::from_secs(5)).await
}

#[test]
#[ignore = "needs an image: make image-test"]
fn the_image_holds_what_it_needs_and_nothing_else() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let image = Image::unpack(directory.path())?;
    let weight = image.compressed_bytes();
    eprintln!("{weight} bytes, compressed");
    ensure!(weight < BYTES_MAX, "{weight} bytes, compressed");

    // Like the pod of deploy/, which runs as this user whatever the image says.
    ensure!(image.user()? == (65_532, 65_532), "{:?}", image.user()?);
    the_labels_are_of_this_build(&image)?;
    nothing_else_runs(&image)?;
    the_bill_of_materials_names_the_crates(&image)
}

/// And not what a container tool remembers of an earlier one.
fn the_labels_are_of_this_build(image: &Image) -> Result<()> {
    let label = |name| image.label(&format!("org.opencontainers.image.{name}"));
    let (version, revision) = (label("version"), label("revision"));
    let (version, revision) = version.zip(revision).context("no label")?;
    let manifest = fs::read_to_string(workspace().join("Cargo.toml"))?;
    ensure!(manifest.contains(&format!("\nversion = \"{version}\"\n")));
    let inside = fs::read_to_string(image.root().join("VERSION"))?;
    let labels = format!("{version} {revision} ");
    ensure!(inside.starts_with(&labels), "{inside} inside, {labels}");
    Ok(())
}

/// No shell, no package manager: the binary, and what its loader loads.
fn nothing_else_runs(image: &Image) -> Result<()> {
    let binary = image.entry_point()?.remove(0);
    let mut left = vec![image.root().to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            let mode = metadata.permissions().mode();
            ensure!(mode & 0o6022 == 0, "{} has mode {mode:o}", path.display());
            if metadata.is_dir() {
                left.push(path);
            } else if mode & 0o111 != 0 {
                let path = Path::new("/").join(path.strip_prefix(image.root())?);
                let is_library = path.to_string_lossy().contains(".so.");
                let is_it = path == Path::new(&binary) || is_library;
                ensure!(is_it, "{} can be run", path.display());
            }
        }
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
    let mut names = own.lines().filter_map(|line| line.split(' ').next());
    ensure!(
        names.all(|name| listed.contains(name)),
        "the bill has {listed:?}, Cargo.toml {own}"
    );
    Ok(())
}
