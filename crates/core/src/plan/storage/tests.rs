//! What a storage's fence has to cover, one volume at a time.

use super::*;
use crate::attempt::{Attempt, OffResult};
use crate::decision::Effect;
use crate::device::{Device, DeviceReadings};
use crate::fixtures::{
    DATE, asking, attempt, bmc, claimed, drained, lease, level, off_readings, own_claim, pod,
    settings,
};
use crate::observed::{Observed, Volumes};
use crate::plan::{Moment, needs, step};
use crate::quiesce::Quiesce;
use crate::verification::Require;
use std::collections::BTreeSet;
use std::time::Duration;

fn storage(name: &str, driver: &str) -> Device {
    Device {
        name: name.to_owned(),
        outlets: true,
        covers: Some(Storage {
            driver: driver.to_owned(),
            cluster: "a".to_owned(),
        }),
        ..bmc()
    }
}

/// Settings whose level has these devices.
fn by(require: Require, devices: &[Device]) -> Settings {
    let mut settings = settings();
    settings.levels = vec![Level {
        require,
        devices: devices.to_vec(),
        ..level()
    }];
    settings
}

/// Everything of this claim is done, and these devices read Off.
fn proven(devices: &[Device]) -> Memory {
    let readings = off_readings().remove(0).readings;
    let mut m = Memory {
        claim: Some(own_claim("fence-n1")),
        is_due: true,
        record_read: true,
        ..Memory::default()
    };
    m.under_claim.quiesce = Quiesce {
        since: Some(Duration::from_secs(10)),
        listed: Some(BTreeSet::from(["uid-db".to_owned()])),
        ..Quiesce::default()
    };
    m.under_claim.lease_before = Some(lease());
    m.under_claim.lease_after_off = true;
    m.under_claim.evidence = true;
    m.under_claim.evidence_is_new = true;
    m.under_claim.evicted = true;
    m.under_claim.devices_claimed = [(
        "level".to_owned(),
        devices.iter().map(|it| it.name.clone()).collect(),
    )]
    .into();
    m.under_claim.pods = Some(vec![PodView {
        attachable: true,
        claims: vec!["data".to_owned()],
        ..pod("db")
    }]);
    m.under_claim.readings = Some(
        devices
            .iter()
            .map(|device| DeviceReadings::of(device, readings.clone()))
            .collect(),
    );
    let landed = |it: &Device| (it.name.clone(), OffResult::Landed);
    m.commands.attempt = Some(Attempt {
        devices: devices.iter().map(|it| it.name.clone()).collect(),
        results: devices.iter().map(landed).collect(),
        ..attempt()
    });
    m
}

fn attached(volume: &str, attacher: &str) -> AttachmentView {
    AttachmentView {
        name: format!("csi-{volume}"),
        uid: format!("uid-{volume}"),
        attacher: attacher.to_owned(),
        volume: volume.to_owned(),
        deleting: false,
        detach_error: None,
    }
}

fn seen(attachments: &[AttachmentView], volumes: &[(&str, &str)]) -> Observed {
    let volumes = volumes
        .iter()
        .map(|(claim, volume)| ((*claim).to_owned(), (*volume).to_owned()));
    Observed {
        node: Read::Present(claimed("fence-n1")),
        lease: Read::Present(lease()),
        attachments: Read::Present(attachments.to_vec()),
        attachments_cached: attachments.to_vec(),
        volumes: Read::Present(Volumes {
            claims: volumes.collect(),
            clusters: attachments
                .iter()
                .map(|it| (it.volume.clone(), "a".to_owned()))
                .collect(),
        }),
        ..drained()
    }
}

fn decide(s: &Settings, m: &mut Memory, o: &Observed) -> Decision {
    let moment = Moment {
        now: Duration::from_secs(14),
        nonce: "n2".to_owned(),
        date: DATE.to_owned(),
    };
    step(s, m, o, &moment)
}

