//! Programs out of Debian packages, unpacked below `target/lab` and not installed: no root is needed, no service starts, and
//! the host is left as it was.
//!
//! apt says which packages the host lacks for the ones that are wanted. All of them are unpacked side by side, so a
//! program finds its libraries there; only the child gets to see them. What the host has is not fetched, so that a copy of the
//! directory is of no use to a host that has less: remove it there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    fetch::{self, run},
    skip::or_skip,
};

/// Whether this host can unpack Debian packages; if not, why, in one line.
pub fn available() -> Result<(), String> {
    for program in ["apt-get", "dpkg-deb"] {
        run(Command::new(program).arg("--version")).map_err(|error| format!("{error:#}"))?;
    }
    Ok(())
}

/// The same for a test. `false`: it is to end here, and has been counted as skipped.
pub fn available_to_test(test: &str) -> Result<bool> {
    or_skip(available(), "Debian packages", test)
}

/// Packages that have been unpacked into a directory of their own.
#[derive(Debug, Clone)]
pub struct Packages {
    directory: PathBuf,
}

impl Packages {
    /// Unpacks these packages and what they need, into a directory called like `name`, if that has not been done yet. Blocks:
    /// some seconds the first time, and says so.
    pub fn unpack(name: &str, packages: &[&str]) -> Result<Self> {
        let names = packages.join(" ");
        let release = fs::read("/etc/os-release").context("this host does not say what it is")?;
        let ingredients = [
            names.as_bytes(),
            std::env::consts::ARCH.as_bytes(),
            &release,
        ];
        let what = format!("{names} from Debian's archive");
        let fill = |directory: &Path| fill(directory, packages);
        let directory = fetch::once(name, &ingredients, &what, fill)?;
        Ok(Self { directory })
    }

    /// The root under which the packages' files lie, as they would below `/`.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What a child needs in its environment to find the programs and libraries, before those of the host.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        let root = self.directory.display();
        let path = std::env::var("PATH").unwrap_or_default();
        let programs = format!("{root}/usr/bin:{root}/usr/sbin:{path}:/usr/sbin:/sbin");
        let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
        let libraries = format!("{root}/usr/lib/{triplet}:{root}/lib/{triplet}");
        [("PATH", programs), ("LD_LIBRARY_PATH", libraries)]
    }

    /// A command that runs a program of the packages.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment());
        command
    }
}

fn fill(directory: &Path, packages: &[&str]) -> Result<()> {
    if download(directory, packages).is_err() {
        // A fresh machine has no package lists, an old one has lists of packages that are gone.
        run(Command::new("apt-get").args(["update", "-qq"]))?;
        download(directory, packages)?;
    }
    for entry in fs::read_dir(directory)? {
        let package = entry?.path();
        let mut extract = Command::new("dpkg-deb");
        run(extract.arg("--extract").args([&package, directory]))?;
        fs::remove_file(&package)?;
    }
    Ok(())
}

fn download(directory: &Path, packages: &[&str]) -> Result<()> {
    let mut simulate = Command::new("apt-get");
    simulate.args(["install", "--simulate", "--no-install-recommends", "-qq"]);
    let plan = run(simulate.args(packages))?;
    let mut names: Vec<&str> = missing(&plan).collect();
    // Those that the host has are fetched all the same: a lab that finds them there needs not ask where.
    names.extend(packages);
    names.sort_unstable();
    names.dedup();
    let mut download = Command::new("apt-get");
    download.args(["download", "-qq"]).args(names);
    run(download.current_dir(directory)).map(drop)
}

/// The packages that apt would install anew. Not those that it would only bring up to date, such as the C library: a
/// second one of these beside the host's helps nobody.
fn missing(plan: &str) -> impl Iterator<Item = &str> {
    plan.lines().filter_map(|line| {
        let mut words = line.strip_prefix("Inst ")?.split_whitespace();
        let name = words.next()?;
        words
            .next()
            .is_some_and(|next| next.starts_with('('))
            .then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[test]
    fn only_what_the_host_lacks_is_fetched_beside_what_is_wanted() {
        let plan = "Inst libfreeipmi17 (1.6.10-1+b1 Debian:12.15/oldstable [amd64])\n\
            Inst libc6 [2.36-9+deb12u9] (2.36-9+deb12u13 Debian:12.15/oldstable [amd64])\n\
            Conf libfreeipmi17 (1.6.10-1+b1 Debian:12.15/oldstable [amd64])\n";
        assert_eq!(missing(plan).collect::<Vec<_>>(), ["libfreeipmi17"]);
    }

    #[test]
    fn a_program_runs_with_libraries_that_the_host_lacks() -> Result<()> {
        if !available_to_test("a_program_runs_with_libraries_that_the_host_lacks")? {
            return Ok(());
        }
        let packages = Packages::unpack("freeipmi-tools", &["freeipmi-tools"])?;
        let said = run(packages.command("ipmipower").arg("--version"))?;
        ensure!(said.starts_with("ipmipower - "), "{said}");
        Ok(())
    }
}
