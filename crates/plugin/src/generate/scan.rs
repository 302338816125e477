//! FenceDevices out of what BMCs say of themselves: the one command of the plugin that talks to a BMC, and it only reads.
//!
//! It asks the addresses that it is given and no others: first without a login whether there is a Redfish service, then, once a human agrees, with
//! one for the systems and their UUIDs. Which Node a system is follows from `status.nodeInfo.systemUUID`, by the rule that the operator pins machines
//! with. BMCs are logged in to one after the other: as long as none has taken the password, one that refuses it ends the scan,
//! so that a typing error is tried once.

mod account;
mod mapping;

use super::super::cluster::Cluster;
use super::super::output::complain;
use super::super::reach::Reach;
use super::super::{Error, table};
use super::devices::{Common, Proposals, object_name};
use account::Account;
use fencing_cluster::slim::SlimNode;
use fencing_drivers::DeviceError;
use fencing_drivers::address::{Address, AddressRules};
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::error::printable;
use fencing_drivers::http::Target;
use fencing_drivers::redfish::survey::{Service, Survey};
use fencing_drivers::tls::{self, CertificateCheck};
use futures::stream::{self, StreamExt as _};
use kube::api::ListParams;
use mapping::Machine;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// Time for one BMC to answer one question: slow ones take seconds for each request.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// BMCs that are asked at the same time whether they are one.
const AT_ONCE: usize = 8;
/// Of a ConfigMap that the user has not named.
const CA: &str = "bmc-ca";

/// What the scan takes.
#[derive(Debug, Clone, clap::Args)]
pub struct ScanArgs {
    /// Scan these addresses too, one a line; - is standard input
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "from_bmh")]
    addresses: Option<String>,

    /// User that the scan logs in with, to read
    #[arg(long, value_name = "USER", conflicts_with = "from_bmh")]
    username: Option<String>,

    /// Take the account's password from standard input
    #[arg(long, requires = "username")]
    password_stdin: bool,

    /// Log in without asking
    #[arg(long, requires = "username")]
    yes: bool,

    /// CA of the BMCs' certificates, PEM [default: the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "from_bmh")]
    ca: Option<PathBuf>,

    /// Do not verify certificates: any host that answers gets the password
    #[arg(long, conflicts_with_all = ["from_bmh", "ca"])]
    insecure: bool,

    /// Secret of the FenceDevices, in the operator's namespace
    #[arg(long, value_name = "NAME", default_value = "bmc", value_parser = object_name, conflicts_with = "from_bmh")]
    credentials: String,
}

/// Asks the BMCs.
///
/// # Errors
/// [`Error`].
pub async fn devices(
    reach: &Reach,
    listed: Vec<String>,
    args: ScanArgs,
    common: Common,
) -> Result<Proposals, Error> {
    let addresses = addresses(listed, args.addresses.as_deref())?;
    let way = Way::new(&args, common.rules())?;
    if args.insecure {
        complain(
            "warning: --insecure: certificates are not verified, any host that answers gets the password",
        );
    }
    let seen = stream::iter(&addresses)
        .map(|address| way.first_look(address))
        .buffered(AT_ONCE)
        .collect::<Vec<_>>()
        .await;
    eprint!("{}", shown(&seen));
    let there: Vec<&Address> = seen
        .iter()
        .filter(|(_, it)| it.is_ok())
        .map(|(it, _)| *it)
        .collect();
    if there.is_empty() {
        return Err(Error::No(
            "no address answers as a Redfish service; correct the addresses".to_owned(),
        ));
    }
    // Before anybody logs in: without Nodes it would be for nothing.
    let cluster = Cluster::of(reach).await?;
    let nodes = cluster
        .list(&cluster.api::<SlimNode>(), &ListParams::default())
        .await?;
    let account = Account::agreed(there.len(), args.username, args.password_stdin, args.yes)?;
    let mut machines = Vec::new();
    let mut silent = Vec::new();
    let mut is_accepted = false;
    for address in there {
        match way
            .survey(address, Arc::clone(&account.credentials))
            .systems()
            .await
        {
            Ok(systems) => {
                is_accepted = true;
                machines.extend(Machine::all(address, systems));
            }
            Err(error) if !is_accepted && is_refusal(&error) => {
                return Err(Error::No(format!(
                    "{address} rejected user or password, so no other BMC was tried; type it again, or unlock the account"
                )));
            }
            Err(error) => silent.push(format!("{address}: {error}")),
        }
    }
    let refused = seen
        .iter()
        .filter_map(|(address, it)| Some((address, it.as_ref().err()?)));
    silent.extend(refused.map(|(address, error)| format!("{address}: {error}")));
    let writing = mapping::Writing {
        namespace: cluster.namespace,
        username: account.username,
        credentials: args.credentials,
        ca_config_map: common
            .ca_config_map
            .clone()
            .or(args.ca.as_ref().map(|_| CA.to_owned())),
        ca_file: args.ca,
        is_insecure: args.insecure,
        common,
    };
    Ok(writing.proposals(&machines, &nodes, &silent))
}

/// May the account be why? Some BMCs answer 403 to an account that they have locked.
fn is_refusal(error: &DeviceError) -> bool {
    matches!(
        error,
        DeviceError::AuthFailed { .. }
            | DeviceError::BasicNotOffered { .. }
            | DeviceError::PermissionDenied { .. }
    )
}

