//! net-snmp's agent, which none of us wrote, in front of an emulated PDU whose outlets feed machines of the lab.
//!
//! The agent speaks SNMP 2c and 3; what it says of outlets comes from `crates/testbed/snmpd/pdu.sh`, which keeps each in a file. The files are
//! watched, and a machine is dark when every outlet that feeds it is off, on however many PDUs they are. As with the
//! relays of a real PDU, that is some milliseconds after the answer. One thing about the agent is worth knowing: it runs the
//! script once and remembers the answer for 30 seconds if the next question is the same, so that one outlet whose state alone
//! is asked for reads what it was when a hand has switched it since. A command makes it forget.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::{
    debian::Packages,
    paths::workspace,
    pki::write_private,
    ports::Port,
    power::Power,
    process::{Guard, Process, Spec},
};

/// How long it may take until the agent answers. It is up in a tenth of a second; a laden machine takes longer.
const START: Duration = Duration::from_secs(60);
/// How often the outlets are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Community that may switch.
pub const COMMUNITY: &str = "outlets-of-the-lab";
/// Community that may only look.
pub const READ_ONLY: &str = "looks-only";
/// User of version 3 that may switch: SHA-256 and AES-128.
pub const USER: &str = "fencer";
/// User of version 3 that may only look, with the same passwords.
pub const WATCHER: &str = "watcher";
/// User of version 3 that may switch: SHA-512 and no encryption, with the same password.
pub const SIGNER: &str = "signer";
/// What the users sign with.
pub const AUTHENTICATION_PASSWORD: &str = "signed by the lab";
/// What the users encrypt with.
pub const PRIVACY_PASSWORD: &str = "hidden by the lab";

/// What brings power to a machine: it is dark when all of its outlets are off, and has power again when one of them has.
pub struct Feed {
    machine: Arc<dyn Power>,
    /// Its outlets by PDU and number, and whether each is on.
    outlets: Mutex<BTreeMap<(SocketAddr, u32), bool>>,
}

impl Feed {
    /// Of a machine that is not plugged in anywhere yet.
    pub fn new(machine: Arc<dyn Power>) -> Arc<Self> {
        Arc::new(Self {
            machine,
            outlets: Mutex::default(),
        })
    }

    /// An outlet is on or off now.
    fn set(&self, outlet: (SocketAddr, u32), on: bool) {
        let mut outlets = self.outlets.lock().expect("no panic at an outlet");
        let had_power = outlets.values().any(|on| *on);
        outlets.insert(outlet, on);
        let has_power = outlets.values().any(|on| *on);
        // Under the lock, so that two outlets that are switched at once end in the state of the later one.
        if had_power != has_power {
            self.machine.set_power(has_power);
        }
    }
}

/// A running PDU. It ends when dropped, and with the guard.
pub struct Pdu {
    address: SocketAddr,
    process: Process,
    watch: JoinHandle<()>,
    scratch: TempDir,
    _port: Port,
}

impl Pdu {
    /// Starts one at this address, on a free port. All outlets are on. Fetches the agent from Debian's archive first, if that
    /// has not been done. Its log goes into `logs`.
    pub async fn start(
        address: IpAddr,
        outlets: BTreeMap<u32, Arc<Feed>>,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let packages =
            tokio::task::spawn_blocking(|| Packages::unpack("snmpd", &["snmpd"])).await??;
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-pdu-")
            .tempdir()?;
        guard.remove_at_end(scratch.path())?;
        let port = Port::reserve()?;
        let address = SocketAddr::new(address, port.number());

        let states = scratch.path().join("outlets");
        fs::create_dir(&states)?;
        for (number, feed) in &outlets {
            fs::write(states.join(number.to_string()), "on\n")?;
            feed.set((address, *number), true);
        }
        let file = scratch.path().join("snmpd.conf");
        write_private(&file, &configuration(address, &states)?)?;
        let log = logs.join(format!("pdu-{}.log", address.port()));
        let arguments = ["-f", "-Lo", "-C", "-c"].map(PathBuf::from);
        let process = Spec::new("snmpd", "snmpd", &log)
            .args(arguments.into_iter().chain([file]))
            // What it would remember from one start to the next.
            .env("SNMP_PERSISTENT_DIR", scratch.path().join("persistent"))
            .env("SNMPCONFPATH", scratch.path())
            .env("MIBS", "");
        let process = packages
            .environment()
            .into_iter()
            .fold(process, |process, (key, value)| process.env(key, value))
            .spawn(guard)?;
        let watch = tokio::spawn(watch(states, address, outlets));
        let this = Self {
            address,
            process,
            watch,
            scratch,
            _port: port,
        };
        this.wait_until_it_listens().await?;
        Ok(this)
    }