/// Is the taint set? Otherwise why not.
fn tainted(s: &Settings, o: &Observed) -> Result<(), String> {
    let mut m = proven(&s.levels[0].devices);
    let decision = decide(s, &mut m, o);
    match decision.effect {
        Effect::Taint(_) => Ok(()),
        _ => Err(decision.message),
    }
}

const CLAIMED: [(&str, &str); 1] = [("default/data", "pv-1")];

#[test]
fn a_storage_alone_taints_where_it_covers_every_volume() {
    let s = by(Require::All, &[storage("rbd", "rbd.csi")]);
    let own = [attached("pv-1", "rbd.csi")];
    assert_eq!(tainted(&s, &seen(&own, &CLAIMED)), Ok(()));
    let other = [attached("pv-1", "rbd.csi"), attached("pv-2", "ebs.csi")];
    let why = tainted(&s, &seen(&other, &CLAIMED)).expect_err("not covered");
    assert!(
        why.contains("pv-2 of ebs.csi, clusterID a (csi-pv-2)"),
        "{why}"
    );
    let both = by(
        Require::All,
        &[storage("rbd", "rbd.csi"), storage("ebs", "ebs.csi")],
    );
    assert_eq!(tainted(&both, &seen(&other, &CLAIMED)), Ok(()));
}

/// One driver may serve two storages, and the fence of one stops no write to the other.
#[test]
fn a_volume_of_another_storage_of_the_driver_is_not_covered() {
    let s = by(Require::All, &[storage("rbd", "rbd.csi")]);
    let o = seen(&[attached("pv-1", "rbd.csi")], &CLAIMED);
    let with = |clusters: &[(&str, &str)]| {
        let Read::Present(volumes) = &o.volumes else {
            unreachable!()
        };
        let clusters = clusters
            .iter()
            .map(|(volume, cluster)| ((*volume).to_owned(), (*cluster).to_owned()));
        let volumes = Volumes {
            clusters: clusters.collect(),
            ..volumes.clone()
        };
        tainted(
            &s,
            &Observed {
                volumes: Read::Present(volumes),
                ..o.clone()
            },
        )
    };
    assert_eq!(with(&[("pv-1", "a")]), Ok(()));
    for (clusters, named) in [
        (
            &[("pv-1", "b")][..],
            "pv-1 of rbd.csi, clusterID b (csi-pv-1)",
        ),
        (&[("pv-1", "")], "pv-1 of rbd.csi (csi-pv-1)"),
        (
            &[("pv-2", "a")],
            "pv-1 of rbd.csi, clusterID unknown (csi-pv-1)",
        ),
    ] {
        let why = with(clusters).expect_err("not covered");
        assert!(why.contains(named), "{why}");
    }
}

/// S12: a list that could not be read is no empty one.
#[test]
fn a_list_that_was_not_read_covers_nothing() {
    let s = by(Require::All, &[storage("rbd", "rbd.csi")]);
    let good = seen(&[attached("pv-1", "rbd.csi")], &CLAIMED);
    for unread in [
        Observed {
            attachments: Read::NotRead,
            ..good.clone()
        },
        Observed {
            attachments: Read::Failed("HTTP 503".to_owned()),
            ..good.clone()
        },
        Observed {
            volumes: Read::Failed("HTTP 503".to_owned()),
            ..good.clone()
        },
        Observed {
            volumes: Read::NotRead,
            ..good.clone()
        },
    ] {
        let why = tainted(&s, &unread).expect_err("unread");
        assert!(why.contains("complete list"), "{why}");
    }
}