/// The text of a file; `-` is standard input.
fn text_of(file: &str) -> Result<String, Error> {
    let read = match file {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .lock()
                .read_to_string(&mut text)
                .map(|_| text)
        }
        _ => std::fs::read_to_string(file),
    };
    read.map_err(|error| {
        Error::No(format!(
            "failed to read {file}: {error}; name a file with text in UTF-8, or - for standard input"
        ))
    })
}

/// The addresses, each once, in their order.
fn addresses(listed: Vec<String>, file: Option<&str>) -> Result<Vec<Address>, Error> {
    let text = file.map_or(Ok(String::new()), text_of)?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|it| !it.is_empty() && !it.starts_with('#'));
    let mut addresses: Vec<Address> = Vec::new();
    for text in listed.iter().map(String::as_str).chain(lines) {
        let address = address(text).map_err(Error::No)?;
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err(Error::No(
            "--from-redfish-scan: no address is given; name BMCs behind it, or a file of them with -f".to_owned(),
        )),
        false => Ok(addresses),
    }
}

fn address(text: &str) -> Result<Address, String> {
    let url = match text.contains("://") {
        true => text.to_owned(),
        false => format!("https://{text}"),
    };
    let rule = "must be one BMC, https://HOST[:PORT] or HOST[:PORT]: no range is swept";
    // As a name it would be one of digits alone.
    let is_range =
        |host: &str| host.contains('-') && host.bytes().all(|it| b"0123456789.-".contains(&it));
    match Address::parse(&url) {
        Ok(address) if is_range(&address.host) => Err(format!("`{}` {rule}", printable(text, 120))),
        Ok(address) if address.plaintext => Err(format!(
            "`{}` {rule}, and plain http shows the password to the network",
            printable(text, 120)
        )),
        Ok(address) => Ok(address),
        Err(error) => Err(format!("{error}; it {rule}")),
    }
}

/// How every BMC is reached.
struct Way {
    tls: TlsConnector,
    rules: Arc<AddressRules>,
}

impl Way {
    fn new(args: &ScanArgs, rules: AddressRules) -> Result<Self, Error> {
        let check = match (&args.ca, args.insecure) {
            (_, true) => CertificateCheck::None,
            (None, false) => CertificateCheck::Full {
                ca_bundle_pem: None,
            },
            (Some(file), false) => {
                let pem = std::fs::read(file).map_err(|error| {
                    Error::No(format!("--ca: failed to read {}: {error}", file.display()))
                })?;
                CertificateCheck::Full {
                    ca_bundle_pem: Some(pem),
                }
            }
        };
        let config = tls::client_config(&check, Clock::SYSTEM.wall());
        let config = config.map_err(|error| Error::No(format!("--ca: {error}")))?;
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            rules: Arc::new(rules),
        })
    }

    /// Without a login.
    async fn first_look<'a>(
        &self,
        address: &'a Address,
    ) -> (&'a Address, Result<Service, DeviceError>) {
        let mut survey = self.survey(address, Arc::new(Credentials::nobody()));
        (address, survey.service().await)
    }

    fn survey(&self, address: &Address, credentials: Arc<Credentials>) -> Survey {
        let target = Target {
            address: address.clone(),
            tls: Some(self.tls.clone()),
            credentials,
            rules: Arc::clone(&self.rules),
        };
        Survey::new(target, ANSWER_TIME, Clock::SYSTEM)
    }
}

/// What was heard without a login.
fn shown(seen: &[(&Address, Result<Service, DeviceError>)]) -> String {
    let rows: Vec<_> = seen
        .iter()
        .map(|(address, service)| {
            let told = match service {
                Ok(service) => {
                    let maker = [&service.vendor, &service.product].into_iter().flatten();
                    let maker: Vec<&str> = maker.map(String::as_str).collect();
                    [service.version.clone(), maker.join(" ")]
                }
                Err(_) => ["<none>".to_owned(), String::new()],
            };
            let [version, maker] = told;
            [address.to_string(), version, printable(&maker, 40)]
        })
        .collect();
    let mut text = table::table(["ADDRESS", "REDFISH", "MAKER"], &rows);
    let failed = seen.iter().filter_map(|(_, it)| it.as_ref().err());
    for error in failed {
        text += &format!("{error}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_bmc_and_never_a_range() {
        let read = |texts: &[&str]| {
            let listed = texts.iter().map(|it| (*it).to_owned()).collect();
            let read = addresses(listed, None).map_err(|it| it.to_string());
            read.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let listed = [
            "10.0.0.1",
            "https://10.0.0.1:443",
            "bmc.example.com:8443",
            "[fe80::1]",
        ];
        let addresses = ["10.0.0.1:443", "bmc.example.com:8443", "[fe80::1]:443"];
        assert_eq!(read(&listed), Ok(addresses.map(str::to_owned).to_vec()));
        for text in ["10.0.0.0/24", "10.0.0.1-9", "10.0.0.*", "http://10.0.0.1"] {
            let error = read(&[text]).expect_err(text);
            assert!(error.contains("no range is swept"), "{error}");
        }
        assert!(read(&[]).is_err());
    }
}
