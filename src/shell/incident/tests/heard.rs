//! What devices have said: when it is listened to, and what of it is written down before anything else.

use super::*;
use crate::core::incident::{Decision, Effect};
use crate::core::memory::Sight;
use crate::core::proof::{DeviceReadings, Require};
use crate::core::reading::{PowerState, Reading};

fn says(state: PowerState, second: u64) -> Reading {
    let at = Duration::from_secs(second);
    let first = fixtures::off_readings().remove(0).readings.remove(0);
    Reading {
        state,
        asked: at,
        answered: at,
        ..first
    }
}

/// S15: which devices the node has, its labels tell. What they have said waits until the Node can be read, and is not lost.
#[tokio::test]
async fn what_was_answered_while_the_node_could_not_be_read_is_heard_later() {
    let cluster = cluster(unclaimed()).await;
    let (code, unavailable) = failure(503, "etcd has no leader");
    cluster.put(NODE, code, unavailable);
    let (context, fence) = (cluster.context(), fence("7"));
    let incidents = Incidents::default();
    let incident = incidents.begin(fence.clone());
    let sight = Sight {
        device: fixtures::bmc(),
        reading: Ok(says(PowerState::On, 10)),
    };
    let answer = Answer {
        order: 1,
        reply: DeviceReply::Looked {
            sights: vec![sight],
            pods: None,
        },
        came: clock::since_boot(),
    };
    let answers = incident.lock().await.answers.clone();
    let waiting = || answers.lock().expect("answers").len();
    answers.lock().expect("answers").push(answer);
    run(&context, &incidents, &fence).await;
    assert_eq!(waiting(), 1);
    assert!(!incident.lock().await.memory.said.knows("bmc"));
    cluster.put(NODE, 200, unclaimed());
    run(&context, &incidents, &fence).await;
    assert_eq!(waiting(), 0);
    assert!(incident.lock().await.memory.said.knows("bmc"));
}

/// S3, S22: a contradiction is written down at once. Whoever goes on from that takes nothing else from it: a record that tells of a stage
/// would say that the policy's wait is over.
#[tokio::test]
async fn before_the_policy_s_wait_is_over_only_what_counts_for_good_is_written() {
    let table = [(false, false), (true, true)];
    for (is_due, has_a_stage) in table {
        let cluster = cluster(unclaimed()).await;
        let (context, fence) = (cluster.context(), fence("7"));
        let incident = Incidents::default().begin(fence.clone());
        let mut incident = incident.lock().await;
        let memory = &mut incident.memory;
        memory.is_due = is_due;
        let pdu = DeviceReadings {
            device: "pdu".to_owned(),
            ..DeviceReadings::of(&fixtures::bmc(), vec![says(PowerState::Off, 10)])
        };
        let bmc = DeviceReadings::of(&fixtures::bmc(), vec![says(PowerState::On, 20)]);
        for device in [pdu, bmc] {
            memory.said.note(&device, true);
        }
        memory.said.accuse(&["pdu"], 1, Require::All);
        let mut round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        let (settings, observed) = (fixtures::settings(), fixtures::drained());
        let decision = Decision {
            effect: Effect::Wait,
            stage: Stage::Checking,
            words: "asks FenceDevice bmc".to_owned(),
            held: None,
            escalation: None,
            wake: None,
            deadline: None,
        };
        round.explain(&settings, &observed, &decision, clock::since_boot());
        round
            .carry_out(&settings, decision, clock::since_boot())
            .await;
        let written = sent(&cluster, PATCH_FENCE).remove(0);
        let told: NodeFenceStatus =
            serde_json::from_value(written["status"].clone()).expect("a status");
        assert_eq!(told.contradicting_devices, ["bmc"]);
        let later = record::read(&told, clock::wall());
        assert_eq!(later.due, has_a_stage, "{written}");
        assert_eq!(
            told == NodeFenceStatus {
                contradicting_devices: told.contradicting_devices.clone(),
                ..NodeFenceStatus::default()
            },
            !has_a_stage
        );
    }
}