/// A share is mounted without a VolumeAttachment, and its storage knows nothing of the fence.
#[test]
fn a_volume_that_is_never_attached_is_not_covered() {
    let s = by(Require::All, &[storage("rbd", "rbd.csi")]);
    let own = [attached("pv-1", "rbd.csi")];
    for volumes in [
        &[][..],
        &[("default/data", "")],
        &[("default/data", "pv-2")],
        &[("other/data", "pv-1")],
    ] {
        let why = tainted(&s, &seen(&own, volumes)).expect_err("not covered");
        assert!(why.contains("pod default/db"), "{why}");
    }
    let with = |change: fn(&mut PodView)| {
        let mut m = proven(&s.levels[0].devices);
        m.under_claim.pods.iter_mut().flatten().for_each(change);
        decide(&s, &mut m, &seen(&own, &CLAIMED)).effect
    };
    assert!(!matches!(with(|pod| pod.inline = true), Effect::Taint(_)));
    assert!(!matches!(with(|pod| pod.claims.clear()), Effect::Taint(_)));
    for stays in [
        |pod: &mut PodView| pod.mirror = true,
        |pod: &mut PodView| pod.finished = true,
        |pod: &mut PodView| pod.tolerates_out_of_service = true,
    ] {
        let effect = with(|_| {});
        assert!(matches!(effect, Effect::Taint(_)));
        let mut m = proven(&s.levels[0].devices);
        m.under_claim.pods.iter_mut().flatten().for_each(|pod| {
            pod.inline = true;
            stays(pod);
        });
        let decision = decide(&s, &mut m, &seen(&own, &CLAIMED));
        assert!(
            matches!(decision.effect, Effect::Taint(_)),
            "{}",
            decision.message
        );
    }
}

/// A machine that reads Off has no mounts, whatever its volumes are.
#[test]
fn beside_a_device_that_reads_off_nothing_has_to_be_covered() {
    let other = seen(&[attached("pv-2", "ebs.csi")], &[]);
    for require in [Require::All, Require::Any] {
        let s = by(require, &[bmc(), storage("rbd", "rbd.csi")]);
        assert_eq!(tainted(&s, &other), Ok(()), "{require:?}");
    }
    assert_eq!(tainted(&by(Require::All, &[bmc()]), &other), Ok(()));
}

/// `require` says whether the storage is enough where the BMC is silent.
#[test]
fn a_silent_bmc_beside_it_decides_by_require() {
    let taints = |require, attachment| {
        let s = by(require, &[bmc(), storage("rbd", "rbd.csi")]);
        let mut m = proven(&s.levels[0].devices);
        let readings = m.under_claim.readings.iter_mut().flatten();
        let of_bmc = readings.filter(|it| it.covers.is_none());
        of_bmc.for_each(|it| it.readings.clear());
        let decision = decide(&s, &mut m, &seen(&[attachment], &CLAIMED));
        matches!(decision.effect, Effect::Taint(_))
    };
    for (require, is_enough) in [(Require::Any, true), (Require::All, false)] {
        assert!(!taints(require, attached("pv-2", "ebs.csi")));
        assert_eq!(taints(require, attached("pv-1", "rbd.csi")), is_enough);
    }
}

#[test]
fn others_are_not_told_that_such_a_machine_is_off_and_its_node_is_not_deleted() {
    let own = seen(&[attached("pv-1", "rbd.csi")], &CLAIMED);
    for strategy in [RecoveryStrategy::None, RecoveryStrategy::DeleteNode] {
        let s = asking(by(Require::All, &[storage("rbd", "rbd.csi")]), |it| {
            it.recovery.strategy = strategy
        });
        let why = tainted(&s, &own).expect_err("no taint");
        assert!(why.contains("recovery.strategy"), "{why}");
    }
}

#[test]
fn volumes_are_asked_for_only_where_a_storage_proves() {
    let of = |devices: &[Device]| {
        let s = by(Require::All, devices);
        let needs = needs(&s, &proven(devices), Some(&claimed("fence-n1")));
        (needs.attachments, needs.volumes_of.map(|it| it.len()))
    };
    assert_eq!(of(&[storage("rbd", "rbd.csi")]), (true, Some(1)));
    assert_eq!(of(&[bmc()]), (false, None));
}
