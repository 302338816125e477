//! Over which time do the readings of off have to span, first answer to last question?
//!
//! Over what the policy demands, and longer where there is reason to doubt the devices: a kubelet that lives renews its Lease meanwhile, and a BMC
//! that has just been restarted has learned by then what its machine does.

use crate::control::Control;
use crate::device::{DeviceReadings, Level};
use crate::memory::Memory;
use crate::observed::{NodeView, Ready};
use crate::settings::Settings;
use crate::verification::Verification;
use fencing_api::settings::FenceMode;
use std::time::Duration;

/// A kubelet renews its Lease every 10 s, a quarter of its `nodeLeaseDurationSeconds`; with two seconds to spare.
/// Source: `pkg/kubelet/kubelet.go`, `nodeLeaseRenewIntervalFraction` (v1.36).
pub(super) const LEASE_RENEWAL_MAX: Duration = Duration::from_secs(12);
/// `nodeLeaseDurationSeconds` of a kubelet: four renewals (KubeletConfiguration's default).
const LEASE_DURATION: Duration = Duration::from_secs(40);
/// Where no off command of ours shows what the device says of its effect, and it is not known to have been well all along.
const UNSTEADY: Duration = Duration::from_secs(10);

/// For how long the level's devices are read.
pub(super) fn ordered(s: &Settings, m: &Memory, node: &NodeView, level: &Level) -> Duration {
    let devices = level.devices.iter();
    let devices = devices.map(|it| (it.name.as_str(), it.control));
    window(s, m, node, level, is_steady(s, m, node, devices))
}

/// What these readings have to be, which were ordered by what was known of the devices then.
pub(super) fn judged(
    s: &Settings,
    m: &Memory,
    node: &NodeView,
    level: &Level,
    readings: &[DeviceReadings],
) -> Verification {
    let devices = readings.iter();
    let devices = devices.map(|it| (it.device.as_str(), it.control));
    Verification {
        window: window(s, m, node, level, is_steady(s, m, node, devices)),
        ..s.verification.clone()
    }
}

/// Has each of them answered all along, and read On lately ([`Control::ShownLately`])? A BMC that was restarted since may say Off of a machine that runs
/// until the host has answered it. One without a positive control proves nothing either way (S25). What was asked before an incident that was opened early
/// is not known, and the policy's wait has not let such a BMC settle; nor has Kubernetes' where the operator itself has reported the Node.
fn is_steady<'a>(
    s: &Settings,
    m: &Memory,
    node: &NodeView,
    devices: impl Iterator<Item = (&'a str, Control)>,
) -> bool {
    let mut known_foreign_commands = devices.filter(|(_, control)| control.is_shown());
    !s.claims_off_early
        && !node.reported_early
        && known_foreign_commands.all(|(name, control)| {
            control == Control::ShownLately && !m.trust.silent.contains(name)
        })
}

/// What the policy demands, and more where the node has given reason to doubt the device: a live kubelet that reports Ready=False
/// renews its Lease, and so does one that has contradicted the device before. The readings then span a renewal for certain.
fn window(s: &Settings, m: &Memory, node: &NodeView, level: &Level, is_steady: bool) -> Duration {
    let is_doubted = !m.trust.contradictions.is_empty() || m.confirmation.refused.is_some();
    let silence = match (is_doubted, node.ready()) {
        // Whoever gave the word looked before the node was claimed: since then only a whole Lease tells.
        _ if level.is_manual() => LEASE_DURATION,
        (true, _) => LEASE_DURATION,
        (false, Ready::False) => LEASE_RENEWAL_MAX,
        (false, _) if s.mode() == FenceMode::ConfirmOnly && !is_steady => UNSTEADY,
        (false, _) => Duration::ZERO,
    };
    s.verification.window.max(silence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{level, node, off_readings, settings};
    use crate::memory::Trust;
    use crate::plan::hydrate::hydrate;
    use crate::settings::Record;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A3: the window of a device that is well is the policy's, 3 s; of any other one it is 10 s, in mode ConfirmOnly.
    #[test]
    fn only_of_a_device_that_was_well_all_along_the_policys_window_is_enough() {
        let asked = |mode: FenceMode, control: Control, silent: &[&str]| {
            let mut settings = settings();
            settings.procedure.fence.mode = mode;
            settings.verification.window = seconds(3);
            let mut level = level();
            level.devices[0].control = control;
            let memory = Memory {
                trust: Trust {
                    silent: silent.iter().map(|it| (*it).to_owned()).collect(),
                    ..Trust::default()
                },
                ..Memory::default()
            };
            let mut readings = off_readings();
            readings[0].control = control;
            let judged = judged(&settings, &memory, &node(), &level, &readings).window;
            let ordered = ordered(&settings, &memory, &node(), &level);
            assert_eq!(judged, ordered, "{mode:?} {control:?} {silent:?}");
            ordered.as_secs()
        };
        let (confirm, off) = (FenceMode::ConfirmOnly, FenceMode::PowerOff);
        assert_eq!(asked(confirm, Control::ShownLately, &[]), 3);
        assert_eq!(asked(confirm, Control::ShownLately, &["pdu"]), 3);
        assert_eq!(asked(confirm, Control::ShownLately, &["bmc"]), 10);
        assert_eq!(asked(confirm, Control::Shown, &[]), 10);
        assert_eq!(asked(confirm, Control::Missing, &[]), 3);
        // Nor has a machine that the operator itself has reported had the time of Kubernetes' grace period.
        let reported = NodeView {
            reported_early: true,
            ..node()
        };
        let devices = [("bmc", Control::ShownLately)];
        let is_steady =
            |node: &NodeView| is_steady(&settings(), &Memory::default(), node, devices.into_iter());
        assert!(is_steady(&node()));
        assert!(!is_steady(&reported));
        // Our own off shows what it says of one.
        assert_eq!(asked(off, Control::Shown, &["bmc"]), 3);
    }

    /// What was ordered for 3 s is not judged by 10 s because a probe period has ended meanwhile.
    #[test]
    fn readings_are_judged_by_what_was_known_when_they_were_ordered() {
        let mut settings = settings();
        settings.procedure.fence.mode = FenceMode::ConfirmOnly;
        let mut now = level();
        now.devices[0].control = Control::Shown;
        let (memory, node, short) = (Memory::default(), node(), settings.verification.window);
        let judged = judged(&settings, &memory, &node, &now, &off_readings());
        assert_eq!(judged.window, short);
        assert_eq!(ordered(&settings, &memory, &node, &now), UNSTEADY);
    }

    /// A policy that wants more gets more.
    #[test]
    fn a_longer_window_of_the_policy_stays() {
        let mut settings = settings();
        settings.procedure.fence.mode = FenceMode::ConfirmOnly;
        settings.verification.window = seconds(21);
        let memory = Memory {
            trust: Trust {
                silent: ["bmc".to_owned()].into(),
                ..Trust::default()
            },
            ..Memory::default()
        };
        let window = ordered(&settings, &memory, &node(), &level());
        assert_eq!(window, seconds(21));
    }

    #[test]
    fn who_takes_over_knows_of_no_device_that_it_answered_all_along() {
        let mut settings = settings();
        settings.procedure.fence.mode = FenceMode::ConfirmOnly;
        settings.record = Record {
            asked: vec!["bmc".to_owned()],
            ..Record::default()
        };
        let mut memory = Memory::default();
        hydrate(&settings, &mut memory, Duration::ZERO);
        let window = ordered(&settings, &memory, &node(), &level());
        assert_eq!(window, UNSTEADY);
    }
}
