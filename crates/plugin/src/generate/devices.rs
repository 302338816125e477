//! `kubectl fence generate devices`: FenceDevices out of Metal3's hosts, of the Nodes' provider IDs, or of what BMCs say of themselves.

use super::super::output::print;
use super::super::reach::Reach;
use super::super::{Done, Error};
use super::document::{Remark, comments, document};
use super::{hosts, providers, scan, selector};
use crate::table::{count, quoted};
use clap::ArgGroup;
use fencing_api::device::{
    CaKind, CaReference, Drivers, FenceDevice, FenceDeviceSpec, RedfishDriver, SecretReference,
    TlsSettings,
};
use fencing_drivers::address::{Address, AddressError, AddressRules};
use fencing_drivers::cidr::Cidr;
use fencing_drivers::credentials::ALLOWED_HOSTS_ANNOTATION;
use std::collections::BTreeSet;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  Of Metal3's BareMetalHosts:
      kubectl fence generate devices --from-bmh > devices.yaml

  Of clouds and hypervisors, by the Nodes' provider IDs:
      kubectl fence generate devices --from-provider-ids > devices.yaml

  Of BMCs that name their machines:
      kubectl fence generate devices --from-redfish-scan 10.20.0.11 10.20.0.12 \\
          --ca bmc-ca.pem > devices.yaml

--from-redfish-scan is the only command that connects to BMCs, and it only \
reads. It asks those that you name, first without a login, then with one after \
you agree. Type the password, or set NODE_FENCING_BMC_PASSWORD, or use \
--password-stdin.

Review the output before you apply it. Comments give the source and what is \
missing; an incomplete FenceDevice is printed as a comment.";

/// Longest list of hosts in a command.
const ALLOWED_HOSTS_MAX: usize = 400;

/// Print FenceDevices of Metal3's hosts, of provider IDs, or of scanned BMCs
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    group = ArgGroup::new("source").required(true).args(["from_bmh", "from_provider_ids", "from_redfish_scan"])
)]
pub struct Args {
    /// Of the BareMetalHosts (metal3.io/v1alpha1) of the cluster
    #[arg(long)]
    from_bmh: bool,

    /// Only of BareMetalHosts in this namespace
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from_provider_ids", "from_redfish_scan"])]
    bmh_namespace: Option<String>,

    /// Of BareMetalHosts in all namespaces (the default)
    #[arg(
        short = 'A',
        long,
        conflicts_with_all = ["bmh_namespace", "from_provider_ids", "from_redfish_scan"]
    )]
    all_namespaces: bool,

    /// Of clouds and hypervisors, as the Nodes' provider IDs name them
    #[arg(long)]
    from_provider_ids: bool,

    /// Of these BMCs: https://HOST[:PORT], or HOST[:PORT]
    #[arg(long, value_name = "ADDRESS", num_args = 0..)]
    from_redfish_scan: Option<Vec<String>>,

    #[command(flatten)]
    scan: scan::ScanArgs,

    #[command(flatten)]
    common: Common,
}

/// What all devices get.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Common {
    /// Label of each FenceDevice, such as tier=bmc; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = selector::label)]
    pub labels: Vec<(String, String)>,

    /// ConfigMap with the CA of the BMCs' certificates
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    pub ca_config_map: Option<String>,

    /// Range that devices may be in although the operator denies it (loopback), as
    /// its --allow-device-cidr; repeatable
    #[arg(long, value_name = "CIDR")]
    pub allow_device_cidr: Vec<Cidr>,
}

impl Common {
    /// Where credentials may go. The ranges that the operator is started with, such as the cluster's Services, are not known here.
    pub fn rules(&self) -> AddressRules {
        AddressRules::new(self.allow_device_cidr.clone(), Vec::new())
    }

    /// May a device be there? Of a name that is not known before it is looked up.
    ///
    /// # Errors
    /// The rule that forbids it, and the way out.
    pub fn judge(&self, address: &Address) -> Result<(), AddressError> {
        let Some(ip) = address.literal() else {
            return Ok(());
        };
        self.rules().judge(&address.host, ip)
    }
}

/// The name of an object.
///
/// # Errors
/// The rule, in words.
pub fn object_name(text: &str) -> Result<String, String> {
    match fencing_api::names::is_dns_name(text) {
        true => Ok(text.to_owned()),
        false => Err("must be the name of an object: at most 253 lower-case letters, digits, inner hyphens and dots".to_owned()),
    }
}

/// What was made of one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The device.
    pub device: FenceDevice,
    /// What stands above it.
    pub remarks: Vec<Remark>,
    /// It can be applied as it stands.
    pub is_complete: bool,
}

/// What a source has given.
#[derive(Debug, Default)]
pub struct Proposals {
    /// What has to be done first.
    pub before: Vec<Remark>,
    /// In the order in which they are printed.
    pub devices: Vec<Proposal>,
    /// At the end: of machines or nodes of which no device could be made.
    pub after: Vec<Remark>,
}

/// Stands for the name of a Node that is not known.
pub const NODE: &str = "NODE";

