//! The flags of `node-fencing-operator probe`.

use super::{Error, NAMESPACE, invalid, namespace, object_name, ranges, seconds};
use clap::Args;
use fencing_drivers::address::AddressRules;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// How long a machine may take to go off and to be read, unless --timeout says otherwise.
const OFF_TIME: Duration = Duration::from_secs(90);
/// What --timeout may be, in seconds: the readings alone take 3 s.
const OFF_SECONDS_RANGE: RangeInclusive<u64> = 5..=1800;

const EXAMPLES: &str = "\
Examples:
  Would this device do? The FenceDevice and its Secret are in one file:
      node-fencing-operator probe worker-3.yaml --node-uuid 4c4c4544-0042-3510-8052-b4c04f4a4d32

  A cloud's, which finds the machine by its Node; Secret and Node as they stand in a cluster:
      kubectl -n node-fencing-system get secret/cloud node/worker-3 -o yaml | node-fencing-operator probe fleet.yaml --secret -

  The password from a password store, the result for a script:
      pass bmc/worker-3.yaml | node-fencing-operator probe worker-3.yaml --secret - --output json

  Turn the machine off, hard, and see its device prove that it is off (it is the machine's last second; it stays off):
      node-fencing-operator probe worker-3.yaml --node-uuid 4c4c4544-0042-3510-8052-b4c04f4a4d32 --power-off --yes

Exit codes: 0 the probe is clean, or the device proves the machine off; 1 it is not, or does not, or its settings, address or Secret cannot be used; 2 a file cannot be read or a flag cannot be used, nothing was sent.";

/// Which device of which file, for which node.
#[derive(Debug, Args)]
pub(super) struct DeviceArgs {
    /// YAML with the FenceDevice, with its Secret and ConfigMap unless they are elsewhere, and with the Node if you like; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// YAML with the Secret of `credentialsRef`; - is standard input
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,

    /// Namespace that the operator will run in: Secrets and ConfigMaps of another are not read
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,

    /// Node that the device is asked for; needed where the FenceDevice has a `nodeSelector`
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// System UUID that has to answer, the Node's `.status.nodeInfo.systemUUID`
    #[arg(long, value_name = "UUID")]
    node_uuid: Option<String>,

    /// The Node's `.spec.providerID`, by which a cloud finds its machine; a Node among the objects has it, too
    #[arg(long, value_name = "ID")]
    node_provider_id: Option<String>,

    /// An IP address of the Node, which the machine of some clouds has to have; a Node among the objects has them, too; repeatable
    #[arg(long, value_name = "IP")]
    node_address: Vec<String>,

    /// The device may have an address in this range although a rule denies it (loopback, link-local, ...); repeatable
    #[arg(long, value_name = "CIDR")]
    allow_device_cidr: Vec<String>,
}

/// Look once at the FenceDevice of a file, without a cluster
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ProbeArgs {
    #[command(flatten)]
    device: DeviceArgs,

    /// Also turn the machine off, hard, and read until the readings are those that a fence takes for a proof; needs --yes
    #[arg(long)]
    power_off: bool,

    /// Yes, turn it off
    #[arg(long)]
    yes: bool,

    /// How long the machine may take with --power-off to go off and to be read, in seconds [default: 90]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    timeout: Option<String>,

    /// How the result is printed: text, json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output: String,
}

/// One look at a device: checked, and complete.
#[derive(Debug, Clone)]
pub struct Probing {
    /// Where the FenceDevice is.
    pub file: PathBuf,
    /// Where its Secret is, if elsewhere.
    pub secret: Option<PathBuf>,
    /// The operator's namespace.
    pub namespace: String,
    /// For which node.
    pub node: Option<String>,
    /// Which machine has to answer.
    pub node_uuid: Option<String>,
    /// The node's provider ID.
    pub node_provider_id: Option<String>,
    /// The node's IP addresses.
    pub node_addresses: Vec<String>,
    /// Turn it off, too.
    pub power_off: bool,
    /// How long it may take to go off and to be read.
    pub off_time_max: Duration,
    /// How the result is printed.
    pub output: Output,
    /// Addresses to which credentials may go.
    pub addresses: AddressRules,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

impl DeviceArgs {
    /// A look at the device: nothing is turned off, and the result is for people.
    pub(super) fn validated(self) -> Result<Probing, Error> {
        if self.file == self.secret.clone().unwrap_or_default() {
            let rule = "is FILE already: leave it out, or name another file";
            return Err(invalid("--secret", &self.file.to_string_lossy(), rule));
        }
        if let Some(uuid) = &self.node_uuid
            && fencing_core::reading::usable_uuid(uuid).is_none()
        {
            let rule = "must be a UUID that names one machine, as `kubectl get node NAME -o jsonpath={.status.nodeInfo.systemUUID}` prints it";
            return Err(invalid("--node-uuid", uuid, rule));
        }
        let mut addresses = self.node_address.iter();
        if let Some(wrong) = addresses.find(|it| it.parse::<IpAddr>().is_err()) {
            return Err(invalid("--node-address", wrong, "must be an IP address"));
        }
        let node = self.node.map(|name| object_name("--node", name));
        let allowed = ranges("--allow-device-cidr", &self.allow_device_cidr)?;
        Ok(Probing {
            file: self.file,
            secret: self.secret,
            namespace: namespace("--namespace", self.namespace)?,
            node: node.transpose()?,
            node_uuid: self.node_uuid,
            node_provider_id: self.node_provider_id,
            node_addresses: self.node_address,
            power_off: false,
            off_time_max: OFF_TIME,
            output: Output::Text,
            addresses: AddressRules::new(allowed, Vec::new()),
        })
    }
}

/// The value of --timeout.
pub(super) fn off_time(timeout: Option<&str>) -> Result<Duration, Error> {
    timeout.map_or(Ok(OFF_TIME), |text| {
        seconds("--timeout", text, &OFF_SECONDS_RANGE)
    })
}

impl ProbeArgs {
    pub(super) fn validated(self) -> Result<Probing, Error> {
        self.power_off_is_meant()?;
        let output = match self.output.as_str() {
            "text" => Output::Text,
            "json" => Output::Json,
            _ => return Err(invalid("--output", &self.output, "must be text or json")),
        };
        Ok(Probing {
            power_off: self.power_off,
            off_time_max: off_time(self.timeout.as_deref())?,
            output,
            ..self.device.validated()?
        })
    }

    /// A machine goes off for nobody who has only mistyped something.
    fn power_off_is_meant(&self) -> Result<(), Error> {
        let words = match (self.power_off, self.yes, &self.timeout) {
            (true, false, _) => format!(
                "--power-off would turn the machine of `{}` off, hard, and end its workload; add --yes if that is meant, or leave --power-off out to only read",
                self.device.file.to_string_lossy().escape_debug()
            ),
            (false, true, _) => {
                "--yes only confirms --power-off; add --power-off to turn the machine off, hard, or leave --yes out to only read"
                    .to_owned()
            }
            (false, false, Some(text)) => format!(
                "--timeout: `{}` is valid only with --power-off --yes; add these to turn the machine off, hard, or leave --timeout out to only read",
                text.escape_debug()
            ),
            _ => return Ok(()),
        };
        Err(Error::Unclear(words))
    }
}
