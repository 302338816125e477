//! A thousand machines of one provider, probed as the operator probes them in peace time: first each by itself, as fast as the account lets probes
//! through, and then once a minute by lists.

use anyhow::{Context, Result, bail};
use fencing_api::device::{AzureDriver, OpenstackDriver, ProxmoxDriver};
use fencing_core::reading::PowerState;
use fencing_drivers::address::{Address, AddressRules};
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::past::Past;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, Extent, FenceDriver, NodeFacts, Parts};
use fencing_testbed::bench::mib;
use fencing_testbed::bench::table::{Table, spread};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::azure::{self, Azure};
use fencing_testbed::cloud::openstack::{self, Openstack};
use fencing_testbed::cloud::proxmox::{self, Proxmox};
use fencing_testbed::cloud::{Cloud, Page, uuid_of};
use fencing_testbed::usage::Usage;
use serde_json::json;
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
/// The goals: percent of one core, and mebibytes.
const SHARE_MAX: f64 = 2.0;
const MEMORY_MAX: f64 = 16.0;
/// The providers, and how many machines a page of their lists has: all in one, each page behind the last machine of the one before, and each
/// behind a link.
const PROVIDERS: [(&str, &str); 3] = [("proxmox", "all"), ("openstack", "100"), ("azure", "50")];

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
        "azure" => {
            let page = Azure {
                others: machines,
                is_instance: false,
            };
            serve(page).await
        }
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

/// What one provider's machines have cost.
struct Cost {
    calls: f64,
    share: f64,
}

/// Each provider, as a table, and whether the goals are met.
pub async fn measure(machines: usize, minutes: usize) -> Result<String> {
    let titles = [
        "calls a minute",
        "calls for 100 machines",
        "CPU of one core",
        "peak memory beyond the start",
    ];
    let mut table = Table::new(
        &format!(
            "{machines} machines of one provider, each probed once in {PERIOD:?}, over {minutes} of them"
        ),
        titles.map(str::to_owned),
    );
    let mut missed = Vec::new();
    for (name, pages) in PROVIDERS {
        let mut provider = Provider::start(name, machines).await?;
        forget_peak()?;
        let before = Usage::of("self")?.resident_bytes;
        let drivers = drivers(name, &provider, machines)?;
        let first = u32::try_from(machines)?;
        eprintln!("{name}: each machine by itself, as fast as the account is asked");
        let first = cost(&mut provider, &drivers, Extent::Needed, PACE * first).await?;
        let mut all = Vec::new();
        for minute in 1..=minutes {
            eprintln!("{name}: by lists, minute {minute} of {minutes}");
            all.push(cost(&mut provider, &drivers, Extent::Listed, PERIOD).await?);
        }
        let peak = Usage::of("self")?.peak_bytes.saturating_sub(before);
        let hundreds = machines as f64 / 100.0;
        let of = |pick: fn(&Cost) -> f64, by: f64| all.iter().map(move |it| pick(it) / by);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let calls = most(&mut of(|it| it.calls, hundreds));
        let share = most(&mut of(|it| it.share, 1.0));
        missed.extend((share > SHARE_MAX).then(|| format!("{name}: {share:.2} % of a core")));
        missed.extend((mib(peak) > MEMORY_MAX).then(|| format!("{name}: {:.1} MiB", mib(peak))));
        missed.extend((calls > 1.0).then(|| {
            format!("{name}: {calls:.1} calls for 100 machines, as a page of it has {pages}")
        }));
        let row = [
            spread("", 0, of(|it| it.calls, 1.0)),
            spread("", 2, of(|it| it.calls, hundreds)),
            spread("%", 2, of(|it| it.share, 1.0)),
            format!("{:.1} MiB", mib(peak)),
        ];
        table.words(&format!("{name}, pages of {pages}"), row);
        eprintln!("{name}: {} calls for the first look at each", first.calls);
    }
    let verdict = match missed.is_empty() {
        true => "met".to_owned(),
        false => format!("missed by {}", missed.join("; ")),
    };
    Ok(format!(
        "{table}\nGoals: {SHARE_MAX} % of a core, {MEMORY_MAX} MiB, one call a minute for 100 machines: {verdict}.\n"
    ))
}

/// Probes each machine once in this time, and counts.
async fn cost(
    provider: &mut Provider,
    drivers: &[Arc<dyn FenceDriver>],
    extent: Extent,
    period: Duration,
) -> Result<Cost> {
    let (calls, cpu) = (provider.requests().await?, Usage::of("self")?.cpu);
    let begun = Instant::now();
    probe_all(drivers, extent, period).await?;
    let took = begun.elapsed();
    let cpu = Usage::of("self")?.cpu - cpu;
    Ok(Cost {
        calls: (provider.requests().await? - calls) as f64,
        share: cpu.as_secs_f64() / took.as_secs_f64() * 100.0,
    })
}

/// The most that is resident is counted from now on. Source: proc_pid_clear_refs(5).
fn forget_peak() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("/proc/self/clear_refs")
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

/// The driver of a provider, and its Secret.
type Made = (Box<dyn DriverKind>, Vec<(&'static str, &'static str)>);

fn made(name: &str, url: &str) -> Result<Made> {
    Ok(match name {
        "proxmox" => {
            let [id, secret] = proxmox::TOKEN;
            let kind = serde_json::from_value::<ProxmoxDriver>(json!({"address": url}))?;
            (
                Box::new(kind),
                vec![("tokenID", id), ("tokenSecret", secret)],
            )
        }
        "openstack" => {
            let [id, secret] = openstack::CREDENTIAL;
            let kind = serde_json::from_value::<OpenstackDriver>(json!({"authURL": url}))?;
            let secret = vec![
                ("applicationCredentialID", id),
                ("applicationCredentialSecret", secret),
            ];
            (Box::new(kind), secret)
        }
        _ => {
            let [tenant, client, secret] = azure::APP;
            let settings = json!({"address": url, "loginAddress": url});
            let kind = serde_json::from_value::<AzureDriver>(settings)?;
            let secret = vec![
                ("tenantID", tenant),
                ("clientID", client),
                ("clientSecret", secret),
            ];
            (Box::new(kind), secret)
        }
    })
}

fn provider_id(name: &str, number: usize) -> String {
    let (subscription, group) = (azure::SUBSCRIPTION, azure::GROUP);
    match name {
        "proxmox" => format!("proxmox://lab/{}", proxmox::vm_of(number)),
        "openstack" => format!("openstack:///{}", uuid_of(number)),
        _ => format!(
            "azure:///subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute/virtualMachines/other-{number}"
        ),
    }
}

fn drivers(name: &str, provider: &Provider, machines: usize) -> Result<Vec<Arc<dyn FenceDriver>>> {
    let (kind, secret) = made(name, &provider.url)?;
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
            provider_id: provider_id(name, number),
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
