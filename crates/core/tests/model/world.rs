//! The cluster around the operators: machine, kubelet, controller-manager, scheduler, and people.
//!
//! Each rule says when something can happen, and does it. Nothing takes any time, so that a machine may boot and start a pod between any
//! two steps of an operator. And nothing has to happen: a node that is cut off is one whose kubelet does nothing for a while that needs
//! the API server, so that a partition begins and ends at any moment without a rule of its own. The rules follow upstream at v1.36 and runs on real kubelets; where a rule is
//! stricter than Kubernetes, because the operator is not there to prevent it, its comment says so.

use crate::brain::Brain;
use crate::budget::Budget;
use crate::event::{Event, Step};
use crate::life;
use crate::mutation::Mutation;
use crate::power;
use crate::state::{Container, Node, Object, Pod, State, Taint, Volume};
use crate::views::Incident;

/// The uid of a second pod that was bound before the claim. A later one has the next.
const EARLY: u8 = 1;

/// What the node's second pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// There is none.
    None,
    /// It tolerates every taint, has no volume, and somebody may delete it.
    Tolerates,
    /// It is bound to the node late, past the scheduler, and uses the volume too.
    ComesLate,
    /// It tolerates every taint, uses the volume too, and somebody may delete it; deleted by force by the operator, it is made anew and bound to the
    /// node again, whatever stands there.
    Stays,
}

/// One configuration of the model.
#[derive(Debug, Clone)]
pub struct World {
    /// Its name in the table.
    pub name: &'static str,
    /// The incident's settings.
    pub incident: Incident,
    /// The second pod.
    pub second: Second,
    /// A pod that was bound before the claim is started in spite of it: only its deletion keeps it from starting.
    pub starts_despite_claim: bool,
    /// Both operators act; otherwise there is one.
    pub two: bool,
    /// What was read beside a write may be used for the next decision.
    pub reads_ahead: bool,
    /// A proof may die of age.
    pub proofs_die: bool,
    /// An operator may write down where it stands, besides what the protocol wants to be written.
    pub stages: bool,
    /// What an operator never asks again is left out ([`crate::forget`]).
    pub forgets: bool,
    /// The device, which has read On of the machine in its peace, has read Off since before the incident, and does so for good.
    pub lies: bool,
    /// How often what would otherwise happen for ever may happen.
    pub budget: Budget,
}

impl World {
    /// Does the second pod tolerate `out-of-service`?
    pub fn tolerates(&self) -> bool {
        matches!(self.second, Second::Tolerates | Second::Stays)
    }

    /// Does the second pod write to the volume?
    pub fn second_shares_volume(&self) -> bool {
        matches!(self.second, Second::ComesLate | Second::Stays)
    }

    /// The node has just been found NotReady, and everything on it still runs.
    pub fn first(&self) -> State {
        let pod = Pod {
            object: Object::Bound,
            container: Container::Running,
            generation: 0,
            written: false,
        };
        let mut first = State {
            on: true,
            lies: self.lies || !self.incident.control.is_shown(),
            deceived: self.lies,
            boot: 1,
            node: Node {
                uid: 1,
                boot: 1,
                ready: false,
                ..Node::default()
            },
            budget: self.budget,
            ..State::default()
        };
        first.pods[0] = pod;
        if self.tolerates() {
            first.pods[1] = pod;
        }
        if !self.two {
            first.operators[1].finished = true;
        }
        first
    }

    /// Does a pod keep `out-of-service` on the node?
    pub fn hinders(&self, s: &State) -> bool {
        let stays =
            |index: usize, pod: &Pod| index == 1 && self.tolerates() && pod.object == Object::Bound;
        let mut pods = s.pods.iter().enumerate();
        pods.any(|(index, pod)| pod.is_on_node() && !stays(index, pod))
    }

    /// Everything in the cluster that can happen next.
    pub fn steps(&self, brain: &mut Brain, s: &State, steps: &mut Vec<Step>) {
        let mut can = |event: Event, is_possible: bool, change: &dyn Fn(&mut State)| {
            if is_possible {
                let mut next = *s;
                change(&mut next);
                steps.push(Step::new(event, next, None));
            }
        };
        power::events(s, self.lies, &mut can);
        let evicts = brain.mutation != Some(Mutation::ClaimEvictsNobody);
        self.kubelet(s, &mut can);
        self.controllers(s, evicts, &mut can);
        self.people(s, &mut can);
        life::writes_pods(s, &mut can);
        life::renews_lease(self, brain, s, steps);
    }

