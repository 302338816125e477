//! pyghmi's BMC, from PyPI: see `crates/testbed/pyghmi/bmc.py`.

use anyhow::Result;
use serde_json::json;

use super::{Brand, Order};
use crate::{paths::workspace, pki::write_private, process::Spec, pypi};

pub(super) async fn spec(order: &Order<'_>) -> Result<Spec> {
    let sources = workspace().join("crates/testbed/pyghmi");
    let requirements = sources.join("requirements.txt");
    let python = move || pypi::python("pyghmi", &requirements);
    let python = tokio::task::spawn_blocking(python).await??;
    let settings = json!({
        "address": order.address.ip(),
        "port": order.address.port(),
        "uuid": order.guid.to_string(),
        "socket": order.socket,
        "username": order.credentials.username,
        "password": order.credentials.password,
    });
    let file = order.scratch.join("settings.json");
    write_private(&file, &settings.to_string())?;
    let spec = Brand::Pyghmi.spec(python, order.log);
    Ok(spec
        .args([sources.join("bmc.py"), file])
        // Neither byte code beside our sources nor a log that comes late.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUNBUFFERED", "1"))
}
