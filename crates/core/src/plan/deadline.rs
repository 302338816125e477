//! How long a stage may take, and what is said when it takes longer: what is waited for, the setting that it has outlasted, and the way out.

use crate::decision::{Decision, Effect};
use crate::escalation::Escalation;
use crate::memory::Memory;
use crate::observed::{CLAIM, DETACHING, Observed, Read};
use crate::quiesce::startable;
use crate::release::booted_anew;
use crate::settings::Settings;
use crate::stage::Stage;
use crate::taint;
use fencing_api::settings::ReleaseMode;
use std::time::Duration;

/// What the release waits for in the end.
const OFF_OR_BOOTED: &str = "boot its machine, or have it read Off";

/// Is a pod that is not being deleted all that the incident waits for, past its deadline? It keeps no place in the budget then (L5). Once it has
/// commanded an off it keeps it: its machine may be off, and its claim is not given back for others.
pub fn waits_for_a_pod(settings: &Settings, memory: &Memory, decision: &Decision) -> bool {
    let escalation = decision.escalation.as_ref();
    let is_commanded = memory.commands.attempt.is_some() || settings.record.attempts > 0;
    decision.stage == Stage::Quiescing
        && escalation.is_some_and(|(reason, _)| *reason == Escalation::QuiesceStuck)
        && !is_commanded
}

/// How long a stage may take before a human is called.
pub(super) fn time_limit(settings: &Settings, stage: Stage) -> Option<Duration> {
    let level = settings.levels.iter().map(|level| level.timeout).max();
    match stage {
        Stage::Checking
        | Stage::Claiming
        | Stage::Quiescing
        | Stage::Fencing
        | Stage::Verifying
        | Stage::Tainting => level,
        Stage::Detaching => Some(settings.detach_timeout()),
        Stage::AwaitingRelease => Some(settings.release_timeout()),
        _ => None,
    }
}

/// A stage past its deadline is never silent.
pub(super) fn overdue(
    settings: &Settings,
    observed: &Observed,
    decision: &mut Decision,
    now: Duration,
) {
    // What was waited for is there.
    let is_over = matches!(decision.effect, Effect::Release(_) | Effect::DeleteNode(_));
    let is_late = decision.deadline.is_some_and(|deadline| now >= deadline);
    if decision.escalation.is_some() || is_over || !is_late {
        return;
    }
    let node = &settings.node;
    let has_booted =
        matches!(&observed.node, Read::Present(it) if booted_anew(it, settings.boot_id.as_deref()));
    let key = mark_key(settings, observed);
    let mark = taint::display_name(key);
    let (reason, field, way_out) = match decision.stage {
        Stage::Detaching => (
            Escalation::DetachStuck,
            "`recovery.detachTimeoutSeconds`",
            what_frees(settings, observed, key),
        ),
        Stage::AwaitingRelease => (
            Escalation::ReleaseStuck,
            "`release.timeoutSeconds`",
            format!(
                "{}; do not remove `{mark}` from Node {node}",
                match &observed.node {
                    _ if is_unread(observed) => {
                        "see why the API server does not answer"
                    }
                    _ if has_booted => "wait for what is named above",
                    Read::Present(it) if settings.deletes_node() && it.deleting =>
                        "wait until it is deleted",
                    _ => what_releases(settings),
                }
            ),
        ),
        Stage::Quiescing => (
            Escalation::QuiesceStuck,
            "the longest `fence.levels[].timeoutSeconds`",
            who_stays(settings, observed),
        ),
        _ => (
            Escalation::FenceStuck,
            "the longest `fence.levels[].timeoutSeconds`",
            format!(
                "see why Node {node} is not out of service{}",
                match settings.confirmation {
                    Some(_) =>
                        ", or cancel this NodeFence (`spec.desiredState: Released`), create another and confirm that one",
                    None =>
                        ", or confirm that its machine has no power (`spec.manualConfirmation`)",
                }
            ),
        ),
    };
    let limit = time_limit(settings, decision.stage).unwrap_or_default();
    let message = format!(
        "{}; exceeds {field} ({} s); {way_out}",
        decision.message,
        limit.as_secs()
    );
    decision.escalation = Some((reason, message));
}

/// What people have to do before no pod can start. One that tolerates the claim is left alone by taint eviction, whoever owns it.
fn who_stays(settings: &Settings, observed: &Observed) -> String {
    let pods = observed.pods.present().or(observed.starting.present());
    let mut starting = startable(pods.map_or(&[], Vec::as_slice));
    let tolerates = starting.find_map(|pod| Some((pod, pod.tolerates_claim.as_ref()?)));
    match tolerates {
        Some((pod, toleration)) => format!(
            "delete pod {}/{}, which tolerates taint `{CLAIM}` ({toleration}): `kubectl delete pod -n {} {}`",
            pod.namespace, pod.name, pod.namespace, pod.name
        ),
        None => format!(
            "check kube-controller-manager, whose taint eviction deletes the pods of a claimed Node: `kubectl get pods -A --field-selector spec.nodeName={}`",
            settings.node
        ),
    }
}

/// What people have to see to before everything can detach.
fn what_frees(settings: &Settings, observed: &Observed, key: &str) -> String {
    let see = match is_unlisted(observed) {
        true => format!(
            "see why the API server does not list pods or VolumeAttachments of Node {} (etcd, load, rights)",
            settings.node
        ),
        false => {
            "see what holds them (finalizers, CSI controller, kube-controller-manager)".to_owned()
        }
    };
    if observed.node == Read::Absent {
        return see;
    }
    let tolerating = match key == DETACHING {
        true => ", scale down the owner of pods that tolerate every taint",
        false => "",
    };
    format!(
        "{see}{tolerating}; do not remove `{}` from Node {}",
        taint::display_name(key),
        settings.node
    )
}