    /// The kubelet: it needs power, and nothing else.
    fn kubelet(&self, s: &State, can: &mut impl FnMut(Event, bool, &dyn Fn(&mut State))) {
        let is_reported = s.node.ready && s.node.boot == s.boot;
        can(
            Event::Reports,
            s.on && s.node.uid != 0 && !is_reported,
            &|n| {
                (n.node.boot, n.node.ready) = (n.boot, true);
            },
        );
        can(Event::Registers, s.on && s.node.uid == 0, &|n| {
            n.node = Node {
                uid: 2,
                boot: n.boot,
                ready: true,
                ..Node::default()
            };
        });
        for index in 0..s.pods.len() {
            let pod = &s.pods[index];
            can(
                Event::Starts(index),
                s.on && self.may_start(s, index),
                &|n| {
                    n.pods[index].container = Container::Starting;
                },
            );
            let begun = pod.container == Container::Starting;
            can(Event::Runs(index), s.on && begun, &|n| {
                n.pods[index].container = Container::Running;
            });
            // A start that has begun is not called back: it comes up, and is stopped then.
            let runs = pod.container == Container::Running;
            can(
                Event::Stops(index),
                s.on && runs && pod.object != Object::Bound,
                &|n| {
                    n.pods[index].container = Container::None;
                },
            );
            let is_stopped = pod.container == Container::None && pod.object == Object::Deleting;
            can(Event::Finishes(index), s.on && is_stopped, &|n| {
                n.pods[index].object = self.gone(index);
            });
        }
    }

    /// What is left of a pod that somebody else than the operator has seen off. Of one that stays, the next is bound to the other node: that it may come
    /// here too is R7.
    fn gone(&self, index: usize) -> Object {
        match self.second {
            Second::Stays if index == 1 => Object::ForeignCommands,
            _ => Object::Gone,
        }
    }

    /// A pod with a deletionTimestamp never starts. One that meets a NoExecute taint is refused, unless the configuration leaves this
    /// guard out for the pod that was bound before the claim.
    fn may_start(&self, s: &State, index: usize) -> bool {
        let pod = &s.pods[index];
        let is_new = pod.object == Object::Bound && pod.container == Container::None;
        let tolerates = index == 1 && self.tolerates();
        let has_volume = !(index == 0 || self.second_shares_volume()) || s.volume == Volume::Here;
        let refuses = s.node.claim().is_some() || s.node.is_marked();
        let is_known = self.starts_despite_claim && (index == 0 || pod.generation == EARLY);
        let goes_in = tolerates || is_known || !refuses;
        is_new && has_volume && goes_in
    }

    /// kube-controller-manager, the scheduler, and the operator's own detector.
    fn controllers(
        &self,
        s: &State,
        claim_evicts: bool,
        can: &mut impl FnMut(Event, bool, &dyn Fn(&mut State)),
    ) {
        let node = &s.node;
        can(Event::NotReady, node.uid != 0 && node.ready, &|n| {
            n.node.ready = false
        });
        let evicts = (claim_evicts && node.claim().is_some()) || node.is_marked();
        for index in 0..s.pods.len() {
            let pod = &s.pods[index];
            let tolerates = index == 1 && self.tolerates();
            let is_evicted = evicts && pod.object == Object::Bound && !tolerates;
            can(Event::TaintEviction(index), is_evicted, &|n| {
                n.pods[index].object = Object::Deleting;
            });
            let is_terminating = pod.object == Object::Deleting && node.out_of_service();
            let is_orphaned = node.uid == 0 && pod.is_on_node();
            let is_collected = (is_terminating && !node.ready) || is_orphaned;
            can(Event::PodGc(index), is_collected, &|n| {
                n.pods[index].object = self.gone(index)
            });
        }
        self.volume(s, can);
        let is_gone = s.pods[0].object == Object::Gone;
        can(Event::Replaced, is_gone && s.budget.bindings > 0, &|n| {
            n.budget.bindings -= 1;
            n.pods[0].object = Object::ForeignCommands;
            n.pods[0].generation += 1;
            n.pods[0].written = false;
        });
        let is_free = node.uid != 0 && node.ready && node.taints().all(|it| it == Taint::FOREIGN);
        let is_stopped = s.pods[0].container == Container::None;
        can(
            Event::Bound(0),
            is_gone && is_free && is_stopped && s.budget.bindings > 0,
            &|n| {
                n.budget.bindings -= 1;
                n.pods[0].object = Object::Bound;
                n.pods[0].generation += 1;
                n.pods[0].written = false;
            },
        );
        let is_orphaned = s.record.ended && node.claim().is_some() && !node.is_marked();
        can(Event::TidiesClaim, is_orphaned && node.ready, &|n| {
            let claim = n.node.claim().unwrap_or_default();
            n.node.remove(Taint::claim(claim));
        });
        let is_over = node.quarantined().is_some_and(|fenced| fenced != node.boot);
        can(
            Event::LiftsQuarantine,
            is_over && node.claim().is_none(),
            &|n| {
                let fenced = n.node.quarantined().unwrap_or_default();
                n.node.remove(Taint::quarantine(fenced));
            },
        );
    }

