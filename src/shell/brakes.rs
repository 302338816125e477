//! Who may act: the budget's answer for all incidents of this process, judged under one lock.
//!
//! The core says what a budget allows ([`fencing_core::budget`]); what is remembered here is who has been let through, so that two
//! incidents that look at the same moment do not both take the last place.

use super::context::Context;
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_api::settings::FenceMode;
use fencing_core::budget::{self, Cluster, Open};
use fencing_core::hold::{HeldBy, Hold};
use fencing_drivers::clock;
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
    /// NodeFences that wait for a pod on their Node past their deadline: they keep their claim, and no place.
    stuck: BTreeSet<String>,
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
        if admissions.stuck.contains(&name) {
            return Ok(());
        }
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

    /// Is a pod that is not being deleted all that the incident waits for, past its deadline? It keeps no other node waiting then. Once it goes on it
    /// needs a place again, from its next round on: an intent may be written by then, and no command leaves before. There is a place, or its claim goes.
    pub fn note_stuck(&self, fence: &str, is_stuck: bool) {
        let mut admissions = self.admissions();
        if is_stuck {
            admissions.admitted.remove(fence);
            admissions.stuck.insert(fence.to_owned());
        } else if admissions.stuck.remove(fence) {
            admissions.unclaimed.insert(fence.to_owned(), Grace::Over);
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
        let is_late = !is_known || self.unclaimed.contains_key(fence);
        is_late && !self.stuck.contains(fence)
    }

    fn end(&mut self, fence: &str) {
        self.admitted.remove(fence);
        self.waiting.remove(fence);
        self.stuck.remove(fence);
        self.unclaimed.remove(fence);
    }

    fn judge(&mut self, context: &Context, applicant: &Applicant<'_>) -> Result<(), Hold> {
        let (fence, policy) = (applicant.fence, applicant.policy);
        let mine = self.open(fence);
        if self.admitted.contains(&mine.fence) {
            return Ok(());
        }
        // Asked for by every incident that is not admitted yet: what the caches hold is looked at, and not copied.
        let nodes = context.caches.nodes.state();
        let guards = context.caches.fences.state();
        let fences: Vec<&NodeFence> = guards.iter().flat_map(|guard| &guard.0).collect();
        let open = fences.iter().filter(|fence| !fence.is_ended());
        let open: Vec<Open> = open.map(|fence| self.open(fence)).collect();
        let times = self.times_of(&mine, &fences);
        // Which mode the policy is in may change by the hour; the incident goes as far as it froze.
        let mode = policy.map_or(FenceMode::PowerOff, |_| fence.spec.procedure.fence.mode);
        let selected = match (policy, mode) {
            (Some(policy), FenceMode::PowerOff) if !applicant.approved => {
                budget::selected(policy, &nodes, &fences)
            }
            _ => Vec::new(),
        };
        let cluster = Cluster {
            nodes: &nodes,
            selected: &selected,
            open: &open,
            admissions: &times,
            own_node: context.own_node.as_deref(),
            cap: context.max_concurrent,
        };
        let budget = policy.map(|policy| policy.spec.budget.clone());
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
    fn times_of(&mut self, mine: &Open, fences: &[&NodeFence]) -> Vec<Duration> {
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
    fn note_written(&mut self, fences: &[&NodeFence]) {
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
        let is_outdated = self.unclaimed.get(&name) == Some(&Grace::Over);
        let is_outdated = is_outdated || self.stuck.contains(&name);
        Open {
            admitted: self.admitted.contains(&name) || (fence.was_admitted() && !is_outdated),
            waits: self.waiting.get(&name).copied(),
            ..Open::of_record(fence)
        }
    }
}

#[cfg(test)]
mod tests;
