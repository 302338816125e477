//! What one probe says about one device and one node, as the four conditions that a user reads.
//!
//! Pure. `Reachable`, `CredentialsValid` and `IdentityVerified` each answer one question and stay `Unknown` where the probe
//! ended before it; `Ready` is what counts: would a fence work now? Its reason and words are those of the first thing
//! that stands in the way.

use fencing_api::conditions::ConditionStatus::{self, False, True, Unknown};
use fencing_api::device::{FenceDevice, PinnedSystem, PositiveControl};
use fencing_core::control::{self, Control};
use fencing_core::identity::{self, DUPLICATE_TARGET, Verdict};
use fencing_core::observed::NodeView;
use fencing_core::protection::levels::{POWER_OFF_DENIED, Readiness};
use fencing_core::reading::Identity;
use fencing_core::select;
use fencing_drivers::tls::Expiry;
use fencing_drivers::{DeviceError, Probe};
use jiff::Timestamp;

/// Identity is required, and none has been pinned yet.
pub const NOT_PINNED: &str = "IdentityNotPinned";
/// A fence would work.
const PROBED: &str = "Probed";
/// The device has the address of a Node.
const DEVICE_ON_NODE: &str = "DeviceOnNode";
/// Nothing is known yet.
pub const PENDING: &str = "Pending";

/// What one probe of a device for one node found.
#[derive(Debug, Clone)]
pub struct Finding {
    /// When it was begun, by the wall clock: what somebody asks for later, it has not answered.
    pub at: Timestamp,
    /// The Node when it had ended, as the cache had it: name, uid, Ready, system UUID.
    pub node: NodeView,
    /// The device's answer.
    pub outcome: Result<Probe, DeviceError>,
    /// Who answered last, in this probe or in an earlier one.
    pub identity: Option<Identity>,
    /// Keys of the Secret whose value ended in a newline.
    pub trimmed_keys: Vec<&'static str>,
    /// The kubelet renewed its Lease after the device had read Off, and the device reads Off again.
    pub renewed: bool,
    /// What an earlier probe of this process learned of S25.
    pub control: Option<PositiveControl>,
    /// The Node that has the device's address.
    pub on_node: Option<String>,
    /// Uid and generation of the FenceDevice that was asked.
    pub asked: (Option<String>, Option<i64>),
}

impl Finding {
    /// Is it about this FenceDevice, by these settings? Others may lead to another device.
    pub fn is_of(&self, device: &FenceDevice) -> bool {
        self.asked == asked(device)
    }
}

/// Uid and generation of the FenceDevice.
pub fn asked(device: &FenceDevice) -> (Option<String>, Option<i64>) {
    let metadata = &device.metadata;
    (metadata.uid.clone(), metadata.generation)
}

/// Only what a judgement needs: thousands of these are kept.
pub fn essence(mut node: NodeView) -> NodeView {
    node.conditions
        .retain(|condition| condition.kind == "Ready");
    // It would keep the room of all of them.
    node.conditions.shrink_to_fit();
    NodeView {
        labels: Default::default(),
        annotation_keys: Vec::new(),
        taints: Vec::new(),
        provider_id: String::new(),
        addresses: Vec::new(),
        ..node
    }
}

/// A condition of one node's device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its status.
    pub status: ConditionStatus,
    /// Its reason.
    pub reason: &'static str,
    /// Its message.
    pub words: String,
}

/// All conditions of one node's device, and what is to be pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The device answers.
    pub reachable: Part,
    /// It accepts user and password.
    pub credentials: Part,
    /// It controls this node's machine. None: the probe says nothing new about it.
    pub identity: Option<Part>,
    /// A fence would work.
    pub ready: Part,
    /// The system to pin for this node.
    pub pin: Option<PinnedSystem>,
    /// What the device reads of the running machine, as far as this process knows (S25).
    pub control: Option<PositiveControl>,
}

impl Judgement {
    /// What the node may hope for.
    pub fn readiness(&self) -> Readiness {
        match self.ready.status {
            True => Readiness::Ready,
            _ if self.ready.reason == POWER_OFF_DENIED => Readiness::ConfirmOnly,
            _ => Readiness::NotReady,
        }
    }
}

fn part(status: ConditionStatus, reason: &'static str, words: impl Into<String>) -> Part {
    Part {
        status,
        reason,
        words: words.into(),
    }
}

