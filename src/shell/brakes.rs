//! Who may act: the budget's answer for all incidents of this process, judged under one lock.
//!
//! The core says what a budget allows ([`crate::core::budget`]); what is remembered here is who has been let through, so that two
//! incidents that look at the same moment do not both take the last place.

use super::context::Context;
use crate::api::fence::NodeFence;
use crate::api::fence_status::NodeFenceStatus;
use crate::api::policy::NodeFencingPolicy;
use crate::api::settings::FenceMode;
use crate::clock;
use crate::core::budget::{self, Cluster, Open};
use crate::core::hold::{HeldBy, Hold};
use crate::core::observed::NodeView;
use crate::core::select;
use crate::core::support::deletes_nodes;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an incident that is not on its Node keeps its place: it may try again at once, and by then the API server has given up a claim
/// that it was slow to answer (kube-apiserver's `--request-timeout`, 1 min by default, v1.36).
const UNCLAIMED_MAX: Duration = Duration::from_secs(60);

/// Which incidents have been admitted.
#[derive(Default)]
pub struct Brakes(Mutex<Admissions>);

#[derive(Default)]
struct Admissions {
    /// NodeFences that may act.
    admitted: BTreeSet<String>,
    /// NodeFences that nothing but their turn keeps from acting, and the brake that makes them wait for it.
    waiting: BTreeMap<String, HeldBy>,
    /// NodeFences of which nothing is on their Nodes, whatever their records say.
    unclaimed: BTreeMap<String, Grace>,
    /// Policy and first admission of each NodeFence of the last hour, by name.
    times: BTreeMap<String, (String, Duration)>,
    /// When the NodeFences that there are were admitted, as their records say, by name; none: more than an hour ago.
    written: BTreeMap<String, Option<Duration>>,
}

/// How long a NodeFence of which nothing is on its Node keeps its place all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grace {
    /// Until then (time since boot).
    Until(Duration),
    /// Only while a claim of it is on its way.
    Over,
}

/// Whom the budget is asked for.
pub struct Applicant<'a> {
    /// The incident.
    pub fence: &'a NodeFence,
    /// Its policy; a human's NodeFence may have none.
    pub policy: Option<&'a NodeFencingPolicy>,
    /// A human wants it, or has approved it.
    pub approved: bool,
}

impl Brakes {
    fn admissions(&self) -> MutexGuard<'_, Admissions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What would hold the incident if it wanted to act now.
    pub fn look(&self, context: &Context, applicant: &Applicant<'_>) -> Result<(), Hold> {
        let mut admissions = self.admissions();
        admissions.judge(context, applicant)
    }

    /// Takes a place for the incident, or says what holds it. It keeps the place until [`Self::end`] or [`Self::give_back`], or until
    /// [`Self::note_unclaimed`] has been told for too long.
    pub fn admit(&self, context: &Context, applicant: &Applicant<'_>) -> Result<(), Hold> {
        let mut admissions = self.admissions();
        admissions.judge(context, applicant)?;
        let (name, now) = (applicant.fence.name_any(), clock::since_boot());
        let policy = applicant.fence.spec.policy_name.clone();
        let is_recent = |at: Duration| now.saturating_sub(at) < budget::HOUR;
        admissions.times.retain(|_, (_, at)| is_recent(*at));
        if !admissions.times.contains_key(&name) {
            let first = (policy.unwrap_or_default(), now);
            admissions.times.insert(name.clone(), first);
            let grace = Grace::Until(now + UNCLAIMED_MAX);
            admissions.unclaimed.insert(name.clone(), grace);
        }
        admissions.waiting.remove(&name);
        admissions.admitted.insert(name);
        Ok(())
    }

    /// The brake whose turn is all that the incident waits for, if it is.
    pub fn waits(&self, fence: &str, queue: Option<HeldBy>) {
        let mut admissions = self.admissions();
        match queue {
            Some(queue) => admissions.waiting.insert(fence.to_owned(), queue),
            None => admissions.waiting.remove(fence),
        };
    }

