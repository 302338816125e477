//! Programs from PyPI, each package pinned by its hash, in virtual environments of the lab's own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::fetch::{self, run};

/// The Python with the packages that are required by a file, in an environment called like `name`. Blocks. Installs them
/// first if that has not been done, which takes some seconds and says so.
pub fn python(name: &str, requirements: &Path) -> Result<PathBuf> {
    let version = run(Command::new("python3").arg("--version"));
    let version = version.with_context(|| format!("{name} needs Python 3"))?;
    let pinned = fs::read(requirements)?;
    let ingredients = [version.as_bytes(), &pinned];
    let what = format!("{name} from PyPI");
    let fill = |directory: &Path| install(directory, requirements);
    let directory = fetch::once(name, &ingredients, &what, fill)?;
    Ok(directory.join("bin/python3"))
}

fn install(directory: &Path, requirements: &Path) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(directory)).context(
        "failed to make a virtual environment (on Debian: `apt-get install python3-venv`)",
    )?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ];
    // Wheels only: building a package would run code of its own. The file names all of them, so that none is looked for: pip would take one that is
    // wanted with an extra for one without a version.
    let strict = [
        "--no-deps",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--requirement",
    ];
    run(Command::new(directory.join("bin/python3"))
        .args(pip)
        .args(strict)
        .arg(requirements))
    .map(drop)
}
