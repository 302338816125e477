//! The image with the operator and nothing else.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Result, ensure};
use e2e::image::{self, Image};

use super::{a_fence_goes_through, everything_in, it_is_an_image_of_the_operator};

/// What it may weigh where it is pulled.
const BYTES_MAX: usize = 20_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an image: make image-test"]
async fn a_fence_goes_through_from_inside_the_image() -> Result<()> {
    if !image::available_to_test("a_fence_goes_through_from_inside_the_image")? {
        return Ok(());
    }
    a_fence_goes_through("image").await
}

#[test]
#[ignore = "needs an image: make image-test"]
fn the_image_holds_what_it_needs_and_nothing_else() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let image = Image::unpack(directory.path())?;
    let weight = image.compressed_bytes();
    eprintln!("{weight} bytes, compressed");
    ensure!(weight < BYTES_MAX, "{weight} bytes, compressed");
    it_is_an_image_of_the_operator(&image)?;
    nothing_else_runs(&image)
}

/// No shell, no package manager: the binary, and what its loader loads. And no folder like /tmp.
fn nothing_else_runs(image: &Image) -> Result<()> {
    let binary = image.entry_point()?.remove(0);
    for (path, metadata) in everything_in(image.root())? {
        let mode = metadata.permissions().mode();
        let is_open = !metadata.is_symlink() && mode & 0o6022 != 0;
        ensure!(!is_open, "{} has mode {mode:o}", path.display());
        if !metadata.is_dir() && mode & 0o111 != 0 {
            let is_library = path.to_string_lossy().contains(".so.");
            let is_it = path == Path::new(&binary) || is_library;
            ensure!(is_it, "{} can be run", path.display());
        }
    }
    Ok(())
}