    /// The claim of an incident is on its Node: it was admitted by the process before us if the record has that claim, unless this one has
    /// seen the Node without it. A claim that may have landed late gets a place if there still is one.
    pub fn readmit(
        &self,
        context: &Context,
        applicant: &Applicant<'_>,
        is_recorded: bool,
    ) -> Result<(), Hold> {
        let mut admissions = self.admissions();
        let name = applicant.fence.name_any();
        let is_late = admissions.is_late(&name, is_recorded);
        let judged = is_late.then(|| admissions.judge(context, applicant));
        judged.unwrap_or(Ok(()))?;
        admissions.unclaimed.remove(&name);
        admissions.admitted.insert(name);
        Ok(())
    }

    /// May the claim that is on the Node now have landed late?
    pub fn is_late(&self, fence: &str, is_recorded: bool) -> bool {
        self.admissions().is_late(fence, is_recorded)
    }

    /// Nothing of the incident is on its Node: its claim was refused, has not landed yet, or is gone. One that goes on trying keeps its
    /// place for [`UNCLAIMED_MAX`] from its first claim of the hour on, and then only while another claim is on its way.
    pub fn note_unclaimed(&self, fence: &str, now: Duration) {
        let mut admissions = self.admissions();
        let grace = admissions.unclaimed.entry(fence.to_owned());
        let grace = grace.or_insert(Grace::Until(now + UNCLAIMED_MAX));
        match *grace {
            Grace::Until(until) if now < until => {}
            Grace::Until(_) | Grace::Over => {
                *grace = Grace::Over;
                admissions.admitted.remove(fence);
            }
        }
    }

    /// The incident has given its claim back, and goes on: its place is free.
    pub fn give_back(&self, fence: &str) {
        let mut admissions = self.admissions();
        admissions.end(fence);
        admissions.unclaimed.insert(fence.to_owned(), Grace::Over);
    }

    /// The incident has ended: its place is free.
    pub fn end(&self, fence: &str) {
        self.admissions().end(fence);
    }
}

impl Admissions {
    /// This process has seen the Node without a claim, or neither knows the claim nor finds it in the record.
    fn is_late(&self, fence: &str, is_recorded: bool) -> bool {
        let is_known = is_recorded || self.admitted.contains(fence);
        !is_known || self.unclaimed.contains_key(fence)
    }

    fn end(&mut self, fence: &str) {
        self.admitted.remove(fence);
        self.waiting.remove(fence);
        self.unclaimed.remove(fence);
    }

    fn judge(&mut self, context: &Context, applicant: &Applicant<'_>) -> Result<(), Hold> {
        let (fence, policy) = (applicant.fence, applicant.policy);
        let mine = self.open(fence);
        if self.admitted.contains(&mine.fence) {
            return Ok(());
        }
        let nodes = context.caches.node_views();
        let selected = |policy: &NodeFencingPolicy| {
            let selector = &policy.spec.node_selector;
            nodes
                .iter()
                .filter(|node| select::matches(selector, &node.labels))
                .map(|node| node.name.clone())
                .collect()
        };
        let mut selected: Vec<String> = policy.map(selected).unwrap_or_default();
        let fences = context.caches.fences();
        selected.extend(deleted_nodes(&fences, &mine.policy, &nodes));
        let open = fences.iter().filter(|fence| !fence.is_ended());
        let open: Vec<Open> = open.map(|fence| self.open(fence)).collect();
        let times = self.times_of(&mine, &fences);
        let cluster = Cluster {
            nodes: &nodes,
            selected: &selected,
            open: &open,
            admissions: &times,
            own_node: context.own_node.as_deref(),
            cap: context.max_concurrent,
        };
        let budget = policy.map(|policy| policy.spec.budget.clone());
        // Which mode the policy is in may change by the hour; the incident goes as far as it froze.
        let mode = policy.map_or(FenceMode::PowerOff, |_| fence.spec.fence.mode);
        budget::admit(
            &mine,
            mode,
            applicant.approved || policy.is_none(),
            &budget.unwrap_or_default(),
            &cluster,
            clock::since_boot(),
        )
    }

