//! The command as a whole: what it shows of one object, what concerns it, and how that reads.

use super::facts::Listed;
use super::world::*;
use super::*;
use crate::output::serialized;
use crate::table::WIDTH;

mod calls;
mod field;

fn of(world: &World, kind: Kind, name: &str) -> Diagnosis {
    let scope = Scope::One(kind, "shop".to_owned(), name.to_owned());
    diagnose(&world.facts(), &scope).expect("a diagnosis")
}

fn ids(diagnosis: &Diagnosis) -> Vec<finding::Id> {
    diagnosis.findings.iter().map(|it| it.id).collect()
}

#[test]
fn pod_claim_and_node_each_show_the_finding_that_concerns_them() {
    let world = World::waiting("Unknown", EXCLUSIVE);
    for (kind, name) in [
        (Kind::Pod, "db-new"),
        (Kind::Claim, "data"),
        (Kind::Node, "worker-1"),
    ] {
        assert_eq!(ids(&of(&world, kind, name)), [finding::Id::D1], "{name}");
    }
    assert!(of(&world, Kind::Node, "worker-2").findings.is_empty());
    let names = of(&world, Kind::Pod, "db-new").names();
    for name in ["pod/db-new", "node/worker-1"] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
}

#[test]
fn a_namespace_has_its_own_findings_and_the_cluster_all() {
    let facts = World::waiting("Unknown", EXCLUSIVE).facts();
    let found = |scope: Scope| {
        diagnose(&facts, &scope)
            .expect("a diagnosis")
            .findings
            .len()
    };
    assert_eq!(found(Scope::Namespace("shop".to_owned())), 1);
    assert_eq!(found(Scope::Namespace("else".to_owned())), 0);
    assert_eq!(found(Scope::All), 1);
}

#[test]
fn what_is_not_there_is_told_from_what_may_not_be_read() {
    let mut facts = World::waiting("True", EXCLUSIVE).facts();
    let scope = Scope::One(Kind::Pod, "shop".to_owned(), "nobody".to_owned());
    let absent = diagnose(&facts, &scope).expect_err("absent").to_string();
    assert!(absent.contains("kubectl -n shop get pods"), "{absent}");
    assert!(absent.contains("-n names another namespace"), "{absent}");
    let scope_of_node = Scope::One(Kind::Node, "shop".to_owned(), "nope".to_owned());
    let absent = diagnose(&facts, &scope_of_node).expect_err("absent");
    let absent = absent.to_string();
    assert!(absent.contains("kubectl get nodes"), "{absent}");
    assert!(!absent.contains("namespace"), "{absent}");
    facts.pods.unknown = Some("pods is forbidden".to_owned());
    let unknown = diagnose(&facts, &scope).expect_err("unknown").to_string();
    assert!(
        unknown.contains("could not be read: pods is forbidden"),
        "{unknown}"
    );
}

