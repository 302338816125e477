//! What devices have said: when it is listened to, and what of it is written down before anything else.

use super::*;
use fencing_core::decision::{Decision, DeviceOrder, Effect};
use fencing_core::device::DeviceAnswer;
use fencing_core::device::DeviceReadings;
use fencing_core::memory::OwnClaim;
use fencing_core::reading::{PowerState, Reading};
use fencing_core::reply::{Asked, learn};
use fencing_core::verification::Require;

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

/// The BMC said On.
fn answer(order: u64) -> Answer {
    let sight = DeviceAnswer {
        device: fixtures::bmc(),
        reading: Ok(says(PowerState::On, 10)),
    };
    let reply = DeviceReply::PowerRead {
        answers: vec![sight],
        pods: None,
    };
    Answer {
        order,
        reply,
        put_back: None,
    }
}

/// S15: what a device says while the Node is read comes after what was heard before.
#[tokio::test]
async fn what_is_answered_during_a_round_comes_after_what_it_puts_back() {
    let cluster = cluster(unclaimed()).await;
    let (context, fence) = (cluster.context(), fence("7"));
    let incident = Incidents::default().begin(fence.clone());
    let mut incident = incident.lock().await;
    let answers = incident.answers.clone();
    let round = Round {
        context: &context,
        fence: &fence,
        incident: &mut incident,
    };
    answers.lock().expect("answers").push(answer(2));
    round.put_back(vec![answer(1)]);
    let answers = answers.lock().expect("answers");
    let order: Vec<_> = answers.iter().map(|it| it.order).collect();
    assert_eq!(order, [1, 2]);
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
    let answers = incident.lock().await.answers.clone();
    let waiting = || -> Vec<_> {
        let answers = answers.lock().expect("answers");
        answers.iter().map(|it| (it.order, it.put_back)).collect()
    };
    answers.lock().expect("answers").push(answer(1));
    run(&context, &incidents, &fence).await;
    let put_back = waiting()[0].1.expect("the moment");
    answers.lock().expect("answers").push(answer(2));
    incident.lock().await.memory.commands.begin(false);
    run(&context, &incidents, &fence).await;
    // In their order, and the first one has not become any younger.
    let second = waiting()[1].1.expect("the moment");
    assert_eq!(waiting(), [(1, Some(put_back)), (2, Some(second))]);
    assert!(
        !incident
            .lock()
            .await
            .memory
            .trust
            .power_history
            .knows("bmc")
    );
    cluster.put(NODE, 200, unclaimed());
    run(&context, &incidents, &fence).await;
    assert_eq!(waiting(), []);
    let memory = &incident.lock().await.memory;
    assert!(memory.trust.power_history.knows("bmc"));
    assert_eq!(memory.read_at, put_back);
}

/// S3, S22: a contradiction is written down at once. Whoever goes on from that takes nothing else from it: a record that tells of a stage
/// would say that the policy's wait is over.
#[tokio::test]
async fn before_the_policy_s_wait_is_over_only_what_counts_for_good_is_written() {
    let claim = |seen| OwnClaim {
        seen,
        ..fixtures::own_claim("fence-n1")
    };
    let table = [
        (false, None, false),
        (false, Some(claim(false)), false),
        (false, Some(claim(true)), true),
        (true, None, true),
    ];
    for (is_due, claim, has_a_stage) in table {
        let cluster = cluster(unclaimed()).await;
        let (context, fence) = (cluster.context(), fence("7"));
        let incident = Incidents::default().begin(fence.clone());
        let mut incident = incident.lock().await;
        let memory = &mut incident.memory;
        (memory.is_due, memory.claim) = (is_due, claim);
        let pdu = DeviceReadings {
            device: "pdu".to_owned(),
            ..DeviceReadings::of(&fixtures::bmc(), vec![says(PowerState::Off, 10)])
        };
        let bmc = DeviceReadings::of(&fixtures::bmc(), vec![says(PowerState::On, 20)]);
        for device in [pdu, bmc] {
            memory.trust.power_history.note(&device, true);
        }
        memory
            .trust
            .power_history
            .record_contradiction(&["pdu"], 1, Require::All);
        let mut round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        let (settings, observed) = (fixtures::settings(), fixtures::drained());
        let decision = Decision {
            effect: Effect::Wait,
            stage: Stage::Checking,
            message: "asks FenceDevice bmc".to_owned(),
            held: None,
            escalation: None,
            wake: None,
            deadline: None,
        };
        round.explain(&settings, &observed, &decision, clock::since_boot());
        round
            .carry_out(&settings, decision, clock::since_boot())
            .await;
        // What is known of the stage is written later.
        assert!(!round.incident.status.conditions.is_empty());
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

/// S4: a claim is lost, and with it the order that was under way. What a device said until then may be the last that it ever says.
#[tokio::test]
async fn what_was_heard_by_work_that_another_order_ends_is_not_lost() {
    for (is_over, is_heard) in [(false, true), (true, false)] {
        let cluster = cluster(unclaimed()).await;
        let (context, fence) = (cluster.context(), fence("7"));
        let incident = Incidents::default().begin(fence.clone());
        let mut incident = incident.lock().await;
        let heard = Heard::default();
        heard.note(&fixtures::bmc(), &says(PowerState::On, 10));
        let mut task = tokio::spawn(async move {
            if !is_over {
                std::future::pending::<()>().await;
            }
        });
        if is_over {
            (&mut task).await.expect("it ends");
        }
        incident.job = Some(UnderWay {
            order: 1,
            task,
            heard,
        });
        let mut round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        let look = Decision {
            effect: Effect::Device {
                order: DeviceOrder::ReadPower,
                level: 0,
                limit: Duration::from_secs(1),
                number: 2,
            },
            stage: Stage::Checking,
            message: "asks FenceDevice bmc".to_owned(),
            escalation: None,
            held: None,
            wake: None,
            deadline: None,
        };
        let now = clock::since_boot();
        round.carry_out(&fixtures::settings(), look, now).await;
        let answers = incident.answers.clone();
        let answers = answers.lock().expect("answers");
        let first = answers.iter().find(|answer| answer.order == 1);
        assert_eq!(first.is_some(), is_heard);
        if let Some(answer) = first {
            let reply = Reply::Device(answer.order, answer.reply.clone());
            learn(
                &fixtures::settings(),
                &mut incident.memory,
                Asked::Device,
                reply,
                now,
            );
        }
        assert_eq!(incident.memory.trust.power_history.knows("bmc"), is_heard);
    }
}