    async fn wait_until_it_listens(&self) -> Result<()> {
        // It says its version once its sockets are open.
        let end = Instant::now() + START;
        while !self.process.tail(20).contains("NET-SNMP version") {
            self.process.check()?;
            ensure!(Instant::now() < end, "snmpd does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Where it listens, UDP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Is the outlet on?
    pub fn is_on(&self, outlet: u32) -> Result<bool> {
        let word = fs::read_to_string(self.state(&outlet.to_string()))
            .with_context(|| format!("there is no outlet {outlet}"))?;
        Ok(word.trim() == "on")
    }

    /// Switches an outlet by hand, at its front panel.
    pub fn switch(&self, outlet: u32, on: bool) -> Result<()> {
        let fresh = self.state("by-hand");
        fs::write(&fresh, if on { "on\n" } else { "off\n" })?;
        Ok(fs::rename(fresh, self.state(&outlet.to_string()))?)
    }

    /// From now on it accepts commands and ignores them, or not any more.
    pub fn ignore_commands(&self, ignores: bool) -> Result<()> {
        self.mark("deaf", ignores)
    }

    /// From now on it leaves the states of outlets out, or not any more.
    pub fn withhold_states(&self, withholds: bool) -> Result<()> {
        self.mark("mute", withholds)
    }

    /// From now on a port of PoE that is off is enabled, and looks for a device to power, or not any more.
    pub fn search(&self, searches: bool) -> Result<()> {
        self.mark("searching", searches)
    }

    fn mark(&self, name: &str, is_set: bool) -> Result<()> {
        let file = self.state(name);
        match is_set {
            true => Ok(fs::write(file, "")?),
            false => Ok(fs::remove_file(file)?),
        }
    }

    fn state(&self, name: &str) -> PathBuf {
        self.scratch.path().join("outlets").join(name)
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl Drop for Pdu {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// The agent's configuration: who may do what, and the script behind two subtrees.
fn configuration(address: SocketAddr, states: &Path) -> Result<String> {
    let script = workspace().join("crates/testbed/snmpd/pdu.sh");
    let (script, states) = (script.to_str(), states.to_str());
    let (script, states) = script.zip(states).context("a path that is not UTF-8")?;
    let passwords = format!("\"{AUTHENTICATION_PASSWORD}\" AES \"{PRIVACY_PASSWORD}\"");
    let transport = if address.is_ipv4() { "udp" } else { "udp6" };
    Ok(format!(
        "agentaddress {transport}:{address}\n\
         rwcommunity {COMMUNITY}\n\
         rocommunity {READ_ONLY}\n\
         createUser {USER} SHA-256 {passwords}\n\
         rwuser {USER} priv\n\
         createUser {WATCHER} SHA-256 {passwords}\n\
         rouser {WATCHER} priv\n\
         createUser {SIGNER} SHA-512 \"{AUTHENTICATION_PASSWORD}\"\n\
         rwuser {SIGNER} auth\n\
         sysobjectid .1.3.6.1.4.1.318.1.3.4.5\n\
         sysdescr Switched rack PDU of the lab\n\
         pass .1.3.6.1.4.1.318.1.1 /bin/sh {script} {states}\n\
         pass .1.3.6.1.4.1.13742.6.4.1.2.1 /bin/sh {script} {states}\n\
         pass .1.3.6.1.2.1.105.1.1.1 /bin/sh {script} {states}\n"
    ))
}

/// Passes on to the machines what happens to their outlets.
async fn watch(states: PathBuf, address: SocketAddr, outlets: BTreeMap<u32, Arc<Feed>>) {
    let mut known: BTreeMap<u32, bool> = outlets.keys().map(|number| (*number, true)).collect();
    loop {
        for (number, feed) in &outlets {
            let Ok(word) = fs::read_to_string(states.join(number.to_string())) else {
                continue;
            };
            let on = word.trim() == "on";
            if known.insert(*number, on) != Some(on) {
                let (feed, outlet) = (Arc::clone(feed), (address, *number));
                // Cutting the power of a real machine kills processes and waits for them.
                let switched = tokio::task::spawn_blocking(move || feed.set(outlet, on)).await;
                if let Err(error) = switched {
                    tracing::warn!(%error, "an outlet was not switched");
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bmc::Plug;

    #[test]
    fn a_machine_is_dark_when_its_last_outlet_is_off() {
        let plug = Arc::new(Plug::new("m", "u"));
        let feed = Feed::new(plug.clone());
        let pdu = |port| SocketAddr::from(([127, 0, 0, 1], port));
        feed.set((pdu(1), 3), true);
        feed.set((pdu(2), 3), true);
        feed.set((pdu(1), 3), false);
        assert!(plug.is_on());
        feed.set((pdu(2), 3), false);
        assert!(!plug.is_on());
        feed.set((pdu(1), 3), true);
        assert!(plug.is_on());
    }
}