    /// When others of the policy were admitted: by this process, or by one before it that wrote it down. What claims again began once, and
    /// is not held back by itself.
    fn times_of(&mut self, mine: &Open, fences: &[NodeFence]) -> Vec<Duration> {
        self.note_written(fences);
        let is_other = |name: &str| name != mine.fence;
        let ours = self
            .times
            .iter()
            .filter(|(name, (of, _))| *of == mine.policy && is_other(name));
        let written = fences.iter().filter_map(|fence| {
            let name = fence.name_any();
            let is_of_policy = fence.spec.policy_name.as_deref() == Some(&mine.policy);
            let counts = is_of_policy && is_other(&name) && !self.times.contains_key(&name);
            self.written.get(&name).copied()?.filter(|_| counts)
        });
        ours.map(|(_, (_, at))| *at).chain(written).collect()
    }

    /// The wall clock is asked once for each. What it puts into the future was just now: that may hold an incident back for an hour, and
    /// lets none through.
    fn note_written(&mut self, fences: &[NodeFence]) {
        let (now, wall_now) = (clock::since_boot(), clock::wall());
        let noted = fences.iter().filter_map(|fence| {
            let name = fence.name_any();
            let at = fence.status.as_ref()?.approved_time?;
            let age = Duration::try_from(wall_now.duration_since(at)).unwrap_or_default();
            let heard = (age < budget::HOUR).then(|| now.saturating_sub(age));
            let known = self.written.get(&name).copied();
            Some((name, known.unwrap_or(heard)))
        });
        self.written = noted.collect();
    }

    /// A NodeFence as the budget sees it.
    fn open(&self, fence: &NodeFence) -> Open {
        let name = fence.name_any();
        let created = fence.metadata.creation_timestamp.as_ref();
        let is_outdated = self.unclaimed.get(&name) == Some(&Grace::Over);
        Open {
            admitted: self.admitted.contains(&name) || (was_admitted(fence) && !is_outdated),
            waits: self.waiting.get(&name).copied(),
            node: fence.spec.node_name.clone(),
            policy: fence.spec.policy_name.clone().unwrap_or_default(),
            created: created.map(|time| time.0.to_string()).unwrap_or_default(),
            deletes: deletes_nodes(&fence.spec.recovery),
            fence: name,
        }
    }
}

/// The Nodes that this policy had deleted and that are not there again, as long as the records of that are kept: machines that are down, which
/// a storm is told by like any other (S13).
fn deleted_nodes(fences: &[NodeFence], policy: &str, nodes: &[NodeView]) -> BTreeSet<String> {
    let is_gone = |name: &str| !nodes.iter().any(|node| node.name == name);
    let of_policy = fences
        .iter()
        .filter(|fence| fence.spec.policy_name.as_deref() == Some(policy));
    let deleted = of_policy.filter(|fence| {
        let was_marked = |status: &NodeFenceStatus| status.taint_applied_time.is_some();
        let is_marked = fence.status.as_ref().is_some_and(was_marked);
        deletes_nodes(&fence.spec.recovery) && is_marked && is_gone(&fence.spec.node_name)
    });
    deleted.map(|fence| fence.spec.node_name.clone()).collect()
}