#[test]
fn of_a_driver_that_is_not_known_here_the_checklist_says_so() {
    let told_of = |driver: &str| {
        let mut world = World::waiting("True", EXCLUSIVE);
        world.volumes = vec![volume(driver, &["ReadWriteOnce"])];
        let scope = Scope::One(Kind::Claim, "shop".to_owned(), "data".to_owned());
        let told = told(
            &of(&world, Kind::Claim, "data"),
            &scope,
            NOW.parse().expect("a time"),
        );
        told.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let words = "Backend no advice is known for this CSI driver: see its documentation";
    let unknown = told_of("csi.example.com");
    assert!(unknown.contains(words), "{unknown}");
    assert!(!told_of("ebs.csi.aws.com").contains("no advice is known"));
}

#[test]
fn the_checklist_of_a_claim_has_all_that_hangs_on_it() {
    let mut world = World::rolling(serde_json::json!({"type": "RollingUpdate"}));
    world.classes = vec![serde_json::json!({
        "metadata": {"name": "fast"}, "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    })];
    world.drivers = vec![serde_json::json!({"metadata": {"name": "ebs.csi.aws.com"}, "spec": {}})];
    let diagnosis = of(&world, Kind::Claim, "data");
    let scope = Scope::One(Kind::Claim, "shop".to_owned(), "data".to_owned());
    let text = told(&diagnosis, &scope, NOW.parse().expect("a time"));
    for says in [
        "Pod shop/db-new",
        "worker-2 (Ready True for 10m)",
        "deployment/db, strategy RollingUpdate",
        "FailedAttachVolume 5s ago: Multi-Attach error",
        "fast: ebs.csi.aws.com, WaitForFirstConsumer, reclaim Delete",
        "Bound ReadWriteOnce",
        "pv-1 Bound, handle vol-1",
        "attached on node worker-1 (csi-1)",
        "its volumes are attached; on 0 nodes, not on worker-2, worker-1",
        "Amazon EBS (Block)",
        "D4: the rollout of deployment db",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(says), "no {says:?} in\n{text}");
    }
    let long = text.lines().filter(|it| it.chars().count() > WIDTH);
    let long: Vec<&str> = long
        .filter(|it| it.contains(' ') && !it.contains("https://") && !it.contains("'{"))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
    assert!(
        text.trim_end()
            .lines()
            .last()
            .is_some_and(|it| it.trim_start().starts_with("'{")),
        "{text}"
    );
}

const CLAIM: &str = "\
Pod shop/db-new
  State         Pending
  Node          worker-2 (Ready True for 10m)
  Made by       pod/db-new
  Events        FailedAttachVolume 5s ago: Multi-Attach error for volume \"pv-1\"
                Volume is already exclusively attached to one node and can't be
                attached to another
PersistentVolumeClaim shop/data
  Phase         Bound ReadWriteOnce
  StorageClass  <none>
  Used by       shop/db-new
  Volume        pv-1 Bound, handle vol-1
  Attachments   pv-1 attached on node worker-1 (csi-1)
  CSI driver    ebs.csi.aws.com: there is no CSIDriver of it; on 0 nodes, not on
                worker-2
  Attacher      <none>
  Backend       Amazon EBS (Block): ReadWriteMany as a raw block device only,
                VolumeAttachments yes
                out-of-service: detaches; without the taint attach/detach waits
                for six minutes
                fences by itself: nothing is documented
                source:
                https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/deploy/kubernetes/base/csidriver.yaml
                https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/faq.md
                https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/multi-attach.md
                https://docs.aws.amazon.com/cli/latest/reference/ec2/detach-volume.html

D1: node worker-1 is silent, and is not fenced
  Objects: node worker-1, pod shop/db-new, pv pv-1
  Cause: Kubernetes takes no volume from a node that may still write. Until the
  machine is confirmed off, pods that need the volumes of worker-1 wait
  Seen:
    - node worker-1 has Ready Unknown for 10m
    - pod shop/db-new: Multi-Attach error for volume \"pv-1\" Volume is already
      exclusively attached to one node and can't be attached to another
    - no NodeFencingPolicy selects Node worker-1 (1 label)
  Fix:
    # whether the machine is reached at all, and by whom
    kubectl describe node worker-1
    # which policies there are, and which nodes they select
    kubectl get nodefencingpolicies -o \\
      custom-columns=NAME:.metadata.name,PRIORITY:.spec.priority,SELECTS:.spec.nodeSelector
    # give the node a label that a policy selects, or widen a policy's
    # nodeSelector
    kubectl label node worker-1 KEY=VALUE
    # then fence it now
    kubectl fence now worker-1 --reason \"WHY\"
";

#[test]
fn a_diagnosis_reads_like_this_to_the_last_blank() {
    let world = World::waiting("Unknown", EXCLUSIVE);
    let diagnosis = of(&world, Kind::Claim, "data");
    let scope = Scope::One(Kind::Claim, "shop".to_owned(), "data".to_owned());
    let text = told(&diagnosis, &scope, NOW.parse().expect("a time"));
    assert_eq!(text, CLAIM);
}

/// The API server lists by name, and names of a ReplicaSet's pods end as chance has it.
#[test]
fn who_had_the_claim_first_is_named_first() {
    let mut world = World::rolling(serde_json::json!({"type": "RollingUpdate"}));
    world.pods[1]["metadata"]["creationTimestamp"] = "2026-11-26T05:00:00Z".into();
    let diagnosis = of(&world, Kind::Claim, "data");
    let checklist = diagnosis.checklist.expect("a checklist");
    let pods: Vec<&str> = checklist.pods.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(pods, ["shop/db-old", "shop/db-new"]);
}

#[test]
fn what_could_not_be_read_stands_before_what_was_found() {
    let mut facts = World::waiting("Unknown", EXCLUSIVE).facts();
    facts.csi_nodes.unknown = Some("csinodes is forbidden".to_owned());
    let diagnosis = diagnose(&facts, &Scope::All).expect("a diagnosis");
    let text = told(&diagnosis, &Scope::All, facts.now);
    assert!(
        text.starts_with("Not known: CSINodes: csinodes is forbidden\n"),
        "{text}"
    );
}

#[test]
fn whose_rights_are_missing_is_told_which_role_has_them_and_nobody_else() {
    let mut facts = World::waiting("True", EXCLUSIVE).facts();
    facts.pods.unknown = Some("pods is forbidden".to_owned());
    let said = |facts: &Facts| {
        let diagnosis = diagnose(facts, &Scope::All).expect("a diagnosis");
        let text = told(&diagnosis, &Scope::All, facts.now);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let role = "--clusterrole=node-fencing-cluster-viewer --user=YOU";
    assert!(!said(&facts).contains(role), "no right would help");
    facts.pods.is_forbidden = true;
    assert!(said(&facts).contains(role), "{}", said(&facts));
    let scope = Scope::One(Kind::Pod, "shop".to_owned(), "nobody".to_owned());
    let refused = diagnose(&facts, &scope).expect_err("unknown").to_string();
    assert!(refused.contains(role), "{refused}");
}

/// Who reads that a volume is attached nowhere, or that no incident is open, may go by it.
#[test]
fn what_could_not_be_read_is_not_shown_as_none() {
    let mut facts = World::waiting("Unknown", EXCLUSIVE).facts();
    facts.attachments = Listed {
        unknown: Some("forbidden".to_owned()),
        ..Listed::default()
    };
    facts.fences.unknown = Some("forbidden".to_owned());
    let of = |kind: Kind, name: &str| {
        let scope = Scope::One(kind, "shop".to_owned(), name.to_owned());
        let diagnosis = diagnose(&facts, &scope).expect("a diagnosis");
        let checklist = diagnosis.checklist.expect("a checklist");
        checklist.told(facts.now)
    };
    let node = of(Kind::Node, "worker-1");
    assert!(
        node.contains("whether a NodeFence is open is not known"),
        "{node}"
    );
    for text in [node, of(Kind::Claim, "data")] {
        assert!(
            text.contains("Attachments   not known, or not all of them"),
            "{text}"
        );
    }
}

/// As it is between two seconds of a detach in order.
#[test]
fn a_pod_that_waits_for_no_reason_that_is_known_is_not_passed_over() {
    let facts = World::waiting("True", EXCLUSIVE).facts();
    let diagnosis = diagnose(&facts, &Scope::All).expect("a diagnosis");
    assert!(diagnosis.findings.is_empty());
    assert_eq!(
        diagnosis.waiting,
        ["pod shop/db-new, 10s old, waits for volume pv-1, which node worker-1 has"]
    );
    let elsewhere = Scope::Namespace("else".to_owned());
    let diagnosis = diagnose(&facts, &elsewhere).expect("a diagnosis");
    assert!(diagnosis.waiting.is_empty());
}

/// A storage that refuses is told of the volume, and names nobody who waits for it.
#[test]
fn a_pod_whose_volume_is_explained_does_not_wait_for_no_reason() {
    let mut world = World::waiting("True", EXCLUSIVE);
    world.nodes.remove(0);
    let diagnosis = diagnose(&world.facts(), &Scope::All).expect("a diagnosis");
    assert_eq!(ids(&diagnosis), [finding::Id::D7]);
    assert!(diagnosis.waiting.is_empty(), "{:?}", diagnosis.waiting);
}

/// Whoever has deleted a Node asks for it by its name.
#[test]
fn a_node_that_is_no_more_is_told_of_while_volumes_are_attached_to_it() {
    let mut world = World::waiting("True", EXCLUSIVE);
    world.nodes.remove(0);
    let diagnosis = of(&world, Kind::Node, "worker-1");
    assert_eq!(ids(&diagnosis), [finding::Id::D7]);
    assert!(diagnosis.checklist.is_none());
    world.attachments.clear();
    let scope = Scope::One(Kind::Node, "shop".to_owned(), "worker-1".to_owned());
    assert!(diagnose(&world.facts(), &scope).is_err());
}

#[test]
fn nothing_found_is_said() {
    let facts = Facts::default();
    let diagnosis = diagnose(&facts, &Scope::All).expect("a diagnosis");
    let text = told(&diagnosis, &Scope::All, facts.now);
    assert_eq!(text, "Nothing of D1 to D17 was found in the cluster\n");
}

/// The fields of `cli.nodefencing.io/v1`: more may come, and none goes.
#[test]
fn programs_read_the_same_fields_in_every_version() {
    let diagnosis = of(&World::waiting("Unknown", EXCLUSIVE), Kind::Pod, "db-new");
    let text = serialized(Form::Json, &diagnosis).expect("JSON");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["apiVersion"], "cli.nodefencing.io/v1");
    assert_eq!(value["kind"], "Diagnosis");
    let finding = &value["findings"][0];
    assert_eq!(finding["id"], "D1");
    for field in ["title", "objects", "cause", "seen", "fix"] {
        assert!(!finding[field].is_null(), "{field}");
    }
    assert_eq!(finding["objects"][0]["kind"], "node");
    assert!(finding["fix"][0]["command"].is_string());
    for field in ["pods", "claims"] {
        assert!(value["checklist"][field].is_array(), "{field}");
    }
}

#[test]
fn the_command_line_is_what_kubectl_users_type() {
    use clap::Parser as _;
    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    let line = Line::try_parse_from(["diagnose", "pod/db-0", "-n", "shop"]).expect("a line");
    assert_eq!(line.args.namespace.as_deref(), Some("shop"));
    assert!(
        Line::try_parse_from(["diagnose", "-A"])
            .expect("a line")
            .args
            .all_namespaces
    );
    assert!(Line::try_parse_from(["diagnose", "-A", "pod/db-0"]).is_err());
}

/// The namespace of this command and that of the operator are two flags of one command line.
#[test]
fn the_whole_command_line_holds_together() {
    use clap::{CommandFactory as _, Parser as _};
    type Line = crate::Args;
    Line::command().debug_assert();
    let words = "kubectl-fence diagnose pvc data -n shop --operator-namespace fencing -o json";
    let line = Line::try_parse_from(words.split(' ')).expect("a line");
    assert_eq!(line.reach.operator_namespace, "fencing");
    assert!(Line::try_parse_from(["kubectl-fence", "status", "-n", "shop"]).is_ok());
}

#[test]
fn the_help_fits_the_terminal() {
    use clap::CommandFactory as _;
    let mut line = crate::Args::command();
    let command = line.find_subcommand_mut("diagnose").expect("the command");
    let help = command
        .clone()
        .term_width(WIDTH)
        .render_long_help()
        .to_string();
    let long: Vec<&str> = help
        .lines()
        .filter(|it| it.chars().count() > WIDTH)
        .collect();
    assert!(long.is_empty(), "{long:#?}");
    assert!(
        help.contains("kubectl fence diagnose pod/db-0 -n shop"),
        "{help}"
    );
}
