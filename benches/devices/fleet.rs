//! A thousand machines of one provider, probed as the operator probes them in peace time: first each by itself, as fast as the account lets probes
//! through, and then once a minute by lists.

use anyhow::{Context, Result, bail};
use fencing_api::device::{OpenstackDriver, ProxmoxDriver};
use fencing_core::reading::PowerState;
use fencing_drivers::address::{Address, AddressRules};
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::past::Past;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, Extent, FenceDriver, NodeFacts, Parts};
use fencing_testbed::bench::table::Table;
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::openstack::{self, Openstack};
use fencing_testbed::cloud::proxmox::{self, Proxmox};
use fencing_testbed::cloud::{Cloud, Page, uuid_of};
use fencing_testbed::usage::Usage;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

/// Each machine is probed once in this time.
const PERIOD: Duration = Duration::from_mins(1);
/// Pause of a probe that has found no turn, as in `src/shell/probe/schedule.rs`.
const BUSY_PAUSE: Duration = Duration::from_secs(2);
/// From the beginning of a probe to that of the next one at the earliest, as there.
const PACE: Duration = Duration::from_millis(20);
const MIB: f64 = 1024.0 * 1024.0;

/// A provider of ours, in a process of its own.
struct Provider {
    url: String,
    ca_pem: String,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Provider {
    async fn start(name: &str, machines: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["provide", name, &machines.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = child.stdin.take().context("its standard input")?;
        let answers = child.stdout.take().context("its standard output")?;
        let mut answers = BufReader::new(answers).lines();
        let said = answers
            .next_line()
            .await?
            .context("the provider has ended")?;
        let (url, ca_pem): (String, String) = serde_json::from_str(&said)?;
        Ok(Self {
            url,
            ca_pem,
            orders,
            answers,
            _child: child,
        })
    }

    /// How many requests it has had.
    async fn requests(&mut self) -> Result<u64> {
        self.orders.write_all(b"requests\n").await?;
        let said = self.answers.next_line().await?;
        Ok(said.context("the provider has ended")?.parse()?)
    }
}

/// The process itself, for the command `provide`: it ends with its standard input.
pub async fn provide(name: &str, machines: usize) -> Result<()> {
    match name {
        "proxmox" => serve(Proxmox { others: machines }).await,
        "openstack" => serve(Openstack { others: machines }).await,
        other => bail!("there is no provider {other}"),
    }
}

async fn serve(page: impl Page) -> Result<()> {
    let ca = BmcCa::new("Clouds of a benchmark")?;
    let plug = Arc::new(Plug::new("node-0", uuid_of(0)));
    let cloud = Cloud::start(Ipv4Addr::LOCALHOST.into(), plug, page, &ca)?;
    println!("{}", json!([cloud.url(), cloud.ca_pem()]));
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while orders.next_line().await?.is_some() {
        println!("{}", cloud.requests());
    }
    Ok(())
}

/// Both providers, as a table.
pub async fn measure(machines: usize) -> Result<String> {
    let titles = [
        "requests",
        "took",
        "CPU of one core",
        "resident memory beyond the start",
    ];
    let mut table = Table::new(
        &format!(
            "{machines} machines of one provider: read for the first time, then probed once in {PERIOD:?}"
        ),
        titles.map(str::to_owned),
    );
    for name in ["proxmox", "openstack"] {
        let mut provider = Provider::start(name, machines).await?;
        let drivers = drivers(name, &provider, machines)?;
        let before = Usage::of("self")?.resident_bytes;
        for (extent, period, what) in [
            (
                Extent::Needed,
                PACE * u32::try_from(machines)?,
                "each by itself",
            ),
            (Extent::Listed, PERIOD, "by lists"),
        ] {
            eprintln!("{name}, {what}: a minute or more");
            let (requests, cpu) = (provider.requests().await?, Usage::of("self")?.cpu);
            let begun = Instant::now();
            probe_all(&drivers, extent, period).await?;
            let took = begun.elapsed();
            let usage = Usage::of("self")?;
            let requests = provider.requests().await? - requests;
            let share = (usage.cpu - cpu).as_secs_f64() / took.as_secs_f64() * 100.0;
            let grown = usage.resident_bytes.saturating_sub(before) as f64 / MIB;
            table.words(
                &format!("{name}, {what}"),
                [
                    requests.to_string(),
                    format!("{:.0} s", took.as_secs_f64()),
                    format!("{share:.2} %"),
                    format!("{grown:.1} MiB"),
                ],
            );
        }
    }
    Ok(table.to_string())
}

/// Probes each once, one after the other over this time or longer: whoever finds no turn comes again.
async fn probe_all(
    drivers: &[Arc<dyn FenceDriver>],
    extent: Extent,
    period: Duration,
) -> Result<()> {
    let begun = Instant::now();
    let pause = period / u32::try_from(drivers.len())?;
    let mut probes = JoinSet::new();
    for (number, driver) in (0_u32..).zip(drivers) {
        let driver = Arc::clone(driver);
        probes.spawn(async move {
            let mut session = driver.open();
            while !session.take_turn_now() {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            let probe = session.probe(extent).await?;
            match probe.reading.state {
                PowerState::On => Ok(()),
                other => bail!("{} reads {other:?}", driver.target()),
            }
        });
        tokio::time::sleep_until((begun + pause * (number + 1)).into()).await;
    }
    while let Some(probed) = probes.join_next().await {
        probed??;
    }
    Ok(())
}

fn drivers(name: &str, provider: &Provider, machines: usize) -> Result<Vec<Arc<dyn FenceDriver>>> {
    let (kind, secret): (Box<dyn DriverKind>, [(&str, &str); 2]) = match name {
        "proxmox" => {
            let settings = json!({"address": provider.url});
            let [id, secret] = proxmox::TOKEN;
            let kind = serde_json::from_value::<ProxmoxDriver>(settings)?;
            (Box::new(kind), [("tokenID", id), ("tokenSecret", secret)])
        }
        _ => {
            let settings: Value = json!({"authURL": provider.url});
            let [id, secret] = openstack::CREDENTIAL;
            let kind = serde_json::from_value::<OpenstackDriver>(settings)?;
            let secret = [
                ("applicationCredentialID", id),
                ("applicationCredentialSecret", secret),
            ];
            (Box::new(kind), secret)
        }
    };
    let data: BTreeMap<String, Vec<u8>> = secret
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()))
        .collect();
    let keys = kind.credential_keys();
    let credentials = Arc::new(Credentials::with_keys(
        "cloud",
        keys,
        &data,
        &BTreeMap::new(),
    )?);
    let rules = Arc::new(AddressRules::new(vec!["127.0.0.0/8".parse()?], Vec::new()));
    let accounts = Arc::default();
    let made = (1..=machines).map(|number| {
        let node = NodeFacts {
            provider_id: match name {
                "proxmox" => format!("proxmox://lab/{}", proxmox::vm_of(number)),
                _ => format!("openstack:///{}", uuid_of(number)),
            },
            system_uuid: uuid_of(number),
            ..NodeFacts::named(&format!("node-{number}"))
        };
        let parts = Parts {
            node,
            address: Address::parse(&provider.url)?,
            secret: ("cloud".to_owned(), "1".to_owned()),
            credentials: Arc::clone(&credentials),
            verification: CertificateCheck::Full {
                ca_bundle_pem: Some(provider.ca_pem.as_bytes().to_vec()),
            },
            rules: Arc::clone(&rules),
            call_timeout: Duration::from_secs(30),
            command_timeout: Duration::from_secs(5),
            past: Past::default(),
            keyring: Arc::default(),
            accounts: Arc::clone(&accounts),
            clock: Clock::SYSTEM,
        };
        Ok(kind.make(parts)?)
    });
    made.collect()
}