/// Not probed yet.
pub fn pending() -> Judgement {
    let part = part(Unknown, PENDING, "not probed yet");
    Judgement {
        reachable: part.clone(),
        credentials: part.clone(),
        identity: None,
        ready: part,
        pin: None,
        control: None,
    }
}

/// Judges a finding. `duplicate` says why another node's device is in the way.
pub fn judge(device: &FenceDevice, finding: &Finding, duplicate: Option<&str>) -> Judgement {
    let (mut identity, pin) = match &finding.identity {
        Some(found) => judge_identity(device, finding, found),
        None => (None, None),
    };
    if let Some(duplicate) = duplicate {
        identity = Some(part(False, DUPLICATE_TARGET, duplicate));
    }
    let stored = control::kept(device, &finding.node);
    let known = finding.control.as_ref().or(stored);
    let row = learned(finding, identity.as_ref(), known).or_else(|| known.cloned());
    let control = control::by(row.as_ref(), &finding.node.boot_id);
    Judgement {
        reachable: reachable(&finding.outcome),
        credentials: credentials(finding),
        ready: ready(finding, duplicate.is_some(), identity.as_ref(), control),
        identity,
        pin,
        control: row,
    }
}

/// What this probe teaches of S25, where the right machine answered it.
fn learned(
    finding: &Finding,
    identity: Option<&Part>,
    known: Option<&PositiveControl>,
) -> Option<PositiveControl> {
    let probe = finding.outcome.as_ref().ok()?;
    if identity.is_some_and(|identity| identity.status == False) {
        return None;
    }
    let node = &finding.node;
    let power_state = control::learn(node, &probe.reading, finding.renewed)?;
    let is_same =
        |it: &&PositiveControl| it.boot_id == node.boot_id && it.power_state == power_state;
    Some(PositiveControl {
        node_name: node.name.clone(),
        node_uid: node.uid.clone(),
        boot_id: node.boot_id.clone(),
        power_state,
        since_time: known.filter(is_same).map_or(finding.at, |it| it.since_time),
    })
}

fn judge_identity(
    device: &FenceDevice,
    finding: &Finding,
    found: &Identity,
) -> (Option<Part>, Option<PinnedSystem>) {
    let named = found.system_uuid.as_deref().unwrap_or_default();
    let verified = || {
        let words = format!("system UUID {named} is that of Node {}", finding.node.name);
        part(True, "Verified", words)
    };
    match identity::judge(device, &finding.node, found) {
        Verdict::Verified => (Some(verified()), None),
        // Only an answer of now is pinned, not the memory of an earlier one.
        Verdict::Pin(_) if finding.outcome.is_err() => (None, None),
        Verdict::Pin(pin) => (Some(verified()), Some(pin)),
        Verdict::Unchecked(reason, words) => (Some(part(Unknown, reason, words)), None),
        Verdict::NotYet(words) => (Some(part(Unknown, NOT_PINNED, words)), None),
        Verdict::Refused(reason, words) => (Some(part(False, reason, words)), None),
    }
}

fn reachable(outcome: &Result<Probe, DeviceError>) -> Part {
    let Err(error) = outcome else {
        return part(True, "Answered", "the device answers");
    };
    match error {
        DeviceError::Unreachable { .. }
        | DeviceError::Timeout { .. }
        | DeviceError::NoAnswer { .. }
        | DeviceError::CommandUnanswered { .. }
        | DeviceError::TlsIdentity { .. }
        | DeviceError::AddressNotAllowed(_) => part(False, error.reason(), error.to_string()),
        DeviceError::Credentials(_)
        | DeviceError::Settings { .. }
        | DeviceError::Unsupported { .. }
        | DeviceError::HumanNeeded { .. }
        | DeviceError::NotGranted { .. }
        | DeviceError::Cluster { .. } => part(Unknown, error.reason(), error.to_string()),
        DeviceError::AuthFailed { .. }
        | DeviceError::BasicNotOffered { .. }
        | DeviceError::PasswordExpired { .. }
        | DeviceError::UnknownUser { .. }
        | DeviceError::CredentialsRenewed { .. }
        | DeviceError::LoginUnanswered { .. }
        | DeviceError::NoSecureLogin { .. }
        | DeviceError::SessionsExhausted { .. }
        | DeviceError::PermissionDenied { .. }
        | DeviceError::NotFound { .. }
        | DeviceError::Busy { .. }
        | DeviceError::Protocol { .. }
        | DeviceError::Declined { .. }
        | DeviceError::Refused { .. }
        | DeviceError::PartlySwitched { .. }
        | DeviceError::AmbiguousSystem { .. } => part(True, "Answered", "the device answers"),
    }
}

