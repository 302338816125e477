//! OpenIPMI's `ipmi_sim`, out of Debian's package `openipmi`.

use std::fs;

use anyhow::{Result, ensure};

use super::{Brand, Order};
use crate::{debian::Packages, paths::workspace, pki::write_private, process::Spec};

/// A BMC at the usual address with nothing attached to it.
const CONTROLLER: &str = "\
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02
mc_enable 0x20
";

pub(super) async fn spec(order: &Order<'_>) -> Result<Spec> {
    let unpack = || Packages::unpack("openipmi", &["openipmi"]);
    let packages = tokio::task::spawn_blocking(unpack).await??;
    let path = |name| order.scratch.join(name);
    write_private(&path("lan.conf"), &settings(order)?)?;
    fs::write(path("node.emu"), CONTROLLER)?;
    fs::create_dir(path("state"))?;
    let spec = Brand::IpmiSim
        .spec("ipmi_sim", order.log)
        // Without a console on standard input.
        .args(["-n"])
        .args(["-c".into(), path("lan.conf")])
        .args(["-f".into(), path("node.emu")])
        .args(["-s".into(), path("state")]);
    let environment = packages.environment().into_iter();
    Ok(environment.fold(spec, |spec, (key, value)| spec.env(key, value)))
}

/// The language of the file is described in ipmi_lan(5).
fn settings(order: &Order) -> Result<String> {
    let hook = workspace().join("crates/testbed/ipmi-sim/chassis.py");
    let (ip, port) = (order.address.ip(), order.address.port());
    let (hook, socket) = (hook.display(), order.socket.display());
    let user = &order.credentials;
    // As SMBIOS writes it, which is what most BMCs do.
    let guid = order.guid.to_bytes_le().map(|byte| format!("{byte:02x}"));
    let guid = guid.concat();
    let text = format!(
        "name \"lab\"\n\
         set_working_mc 0x20\n\
         startlan 1\n\
         addr {ip} {port}\n\
         priv_limit admin\n\
         guid {guid}\n\
         endlan\n\
         chassis_control \"python3 -B {hook} {socket} 0x20\"\n\
         user 1 false \"\" \"\" user 10\n\
         user 2 true \"{}\" \"{}\" operator 10\n",
        user.username, user.password,
    );
    // It splits the command at white space, and knows no way to write a quote.
    let is_plain = |text: &str| !text.contains(['"', '\\']) && !text.contains(char::is_whitespace);
    let words = [&user.username, &user.password, &hook.to_string()];
    ensure!(
        words.into_iter().all(|word| is_plain(word)),
        "ipmi_sim takes no spaces, quotes or backslashes, neither in names nor in passwords nor in the path of this checkout"
    );
    Ok(text)
}
