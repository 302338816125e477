//! Workloads that ask for what a volume of one node cannot give: a rollout that starts the new pod before the old one stops (D4), and two pods of
//! their own right (D5). Here the holder is well: what looks like a dead node is none.

use super::super::backends::{Ability, of_provisioner};
use super::super::finding::{Finding, Id, Object, Step, named, steps};
use super::super::index::Index;
use super::super::stuck::Stuck;
use fencing_cluster::slim::{SlimDeployment, SlimPod};
use kube::ResourceExt;

/// D4 and D5.
pub(super) fn shared(index: &Index<'_>, stuck: &[Stuck<'_>]) -> Vec<Finding> {
    let of_stuck = |stuck: &Stuck<'_>| {
        let holder = index.node(stuck.holder.as_deref()?)?;
        let user = *stuck.users.first()?;
        if !holder.is_well() || stuck.is_unscheduled {
            return None;
        }
        match rolling(index, stuck.pod, user) {
            // It goes by itself, and the volume with it; if it does not, it is D11.
            _ if user.is_deleting() => None,
            Some(rollout) => Some(rolled(stuck, user, rollout)),
            None => Some(rivals(index, stuck, user)),
        }
    };
    stuck.iter().filter_map(of_stuck).collect()
}

/// The Deployment that replaces the one pod by the other, and starts the new one first.
pub(super) fn rolling<'a>(
    index: &Index<'a>,
    new: &SlimPod,
    old: &SlimPod,
) -> Option<&'a SlimDeployment> {
    let rollout = index.rollout(new)?;
    let is_of_it = index
        .rollout(old)
        .is_some_and(|it| it.metadata.uid == rollout.metadata.uid);
    (is_of_it && !index.is_replica(new, old) && rollout.surges()).then_some(rollout)
}

/// Has the rollout stop the old pod first.
pub(super) fn recreate(rollout: &SlimDeployment) -> Vec<Step> {
    let (namespace, name) = (rollout.namespace().unwrap_or_default(), rollout.name_any());
    let patch = r#"{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}"#;
    steps(&format!(
        "# have the old pod stop before the new one starts (in the chart or repository that it comes from, too)
        kubectl -n {namespace} patch deployment {name} --type=merge -p '{patch}'"
    ))
}

fn held(stuck: &Stuck<'_>, user: &SlimPod) -> Vec<String> {
    let holder = stuck.holder.as_deref().unwrap_or_default();
    let (user, volume) = (user.full_name(), &stuck.volume);
    let held = format!(
        "node {holder} is Ready, and pod {user} uses volume {volume} there, so there is nothing to fence"
    );
    std::iter::once(held).chain(stuck.said()).collect()
}

fn objects(stuck: &Stuck<'_>, user: &SlimPod) -> Vec<Object> {
    vec![
        Object::pod(stuck.pod),
        Object::pod(user),
        Object::volume(&stuck.volume),
    ]
}

fn rolled(stuck: &Stuck<'_>, user: &SlimPod, rollout: &SlimDeployment) -> Finding {
    let name = rollout.name_any();
    let namespace = rollout.namespace().unwrap_or_default();
    let mut objects = objects(stuck, user);
    objects.push(Object::of("deployment", &namespace, &name));
    let mut seen = held(stuck, user);
    seen.push(format!(
        "Deployment {namespace}/{name} has strategy {} and may surge",
        rollout.strategy()
    ));
    let patch = r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}"#;
    let surge = steps(&format!(
        "# or keep RollingUpdate, without a pod more than it wants
        kubectl -n {namespace} patch deployment {name} --type=merge -p '{patch}'"
    ));
    Finding {
        id: Id::D4,
        title: format!("the rollout of deployment {name} blocks itself: the new pod starts before the old one stops, on another node"),
        objects,
        cause: "a ReadWriteOnce volume is attached to one node. The new pod cannot start before the old one stops, and the rollout stops it only afterwards".to_owned(),
        seen,
        fix: [recreate(rollout), surge].concat(),
    }
}

fn rivals(index: &Index<'_>, stuck: &Stuck<'_>, user: &SlimPod) -> Finding {
    let (one, other) = (index.owner(stuck.pod), index.owner(user));
    let holder = stuck.holder.as_deref().unwrap_or_default();
    let volume = &stuck.volume;
    let whose = match one == other {
        true => format!("replicas of {one}"),
        false => format!("{one} and {other}"),
    };
    let namespace = stuck.pod.namespace().unwrap_or_default();
    let mut fix = steps(
        "# give them a ReadWriteMany claim, or one claim each (a StatefulSet's volumeClaimTemplates)
        kubectl get storageclass -o custom-columns=NAME:.metadata.name,PROVISIONER:.provisioner",
    );
    if let Some(classes) = sharing(index) {
        fix.extend(steps(&format!(
            "# these can be shared, by the backend matrix: {classes}
            kubectl explain -n {namespace} pvc.spec.accessModes"
        )));
    }
    if one == other && one.kind == "deployment" {
        fix.extend(steps(&format!(
            "# or run one replica
            kubectl -n {namespace} scale {one} --replicas=1"
        )));
    }
    fix.extend(steps(&format!(
        "# or keep them together on one node (podAffinity by kubernetes.io/hostname): this shows whether {holder} has room
        kubectl describe node {holder}"
    )));
    let mut seen = held(stuck, user);
    seen.push(format!("{whose} both use it, and neither is being deleted"));
    Finding {
        id: Id::D5,
        title: format!("{whose} share volume {volume}, which is attached to one node at a time"),
        objects: objects(stuck, user),
        cause: "ReadWriteOnce lets any number of pods use a volume, on one node. These run on two"
            .to_owned(),
        seen,
        fix,
    }
}

/// StorageClasses whose volumes several nodes may write at a time.
fn sharing(index: &Index<'_>) -> Option<String> {
    let classes = index.facts.classes.items.iter();
    let sharing = classes.filter(|class| {
        of_provisioner(&class.provisioner).is_some_and(|it| it.read_write_many == Ability::Yes)
    });
    let names: Vec<String> = sharing.map(ResourceExt::name_any).collect();
    (!names.is_empty()).then(|| named(&names))
}