/// Has the API server not listed what is still on the node?
fn is_unlisted(observed: &Observed) -> bool {
    matches!(observed.pods, Read::Failed(_)) || matches!(observed.attachments, Read::Failed(_))
}

/// Has the API server not told what the release waits for?
fn is_unread(observed: &Observed) -> bool {
    is_unlisted(observed) || matches!(observed.evidence, Read::Failed(_))
}

/// The key of the mark that stands, or that would.
fn mark_key(settings: &Settings, observed: &Observed) -> &'static str {
    let node = observed.node.present();
    let key = node.and_then(|it| settings.mark_on(it));
    key.unwrap_or(settings.mark_key())
}

fn what_releases(settings: &Settings) -> &'static str {
    match settings.procedure.release.mode {
        ReleaseMode::AfterRecovery if !settings.released => {
            "boot its machine (`release.mode` AfterRecovery), or set `spec.desiredState: Released`"
        }
        ReleaseMode::Manual if !settings.released => {
            "set `spec.desiredState: Released` (`release.mode` Manual), or boot its machine"
        }
        _ if settings.adopted && settings.confirmation.is_some() => "boot its machine",
        _ if settings.adopted => {
            "boot its machine, or confirm that it is off (`spec.manualConfirmation`)"
        }
        _ => OFF_OR_BOOTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::wait;
    use crate::delay::{Now, Since};
    use crate::fixtures::{drained, node, settings};
    use crate::observed::NodeView;
    use crate::settings::ManualConfirmation;

    fn said(settings: &Settings, observed: &Observed, stage: Stage) -> String {
        let mut decision = Decision {
            deadline: Some(Duration::ZERO),
            ..wait(stage, "it waits".to_owned())
        };
        overdue(settings, observed, &mut decision, Duration::ZERO);
        decision.escalation.expect("a call").1
    }

    #[test]
    fn the_way_out_names_the_setting_and_is_one() {
        let message = said(&settings(), &drained(), Stage::Detaching);
        let takes = "it waits; exceeds `recovery.detachTimeoutSeconds` (";
        assert!(message.starts_with(takes), "{message}");
        assert!(message.contains(" s); see what holds them"), "{message}");
        assert!(
            message.ends_with("do not remove `out-of-service` from Node worker-1"),
            "{message}"
        );
        let gone = Observed {
            node: Read::Absent,
            ..drained()
        };
        let message = said(&settings(), &gone, Stage::Detaching);
        assert!(!message.contains("out-of-service"), "{message}");
        let message = said(&settings(), &drained(), Stage::Verifying);
        assert!(
            message.ends_with("(`spec.manualConfirmation`)"),
            "{message}"
        );
        let now = Now {
            boot: Duration::ZERO,
            wall: jiff::Timestamp::UNIX_EPOCH,
        };
        let given = Settings {
            confirmation: Some(ManualConfirmation {
                user: "alice".to_owned(),
                node_uid: "uid-1".to_owned(),
                given: Since::at(now.wall, now),
                is_ahead: false,
            }),
            ..settings()
        };
        let message = said(&given, &drained(), Stage::Verifying);
        assert!(
            message.ends_with("create another and confirm that one"),
            "{message}"
        );
    }

    /// Each of these alone: the API server is to be seen to, and no device.
    #[test]
    fn the_way_out_of_what_cannot_be_read_is_the_api_server_s() {
        let unread = || "HTTP 503".to_owned();
        let seen = |change: fn(&mut Observed, String)| {
            let mut o = drained();
            change(&mut o, unread());
            is_unread(&o)
        };
        assert!(!seen(|_, _| {}));
        assert!(seen(|o, why| o.pods = Read::Failed(why)));
        assert!(seen(|o, why| o.attachments = Read::Failed(why)));
        assert!(seen(|o, why| o.evidence = Read::Failed(why)));
        let o = Observed {
            evidence: Read::Failed(unread()),
            ..drained()
        };
        let message = said(&settings(), &o, Stage::AwaitingRelease);
        assert!(
            message.contains("see why the API server does not answer"),
            "{message}"
        );
    }

    #[test]
    fn the_way_out_of_a_release_is_what_it_still_waits_for() {
        use ReleaseMode::{AfterDetach, AfterRecovery, Manual};
        let booted = Observed {
            node: Read::Present(NodeView {
                boot_id: "boot-2".to_owned(),
                ..node()
            }),
            ..drained()
        };
        for (release, released, way_out) in [
            (AfterDetach, false, "have it read Off"),
            (AfterRecovery, false, "(`release.mode` AfterRecovery)"),
            (AfterRecovery, true, "have it read Off"),
            (Manual, false, "(`release.mode` Manual)"),
            (Manual, true, "have it read Off"),
        ] {
            let settings = Settings {
                released,
                boot_id: Some(node().boot_id),
                ..crate::fixtures::asking(settings(), |it| it.release.mode = release)
            };
            let message = said(&settings, &drained(), Stage::AwaitingRelease);
            assert!(message.contains(way_out), "{message}");
            // Who has booted it already is not sent to boot it.
            let message = said(&settings, &booted, Stage::AwaitingRelease);
            assert!(message.contains("wait for what is named"), "{message}");
        }
    }
}
