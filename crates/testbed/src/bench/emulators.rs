//! Emulated devices in a process of their own: the program that measures, started by itself as `emulate IPMI REDFISH`, which reads orders from
//! its standard input.

use crate::bmc::{Bmc, BmcCa, Credentials, Line, Plug};
use crate::ipmi::{IpmiBmc, Settings};
use crate::power::Power;
use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Turns every machine on.
const ON: &str = "on";
/// Turns machines off, by the number of the first and of the one behind the last.
const CUT: &str = "cut ";
/// The network of the Redfish BMCs is lost, or there again.
const DARK: &str = "dark";
const UP: &str = "up";
/// Asks how many machines are off.
const OFF_COUNT: &str = "off";
/// Asks how many datagrams have come to the IPMI BMCs so far.
const DATAGRAM_COUNT: &str = "datagrams";

/// What there is.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Fleet {
    /// IPMI BMCs.
    pub ipmi: Vec<Emulated>,
    /// Redfish BMCs.
    pub redfish: Vec<Emulated>,
    /// The authority of the latter's certificates, PEM.
    pub ca_pem: String,
}

/// One BMC.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Emulated {
    /// Where it listens.
    pub address: SocketAddr,
    /// Who its machine is.
    pub system_uuid: String,
}

/// The process. It ends with this.
pub struct Emulators {
    /// What runs in it.
    pub fleet: Fleet,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Emulators {
    /// Starts so many, each at an address of its own, their machines on.
    pub async fn start(ipmi: usize, redfish: usize) -> Result<Self> {
        Self::start_by(&std::env::current_exe()?, ipmi, redfish).await
    }

    /// The same by this program, which knows the command `emulate`.
    pub async fn start_by(program: &Path, ipmi: usize, redfish: usize) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["emulate", &ipmi.to_string(), &redfish.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = child.stdin.take().context("its standard input")?;
        let answers = child.stdout.take().context("its standard output")?;
        let mut this = Self {
            fleet: Fleet::default(),
            orders,
            answers: BufReader::new(answers).lines(),
            _child: child,
        };
        this.fleet = serde_json::from_str(&this.answer().await?)?;
        Ok(this)
    }

    /// Turns every machine on.
    pub async fn turn_on(&mut self) -> Result<()> {
        let off = self.ask(ON).await?;
        ensure!(off == 0, "{off} machines stay off");
        Ok(())
    }

    /// Turns these off, the IPMI BMCs' first.
    pub async fn turn_off(&mut self, machines: Range<usize>) -> Result<()> {
        let Range { start, end } = machines;
        self.ask(&format!("{CUT}{start} {end}")).await.map(drop)
    }

    /// Nothing answers at the addresses of the Redfish BMCs any more, not even TCP ([`Line::Dark`]); or all of them do again.
    pub async fn set_dark(&mut self, is_dark: bool) -> Result<()> {
        let order = if is_dark { DARK } else { UP };
        self.ask(order).await.map(drop)
    }

    /// How many machines are off.
    pub async fn off_count(&mut self) -> Result<u64> {
        self.ask(OFF_COUNT).await
    }

    /// How many datagrams the IPMI BMCs have received.
    pub async fn datagram_count(&mut self) -> Result<u64> {
        self.ask(DATAGRAM_COUNT).await
    }

    async fn ask(&mut self, order: &str) -> Result<u64> {
        self.orders
            .write_all(format!("{order}\n").as_bytes())
            .await?;
        Ok(self.answer().await?.parse()?)
    }

    async fn answer(&mut self) -> Result<String> {
        let line = self.answers.next_line().await?;
        line.context("the emulators have ended")
    }
}

/// The process itself, for the command `emulate`: it ends with its standard input.
pub async fn serve(ipmi: usize, redfish: usize) -> Result<()> {
    let plugs: Vec<Arc<Plug>> = (0..ipmi + redfish)
        .map(|number| {
            let uuid = format!("4c4c4544-0042-3510-8054-{number:012x}");
            Arc::new(Plug::new(format!("node-{number}"), uuid))
        })
        .collect();
    let (of_ipmi, of_redfish) = plugs.split_at(ipmi);
    let mut fleet = Fleet::default();
    let mut ipmi_bmcs = Vec::new();
    for plug in of_ipmi {
        let bmc = IpmiBmc::start(
            own_address(ipmi_bmcs.len())?,
            plug.clone(),
            Settings::default(),
        )?;
        fleet.ipmi.push(emulated(bmc.address(), plug));
        ipmi_bmcs.push(bmc);
    }
    let ca = BmcCa::new("BMCs of a benchmark")?;
    let mut redfish_bmcs = Vec::new();
    for plug in of_redfish {
        let address = own_address(ipmi + redfish_bmcs.len())?;
        let bmc = Bmc::start(address, plug.clone(), Credentials::default(), &ca)?;
        fleet.redfish.push(emulated(bmc.address(), plug));
        redfish_bmcs.push(bmc);
    }
    fleet.ca_pem = ca.pem();
    println!("{}", serde_json::to_string(&fleet)?);
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Some(order) = orders.next_line().await? {
        if order == ON {
            plugs.iter().for_each(|plug| plug.set_power(true));
        }
        if let Some((start, end)) = order.strip_prefix(CUT).and_then(|it| it.split_once(' ')) {
            let cut = plugs.get(start.parse()?..end.parse()?);
            let cut = cut.context("there are not so many machines")?;
            cut.iter().for_each(|plug| plug.set_power(false));
        }
        match order.as_str() {
            DARK => set_line(&redfish_bmcs, Line::Dark)?,
            UP => set_line(&redfish_bmcs, Line::Up)?,
            _ => {}
        }
        let count = match order.as_str() {
            DATAGRAM_COUNT => ipmi_bmcs.iter().map(|bmc| bmc.log().len()).sum(),
            _ => plugs.iter().filter(|plug| !plug.is_on()).count(),
        };
        println!("{count}");
    }
    Ok(())
}

/// Of all of them at once: each that goes dark waits for the kernel's silence.
fn set_line(bmcs: &[Bmc], line: Line) -> Result<()> {
    std::thread::scope(|scope| {
        let set = bmcs
            .iter()
            .map(|bmc| scope.spawn(move || bmc.set_line(line)));
        let set: Vec<_> = set.collect();
        let mut set = set.into_iter().map(|it| it.join());
        set.try_for_each(|it| it.map_err(|_| anyhow!("a line stays as it was"))?)
    })
}

fn emulated(address: SocketAddr, plug: &Plug) -> Emulated {
    Emulated {
        address,
        system_uuid: plug.system_uuid().to_owned(),
    }
}

/// Addresses that nobody else in this repository uses, but for another run of this benchmark: then it is another port.
fn own_address(number: usize) -> Result<IpAddr> {
    let (third, fourth) = (number / 250, number % 250 + 1);
    Ok(Ipv4Addr::new(127, 91, u8::try_from(third)?, u8::try_from(fourth)?).into())
}