/// Admitted by a process before us: it has claimed the node, or more, and has not released it.
fn was_admitted(fence: &NodeFence) -> bool {
    let status = fence.status.as_ref();
    status.is_some_and(|status| {
        let is_out = status.taint_applied_time.is_some() && status.taint_removed_time.is_none();
        status.claim.is_some() || is_out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::{self, Cluster};
    use serde_json::{Value, json};
    use std::sync::Arc;
    use tokio::task::JoinSet;

    /// A NodeFence of policy `prod`, each of a node of its own.
    fn fence(name: &str, status: Value) -> Value {
        json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "nodeName": format!("node-of-{name}"), "policyName": "prod",
                "trigger": {"type": "NodeCondition"},
                "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
            },
            "status": status,
        })
    }

    fn ago(hours: i64) -> jiff::Timestamp {
        clock::wall() - jiff::SignedDuration::from_hours(hours)
    }

    /// The record of a fence that began so many hours ago and is over.
    fn ended(hours: i64) -> Value {
        let succeeded = json!({
            "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        json!({"conditions": [succeeded], "approvedTime": ago(hours).to_string()})
    }

    /// The brakes of a process that has just begun and whose cache has these NodeFences.
    struct Lab {
        context: Arc<Context>,
        _watches: JoinSet<()>,
    }

    impl Lab {
        async fn new(fences: &[Value]) -> Self {
            let cluster = Cluster::new().await;
            let list = fake::list("NodeFence", "7", fences);
            cluster.put("GET /apis/nodefencing.io/v1alpha1/nodefences", 200, list);
            let (context, watches) = cluster.watching();
            let fences = &context.caches.fences;
            fences.wait_until_ready().await.expect("the NodeFences");
            Self {
                context,
                _watches: watches,
            }
        }

        /// Why the incident of this name is held, if it is.
        fn asked(
            &self,
            name: &str,
            ask: impl FnOnce(&Brakes, &Context, &Applicant<'_>) -> Result<(), Hold>,
        ) -> Option<&'static str> {
            let budget = json!({"maxConcurrent": 1, "maxPerHour": 3, "minHealthy": 0});
            let spec = json!({"nodeSelector": {}, "budget": budget, "fence": {"mode": "PowerOff"}});
            let spec = serde_json::from_value(spec).expect("a spec");
            let policy = NodeFencingPolicy::new("prod", spec);
            let fence = serde_json::from_value(fence(name, json!({}))).expect("a NodeFence");
            let applicant = Applicant {
                fence: &fence,
                policy: Some(&policy),
                approved: false,
            };
            let judged = ask(&self.context.brakes, &self.context, &applicant);
            judged.err().map(|hold| hold.reason.as_str())
        }
    }

    /// S13: both have looked before either acts.
    #[tokio::test]
    async fn two_incidents_cannot_both_take_the_last_place() {
        let lab = Lab::new(&[fence("a", json!({})), fence("b", json!({}))]).await;
        assert_eq!(
            [lab.asked("a", Brakes::look), lab.asked("b", Brakes::look)],
            [None; 2]
        );
        assert_eq!(lab.asked("a", Brakes::admit), None);
        assert_eq!(lab.asked("b", Brakes::admit), Some("MaxConcurrent"));
        // Its own place holds nobody.
        assert_eq!(lab.asked("a", Brakes::admit), None);
        lab.context.brakes.end("a");
        assert_eq!(lab.asked("b", Brakes::admit), None);
    }

    /// S13: whatever the policy, or one of its windows, says by now: what turns a machine off asks whether too many are down.
    #[tokio::test]
    async fn the_brakes_judge_an_incident_by_the_mode_that_it_froze() {
        let lab = Lab::new(&[]).await;
        for (live, frozen, held) in [
            ("Observe", "PowerOff", Some("Storm")),
            ("PowerOff", "PowerOff", Some("Storm")),
            ("PowerOff", "ConfirmOnly", None),
        ] {
            let budget = json!({"minHealthy": 1});
            let spec = json!({"nodeSelector": {}, "budget": budget, "fence": {"mode": live}});
            let spec = serde_json::from_value(spec).expect("a spec");
            let policy = NodeFencingPolicy::new("prod", spec);
            let mut fence = fence("a", json!({}));
            fence["spec"]["fence"]["mode"] = json!(frozen);
            let fence = serde_json::from_value(fence).expect("a NodeFence");
            let applicant = Applicant {
                fence: &fence,
                policy: Some(&policy),
                approved: false,
            };
            let judged = lab.context.brakes.look(&lab.context, &applicant);
            assert_eq!(
                judged.err().map(|it| it.reason.as_str()),
                held,
                "{live} {frozen}"
            );
        }
    }

    /// S13: a machine whose Node was deleted is down like any other, until it is back.
    #[test]
    fn nodes_that_were_deleted_are_counted_until_they_are_back() {
        let marked = json!({"taintAppliedTime": ago(0).to_string()});
        let record = |name: &str, strategy: &str, status: &Value| -> NodeFence {
            let mut fence = fence(name, status.clone());
            fence["spec"]["recovery"] = json!({"strategy": strategy});
            fence["spec"]["nodeName"] = json!(name);
            fence["spec"]["policyName"] = json!("prod");
            serde_json::from_value(fence).expect("a NodeFence")
        };
        let fences = [
            record("gone", "DeleteNode", &marked),
            record("back", "DeleteNode", &marked),
            record("tainted", "OutOfServiceTaint", &marked),
            record("released", "DeleteNode", &json!({})),
        ];
        let back = NodeView {
            name: "back".to_owned(),
            ..crate::core::fixtures::node()
        };
        let counted = deleted_nodes(&fences, "prod", &[back]);
        assert_eq!(counted, BTreeSet::from(["gone".to_owned()]));
        assert!(deleted_nodes(&fences, "another", &[]).is_empty());
    }

    /// S13: what a process before this one has begun goes on, and counts.
    #[tokio::test]
    async fn what_was_admitted_before_a_restart_counts() {
        let claimed = json!({"claim": "a-n1"});
        let tainted = json!({"taintAppliedTime": ago(0).to_string()});
        let table = [
            (vec![json!({})], None),
            (vec![claimed], Some("MaxConcurrent")),
            (vec![tainted], Some("MaxConcurrent")),
            (vec![ended(0), ended(0)], None),
            (vec![ended(0), ended(0), ended(0)], Some("MaxPerHour")),
            (vec![ended(0), ended(0), ended(2)], None),
            // Written when the date was ahead.
            (vec![ended(0), ended(0), ended(-2)], Some("MaxPerHour")),
        ];
        for (before, held) in table {
            let numbered = before.iter().enumerate();
            let fences: Vec<Value> = numbered
                .map(|(number, status)| fence(&format!("a{number}"), status.clone()))
                .collect();
            let lab = Lab::new(&fences).await;
            assert_eq!(lab.asked("b", Brakes::look), held, "{before:?}");
        }
    }

    /// S13: two others have begun in this hour, and three may.
    #[tokio::test]
    async fn a_fence_that_claims_again_is_not_held_back_by_its_own_beginning() {
        let others = [fence("a", ended(0)), fence("b", ended(0))];
        let lab = Lab::new(&others).await;
        assert_eq!(lab.asked("c", Brakes::admit), None);
        lab.context.brakes.give_back("c");
        assert_eq!(lab.asked("c", Brakes::look), None);
        assert_eq!(lab.asked("d", Brakes::look), Some("MaxPerHour"));
        // After a restart.
        let [a, b] = others;
        let began = json!({"approvedTime": ago(0).to_string()});
        let lab = Lab::new(&[a, b, fence("c", began)]).await;
        assert_eq!(lab.asked("c", Brakes::look), None);
        assert_eq!(lab.asked("d", Brakes::look), Some("MaxPerHour"));
    }

    /// S13, L5: its claim is refused, or never lands. It keeps its place while it tries again at once, and not for ever.
    #[tokio::test]
    async fn who_is_not_on_its_node_makes_room_after_a_while() {
        let claimed = json!({"claim": "a-n1"});
        let lab = Lab::new(&[fence("a", claimed), fence("b", json!({}))]).await;
        assert_eq!(lab.asked("a", Brakes::admit), None);
        let (brakes, now) = (&lab.context.brakes, clock::since_boot());
        for (later, held) in [
            (Duration::ZERO, Some("MaxConcurrent")),
            (UNCLAIMED_MAX / 2, Some("MaxConcurrent")),
            (UNCLAIMED_MAX, None),
        ] {
            brakes.note_unclaimed("a", now + later);
            assert_eq!(lab.asked("b", Brakes::look), held, "{later:?}");
            assert_eq!(lab.asked("a", Brakes::look), None, "{later:?}");
        }
        // The next claim takes the place only while it is on its way.
        assert_eq!(lab.asked("a", Brakes::admit), None);
        assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
        brakes.note_unclaimed("a", now);
        assert_eq!(lab.asked("b", Brakes::admit), None);
        assert_eq!(lab.asked("a", Brakes::admit), Some("MaxConcurrent"));
    }

    /// Its turn came late, or it is of a process before this one, which never wrote that the claim is gone.
    #[tokio::test]
    async fn what_waited_long_for_its_turn_keeps_its_place_as_long_as_any_other() {
        let claimed = json!({"claim": "a-n1"});
        let lab = Lab::new(&[fence("a", claimed), fence("b", json!({}))]).await;
        let (brakes, now) = (&lab.context.brakes, clock::since_boot());
        brakes.note_unclaimed("a", now);
        assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
        brakes.note_unclaimed("a", now + UNCLAIMED_MAX);
        assert_eq!(lab.asked("b", Brakes::look), None);
        assert_eq!(lab.asked("a", Brakes::admit), None);
        brakes.note_unclaimed("a", clock::since_boot());
        assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
    }

    #[tokio::test]
    async fn a_claim_that_is_seen_keeps_its_place_and_begins_the_next_wait_anew() {
        let lab = Lab::new(&[fence("a", json!({})), fence("b", json!({}))]).await;
        let (brakes, now) = (&lab.context.brakes, clock::since_boot());
        assert_eq!(lab.asked("a", Brakes::admit), None);
        brakes.note_unclaimed("a", now);
        assert_eq!(lab.asked("a", recorded), None);
        brakes.note_unclaimed("a", now + 2 * UNCLAIMED_MAX);
        assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
    }

    fn recorded(brakes: &Brakes, context: &Context, it: &Applicant<'_>) -> Result<(), Hold> {
        brakes.readmit(context, it, true)
    }

    fn unrecorded(brakes: &Brakes, context: &Context, it: &Applicant<'_>) -> Result<(), Hold> {
        brakes.readmit(context, it, false)
    }

    /// S13: nobody knew that it would land, and another one has its place by now. What a process before this one has claimed is under way.
    #[tokio::test]
    async fn a_claim_that_lands_late_gets_a_place_only_if_there_is_one() {
        let fences = [fence("a", json!({})), fence("b", json!({}))];
        let lab = Lab::new(&fences).await;
        let brakes = &lab.context.brakes;
        assert_eq!(lab.asked("a", Brakes::admit), None);
        brakes.give_back("a");
        assert_eq!(lab.asked("b", Brakes::admit), None);
        assert_eq!(lab.asked("a", recorded), Some("MaxConcurrent"));
        brakes.end("b");
        assert_eq!(lab.asked("a", recorded), None);
        assert_eq!(lab.asked("b", Brakes::admit), Some("MaxConcurrent"));
        // Nor does a process that has just begun know when it landed, unless the record has it.
        let lab = Lab::new(&fences).await;
        assert_eq!(lab.asked("b", Brakes::admit), None);
        assert_eq!(lab.asked("a", unrecorded), Some("MaxConcurrent"));
        assert_eq!(lab.asked("a", recorded), None);
    }

    /// The node is recovered: while its machine is turned on again others are fenced.
    #[tokio::test]
    async fn what_was_released_takes_no_place() {
        let applied = json!({"taintAppliedTime": "2026-01-01T00:00:00Z"});
        let mut released = applied.clone();
        released["taintRemovedTime"] = json!("2026-01-01T00:01:00Z");
        for (status, held) in [(applied, Some("MaxConcurrent")), (released, None)] {
            let lab = Lab::new(&[fence("a", status), fence("b", json!({}))]).await;
            assert_eq!(lab.asked("b", Brakes::look), held);
        }
        // By this process, and seen by it.
        let lab = Lab::new(&[fence("a", json!({})), fence("b", json!({}))]).await;
        assert_eq!(lab.asked("a", Brakes::admit), None);
        lab.context.brakes.give_back("a");
        assert_eq!(lab.asked("b", Brakes::admit), None);
    }
}