    /// attach/detach. Its own force detach after six minutes is left out: it does not ask the operator (R4).
    fn volume(&self, s: &State, can: &mut impl FnMut(Event, bool, &dyn Fn(&mut State))) {
        let shared = if self.second_shares_volume() { 2 } else { 1 };
        let users = &s.pods[..shared];
        let is_wanted = users.iter().any(Pod::is_on_node);
        let is_mounted = users.iter().any(|pod| pod.container != Container::None);
        let is_here = s.volume == Volume::Here && s.node.uid != 0 && !is_wanted;
        let is_unmounted = s.on && !is_mounted;
        can(Event::Detaches(false), is_here && is_unmounted, &|n| {
            n.volume = Volume::Nowhere
        });
        // Of a Node that was deleted it is detached by force too, after six minutes: here only if the machine is off (R4).
        let is_deleted = s.volume == Volume::Here && s.node.uid == 0 && !is_wanted && !s.on;
        let is_forced = (is_here && !is_unmounted && s.node.out_of_service()) || is_deleted;
        can(Event::Detaches(true), is_forced, &|n| {
            n.volume = Volume::Nowhere
        });
        // It does so whatever runs: a deletionTimestamp is never taken back.
        can(Event::Leaves, s.leaving && s.volume == Volume::Here, &|n| {
            n.volume = Volume::Nowhere;
        });
        let is_free = s.volume == Volume::Nowhere;
        let moves = s.pods[0].object == Object::ForeignCommands;
        can(
            Event::Attaches(Volume::ForeignCommands),
            is_free && moves,
            &|n| n.volume = Volume::ForeignCommands,
        );
        can(
            Event::Attaches(Volume::Here),
            is_free && is_wanted && s.node.uid != 0,
            &|n| {
                n.volume = Volume::Here;
                if self.incident.deletes {
                    n.attachment = (n.attachment + 1).min(3);
                }
                n.leaving = false;
            },
        );
    }

    /// Whoever powers on, deletes, binds and taints.
    fn people(&self, s: &State, can: &mut impl FnMut(Event, bool, &dyn Fn(&mut State))) {
        can(
            Event::NodeDeleted,
            s.node.uid != 0 && s.budget.deletions > 0,
            &|n| {
                n.budget.deletions -= 1;
                n.node = Node::default();
            },
        );
        can(
            Event::NodeCopied,
            s.node.uid == 1 && s.budget.copies > 0,
            &|n| {
                n.budget.copies -= 1;
                n.node.uid = 2;
            },
        );
        can(
            Event::ForeignTaint,
            s.node.uid != 0 && s.budget.foreign_taints > 0,
            &|n| {
                n.budget.foreign_taints -= 1;
                n.node.add(Taint::FOREIGN);
            },
        );
        let second = s.pods[1].object;
        can(
            Event::Deleted(1),
            self.tolerates() && second == Object::Bound,
            &|n| {
                n.pods[1].object = Object::Deleting;
            },
        );
        // Of a machine that is off nobody else sees it through.
        let is_stuck = self.second == Second::Stays && second == Object::Deleting && !s.on;
        can(Event::Forced(1), is_stuck, &|n| {
            n.pods[1].object = self.gone(1);
        });
        let is_made_anew = self.second == Second::Stays && second == Object::Gone;
        can(
            Event::Bound(1),
            is_made_anew && s.node.uid != 0 && s.budget.bindings > 0,
            &|n| {
                n.budget.bindings -= 1;
                n.pods[1].object = Object::Bound;
                n.pods[1].generation += 1;
                n.pods[1].written = false;
            },
        );
        let comes = self.second == Second::ComesLate && second == Object::Gone;
        let is_first = s.pods[1].generation == 0 && s.node.uid != 0;
        can(Event::Bound(1), comes && is_first, &|n| {
            n.pods[1].object = Object::Bound;
            n.pods[1].generation = match n.node.claim() {
                None => EARLY,
                Some(_) => EARLY + 1,
            };
        });
    }
}
