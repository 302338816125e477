//! A word that was given, or an incident that was let go of, takes no other.

use super::*;

/// It would be refused.
#[test]
fn nobody_is_sent_to_let_go_of_what_was_let_go_of() {
    let (scene, mut fence) = scene("On", "2027-01-02T18:00:20Z");
    let cancel = "kubectl fence cancel node-1-now-abcde";
    let words = against(&scene, &fence).expect_err("it reads On");
    assert!(words.contains(cancel) && another(&fence).contains(cancel));
    fence.spec.desired_state = fencing_api::fence::DesiredState::Released;
    let wait = "wait until it has ended (kubectl fence status node-1 --watch), then kubectl fence";
    for words in [
        against(&scene, &fence).expect_err("it reads On"),
        another(&fence),
    ] {
        assert!(words.contains(wait) && !words.contains(cancel), "{words}");
    }
}

/// Of a word that was refuted that it was is said first, and of a node that is Ready no other word is asked for.
#[test]
fn what_speaks_against_a_word_goes_before_that_one_was_given() {
    let (mut scene, _) = scene("Off", "2027-01-02T17:59:00Z");
    let word = json!({
        "statement": "IVerifiedTheNodeIsPoweredOff", "nodeUID": "uid-1", "user": "ann", "reason": "dark", "time": "2027-01-02T18:00:30Z",
    });
    let spec = json!({"trigger": {"type": "Manual"}, "fence": {"mode": "ConfirmOnly"}, "manualConfirmation": word});
    let mut given = fence(&spec, &json!([]));
    let refused = |scene: &Scene, fence: &NodeFence| {
        let refused = refuse(scene, fence, None).expect_err("it is given once");
        refused.to_string()
    };
    assert!(refused(&scene, &given).contains("already has a manual confirmation"));
    let status = given.status.as_mut().expect("a status");
    status.confirmation_refused = Some("FenceDevice bmc reads On".to_owned());
    let words = refused(&scene, &given);
    assert!(
        words.contains("accepts no manual confirmation: FenceDevice bmc reads On"),
        "{words}"
    );
    for condition in &mut scene.node.conditions {
        condition.status = "True".to_owned();
    }
    let words = refused(&scene, &given);
    assert!(
        words.contains("Node node-1 is Ready, so its machine is running"),
        "{words}"
    );
    assert!(!words.contains("kubectl fence now"), "{words}");
}