fn credentials(finding: &Finding) -> Part {
    match &finding.outcome {
        Ok(_) if finding.trimmed_keys.is_empty() => {
            part(True, "Accepted", "user and password are accepted")
        }
        Ok(_) => {
            let keys = finding.trimmed_keys.join(" and ");
            let words = format!(
                "user and password are accepted; the Secret's {keys} ended in a newline, which was dropped"
            );
            part(True, "Accepted", words)
        }
        Err(
            error @ (DeviceError::AuthFailed { .. }
            | DeviceError::BasicNotOffered { .. }
            | DeviceError::PasswordExpired { .. }
            | DeviceError::UnknownUser { .. }
            | DeviceError::PermissionDenied { .. }
            | DeviceError::Credentials(_)),
        ) => part(False, error.reason(), error.to_string()),
        Err(error) => part(
            Unknown,
            error.reason(),
            "the probe ended before the device checked user and password",
        ),
    }
}

fn ready(finding: &Finding, duplicate: bool, identity: Option<&Part>, control: Control) -> Part {
    let refused = identity
        .filter(|identity| identity.status == False || identity.reason == NOT_PINNED || duplicate);
    match (&finding.outcome, refused) {
        (_, Some(identity)) if duplicate => part(False, identity.reason, identity.words.clone()),
        (Err(error @ DeviceError::HumanNeeded { .. }), _) => {
            part(Unknown, error.reason(), error.to_string())
        }
        (Err(error), _) => part(False, error.reason(), error.to_string()),
        (_, Some(identity)) => part(False, identity.reason, identity.words.clone()),
        (Ok(probe), None) => match (probe.reading.unreadable(), &probe.off_denied) {
            (Some(words), _) => part(False, "PowerUnreadable", words),
            _ if !control.is_shown() => part(False, control.reason(), no_control(control, finding)),
            (None, Some(denied)) => {
                let words = match denied {
                    // What is wrong with the settings is so in each mode.
                    DeviceError::Settings { .. } => denied.to_string(),
                    _ => format!("{denied}; mode ConfirmOnly works"),
                };
                part(False, POWER_OFF_DENIED, words)
            }
            (None, None) => lasting(probe, finding),
        },
    }
}

/// Why an Off of the device would prove nothing, and the way out.
fn no_control(control: Control, finding: &Finding) -> String {
    let node = &finding.node.name;
    match control {
        Control::OffWhileRunning => format!(
            "the device read Off while Node {node} was running, so its Off proves nothing until it reads On; correct its address, `systemID` or outlets"
        ),
        Control::Shown | Control::ShownLately | Control::Missing => format!(
            "the device has not read On while Node {node} was Ready in this boot, so its Off proves nothing yet; wait for the next probe"
        ),
    }
}

/// A fence would work, and for how long still.
fn lasting(probe: &Probe, finding: &Finding) -> Part {
    let near = |expiry: &Expiry| expiry.is_near(finding.at);
    match (&finding.on_node, probe.certificate_expiry.filter(near)) {
        (Some(host), _) if *host == finding.node.name => {
            let words = format!(
                "the device has an address of Node {host}, so it fails with the machine that it is to turn off; use the address of its BMC"
            );
            part(False, DEVICE_ON_NODE, words)
        }
        (_, Some(expiry)) => {
            let words = format!(
                "fencing works until {}, when the device's certificate expires; renew it there, and in `tls.caRef` if it is its own CA",
                expiry.at
            );
            part(True, "CertificateExpires", words)
        }
        (Some(host), None) => {
            let words = format!(
                "fencing works until Node {host} fails, which has the device's address; add a level that does not depend on that node"
            );
            part(True, DEVICE_ON_NODE, words)
        }
        (None, None) => part(True, PROBED, "fencing works"),
    }
}

/// A fleet that is ready, with a warning where its nodes choose it by labels of their own: with it they choose its Secret.
pub fn with_warning(device: &FenceDevice, ready: Part) -> Part {
    let selector = device.spec.node_selector.as_ref();
    let label = selector.and_then(select::kubelet_label);
    match label.filter(|_| ready.reason == PROBED) {
        Some(label) => Part {
            reason: "UnprotectedLabel",
            words: format!(
                "{}; warning: a kubelet may set label `{label}`, and so choose this FenceDevice and its Secret; select by a label below `node-restriction.kubernetes.io/`",
                ready.words
            ),
            ..ready
        },
        None => ready,
    }
}
