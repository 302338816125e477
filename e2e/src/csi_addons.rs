//! CSI-Addons' own programs, built from the Go module proxy: its controller and its sidecar, and before a storage of ours the side of a CSI driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use fencing_testbed::{fetch, paths::workspace};

/// The module that has them.
const MODULE: &str = "github.com/csi-addons/kubernetes-csi-addons";

/// The directory with `csi-addons-driver` (ours), `manager` and `sidecar`, and CSI-Addons' CRDs in `crds`: built at the first time. Blocks.
pub fn build() -> Result<PathBuf> {
    let module = workspace().join("e2e/csi-addons");
    let parts = ["go.mod", "go.sum", "main.go"].map(|name| fs::read(module.join(name)));
    let [modules, sums, program] = parts;
    let (modules, sums, program) = (modules?, sums?, program?);
    let ingredients: [&[u8]; 3] = [&modules, &sums, &program];
    fetch::once("csi-addons", &ingredients, "CSI-Addons", |directory| {
        let packages = [
            ("csi-addons-driver", ".".to_owned()),
            ("manager", format!("{MODULE}/cmd/manager")),
            ("sidecar", format!("{MODULE}/sidecar")),
        ];
        for (program, package) in packages {
            let mut build = Command::new("go");
            build
                .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"])
                .args(["-ldflags", "-s -w", "-o"])
                .arg(directory.join(program))
                .arg(package)
                .env("CGO_ENABLED", "0")
                .current_dir(&module);
            fetch::run(&mut build)?;
        }
        copy_definitions(&module, &directory.join("crds"))
    })
}

/// Its CustomResourceDefinitions are files of the module.
fn copy_definitions(module: &Path, to: &Path) -> Result<()> {
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Dir}}", MODULE])
        .current_dir(module);
    let source = fetch::run(&mut list)?;
    let source = Path::new(source.trim()).join("config/crd/bases");
    fs::create_dir(to)?;
    for file in fs::read_dir(&source).with_context(|| source.display().to_string())? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}
