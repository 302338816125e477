//! Reports one suspect, if all that is known of it allows that.

use super::{ByPolicy, Reported, Reporter, is_left_alone, tell};
use crate::shell::act;
use crate::shell::found_off::Said;
use crate::shell::knock::Knocked;
use crate::shell::observe;
use fencing_api::policy::{LevelRequirement, NodeFencingPolicy};
use fencing_core::answer::Reply;
use fencing_core::early::{self, DeviceSaid, LevelSaid, Obstacle, Suspect, wants_reports};
use fencing_core::observed::{NodeView, Read};
use fencing_core::protection::levels::{Devices, Judge};
use fencing_core::select::governing;
use fencing_core::verification::Require;
use fencing_core::window::mode;
use fencing_drivers::clock;
use futures::future::join_all;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::time::Duration;

impl Reporter {
    /// Judges each suspect of which a device has read Off.
    pub(super) async fn report_all(&mut self) {
        let suspects = self.context.found_off.suspects();
        let policies = self.context.caches.policies();
        let silent = self.silent(&policies, clock::since_boot());
        let this = &*self;
        let judged = suspects
            .iter()
            .map(|node| this.report(node, &policies, &silent));
        let reports = join_all(judged).await;
        for (node, reported) in suspects.into_iter().zip(reports) {
            match reported {
                Ok(Some(reported)) => drop(self.reported.insert(node, reported)),
                Ok(None) => {}
                Err(why) => self.tell_why_not(&node, why),
            }
        }
    }

    /// Reports the Node, if all that is known allows it. None: nothing was sent.
    async fn report(
        &self,
        name: &str,
        policies: &[NodeFencingPolicy],
        silent: &ByPolicy,
    ) -> Result<Option<Reported>, Obstacle> {
        let context = &self.context;
        let Some(renewal) = self.renewals.of(name) else {
            return Ok(None);
        };
        let Read::Present(slim) = observe::node(context, name).await else {
            return Ok(None);
        };
        let node = slim.view();
        let policy = governing(policies, &node).ok().flatten();
        let policy = policy.filter(|it| wants_reports(it) && !is_left_alone(it, &node));
        let levels = policy.map(|policy| self.levels(policy, &node));
        let levels = levels.filter(|all| all.iter().any(LevelSaid::is_worth_a_question));
        let (Some(policy), Some(levels)) = (policy, levels) else {
            return Ok(None);
        };
        let knocked = observe::knock(context, &slim).await;
        // Read last: it is what a living kubelet would have renewed meanwhile.
        let Read::Present(lease) = observe::lease(&context.reads, name).await else {
            return Ok(None);
        };
        let suspects = silent.get(&policy.name_any()).map_or(0, Vec::len);
        let brakes = self.brakes(policy, &node, suspects);
        let suspect = Suspect {
            node: &node,
            lease: &lease,
            renewal,
            levels: &levels,
            port_is_silent: knocked == Knocked::Silent,
        };
        let verdict = early::judge(&suspect, &brakes, clock::since_boot())?;
        let silent = clock::since_boot().saturating_sub(renewal.seen);
        let says = format!("{} reads Off", devices_off(&levels));
        let date = clock::date();
        let Some(patch) = early::mark::unknown(&node, &says, &date, &verdict) else {
            return Ok(None);
        };
        let reply = act::patch_node_status(context, patch).await;
        let stands = self.said(policy, &node, &says, silent, &reply);
        Ok(stands.map(|stands| Reported {
            uid: node.uid.clone(),
            boot_id: node.boot_id.clone(),
            sent: clock::since_boot(),
            heartbeat: node.last_report().to_owned(),
            policy: policy.name_any(),
            stands,
        }))
    }

    /// Says how it went, and whether the report may stand; none: it was not sent, or not taken for a reason that passes.
    fn said(
        &self,
        policy: &NodeFencingPolicy,
        node: &NodeView,
        says: &str,
        silent: Duration,
        reply: &Reply,
    ) -> Option<bool> {
        let (name, policy) = (node.name.as_str(), policy.name_any());
        match reply {
            // It may have landed: whether it did, the Node shows, and until then nothing refutes it.
            Reply::Done | Reply::Unknown(_) => {
                self.context.metrics.early_report(&policy);
                let seconds = silent.as_secs();
                let message = format!(
                    "{says} and the Lease of Node {name} is silent for {seconds} s: reported as PoweredOff"
                );
                tracing::info!(node = name, policy, "{message}");
                tell(&self.context, name, "ReportedPoweredOff", message);
                Some(*reply == Reply::Done)
            }
            // As a rule the kubelet reported first. Once is enough for this boot.
            Reply::Refused(422, why) => {
                tracing::info!(node = name, policy, why, "not reported early");
                Some(false)
            }
            Reply::Refused(_, why) | Reply::NotSent(why) => {
                tracing::warn!(node = name, policy, why, "not reported early");
                None
            }
            Reply::Device(..) => None,
        }
    }

    /// What the devices of the policy's levels have said.
    fn levels(&self, policy: &NodeFencingPolicy, node: &NodeView) -> Vec<LevelSaid> {
        let context = &self.context;
        let devices = context.caches.devices_of(node);
        let said: BTreeMap<String, Said> = context.found_off.said_of(node).into_iter().collect();
        let targets = |_: &_, _: &NodeView| Vec::new();
        let judge = Judge::by_status(&targets);
        let mode = mode(policy, clock::wall());
        let devices = Devices::of(&devices);
        let protection = devices.protection(policy, node, mode, judge);
        let levels = protection.levels.iter().map(|level| LevelSaid {
            require: match level.level.require {
                LevelRequirement::All => Require::All,
                LevelRequirement::Any => Require::Any,
            },
            devices: level
                .devices
                .iter()
                .map(|device| {
                    let name = device.name_any();
                    let said = said.get(&name);
                    DeviceSaid {
                        was_asked: said.is_some(),
                        reads_on: matches!(said, Some(Said::On)),
                        off: match said {
                            Some(Said::Off(off)) => Some(*off),
                            Some(Said::On | Said::Nothing) | None => None,
                        },
                        device: name,
                    }
                })
                .collect(),
        });
        levels.collect()
    }
}

/// `FenceDevice bmc`, or several.
fn devices_off(levels: &[LevelSaid]) -> String {
    let devices = levels.iter().flat_map(|level| &level.devices);
    let off = devices.filter(|device| device.off.is_some());
    let names: Vec<&str> = off.map(|device| device.device.as_str()).collect();
    format!("FenceDevice {}", names.join(", "))
}
