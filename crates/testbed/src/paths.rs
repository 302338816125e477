//! Where the repository is, and where a lab leaves what it makes.

use std::env;
use std::path::{Path, PathBuf};

/// `target/lab` of the workspace: everything that a lab leaves on disk is below it.
pub fn lab_directory() -> PathBuf {
    workspace().join("target/lab")
}

/// A folder of the workspace that no other one has.
const OURS: &str = "crates/testbed";

/// The root of the repository. What cargo says when it starts a package of ours comes first, because a checkout may have been copied with
/// all that was built in it.
pub fn workspace() -> PathBuf {
    let started = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let packages = started
        .into_iter()
        .chain([env!("CARGO_MANIFEST_DIR").into()]);
    let mut folders =
        packages.flat_map(|package| package.ancestors().map(Path::to_owned).collect::<Vec<_>>());
    folders
        .find(|folder| folder.join(OURS).exists())
        .expect("the package is in the workspace")
}