/// What is told of a machine of which the Node is not known.
pub fn no_node(machine: &str, missing: &str) -> Remark {
    Remark::Words(format!(
        "{machine}: its Node is not known: {missing}. Write its name where {NODE} stands."
    ))
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(reach: &Reach, args: Args) -> Done {
    let proposals = match args.from_redfish_scan {
        Some(addresses) => scan::devices(reach, addresses, args.scan, args.common).await?,
        None if args.from_provider_ids => providers::devices(reach, &args.common).await?,
        None => {
            let namespace = args.bmh_namespace.as_deref();
            hosts::devices(reach, namespace, &args.common).await?
        }
    };
    print(&text(&proposals)?)?;
    let complete = proposals.devices.iter().filter(|it| it.is_complete);
    let (complete, all) = (complete.count(), proposals.devices.len());
    let left = match all - complete {
        0 => String::new(),
        left => format!("; {left} incomplete, printed as comments"),
    };
    let complete = count(complete, "FenceDevice", "FenceDevices");
    eprintln!("{complete} can be applied{left}");
    Ok(ExitCode::SUCCESS)
}

/// All of it, as YAML.
///
/// # Errors
/// It cannot be written as such, which is a fault of the program.
pub fn text(proposals: &Proposals) -> Result<String, Error> {
    let mut text = comments(&proposals.before);
    for proposal in &proposals.devices {
        text += &document(&proposal.device, &proposal.remarks, proposal.is_complete)?;
    }
    if !proposals.after.is_empty() {
        text += "---\n";
        text += &comments(&proposals.after);
    }
    Ok(text)
}

/// A FenceDevice of a node, by this driver.
pub fn device(
    name: &str,
    node: &str,
    driver: FenceDeviceSpec,
    credentials: &str,
    common: &Common,
) -> FenceDevice {
    let name_of = credentials.to_owned();
    let spec = FenceDeviceSpec {
        node_name: Some(node.to_owned()),
        credentials_ref: Some(SecretReference { name: name_of }),
        ..driver
    };
    let mut device = FenceDevice::new(name, spec);
    let labels = common.labels.iter().cloned();
    device.metadata.labels = (!common.labels.is_empty()).then(|| labels.collect());
    device
}

/// A Redfish driver whose certificates are checked in full, against this CA where one is named.
pub fn redfish(address: String, system_id: Option<String>, ca: Option<&str>) -> FenceDeviceSpec {
    let ca_ref = ca.map(|name| CaReference {
        kind: CaKind::default(),
        name: name.to_owned(),
        key: "ca.crt".to_owned(),
    });
    let tls = TlsSettings {
        ca_ref,
        ..TlsSettings::default()
    };
    FenceDeviceSpec {
        drivers: Drivers {
            redfish: Some(RedfishDriver {
                address,
                system_id,
                tls,
            }),
            ..Drivers::default()
        },
        ..FenceDeviceSpec::default()
    }
}

/// How the one certificate of a BMC is believed that no CA has signed.
pub fn pinning(address: &str) -> [Remark; 2] {
    let host = address.trim_start_matches("https://");
    let port = match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|it| it.is_ascii_digit()) => "",
        _ => ":443",
    };
    [
        Remark::words(
            "If its certificate is self-signed, pin it (tls: {verification: Pinned, sha256Fingerprint: ...}) after comparing it with the BMC's own:",
        ),
        Remark::Command(format!(
            "openssl s_client -connect {host}{port} </dev/null | openssl x509 -noout -fingerprint -sha256"
        )),
    ]
}

/// How a Secret of the operator's namespace is kept from every host but these.
pub fn sent_only_to(namespace: &str, secret: &str, hosts: &BTreeSet<String>) -> [Remark; 2] {
    let joined = Vec::from_iter(hosts.iter().map(String::as_str)).join(",");
    let (words, hosts) = match joined.len() {
        1..=ALLOWED_HOSTS_MAX => ("So that it is sent to no other host:", joined),
        _ => (
            "So that it is sent to no other host; replace RANGE by your BMCs' range, such as 10.20.0.0/16:",
            "RANGE".to_owned(),
        ),
    };
    let command = format!(
        "kubectl -n {namespace} annotate secret {secret} {}",
        quoted(&format!("{ALLOWED_HOSTS_ANNOTATION}={hosts}"))
    );
    [Remark::words(words), Remark::Command(command)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_hosts_is_no_longer_than_a_human_reads() {
        let annotated = |count: usize| {
            let hosts = (0..count).map(|it| format!("10.0.0.{it}")).collect();
            match sent_only_to("fencing", "bmc", &hosts) {
                [_, Remark::Command(command)] => command,
                other => panic!("no command: {other:?}"),
            }
        };
        let command = "kubectl -n fencing annotate secret bmc nodefencing.io/allowed-hosts=";
        assert_eq!(annotated(2), format!("{command}10.0.0.0,10.0.0.1"));
        assert_eq!(annotated(200), format!("{command}RANGE"));
    }

    #[test]
    fn the_port_of_a_certificate_is_the_services() {
        for (address, at) in [
            ("https://10.0.0.1", "10.0.0.1:443"),
            ("https://10.0.0.1:8443", "10.0.0.1:8443"),
            ("https://[fe80::1]", "[fe80::1]:443"),
        ] {
            let Remark::Command(command) = &pinning(address)[1] else {
                panic!("no command");
            };
            assert!(command.contains(&format!("-connect {at} ")), "{command}");
        }
    }
}
