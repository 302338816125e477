use super::super::board::Board;
use super::super::view;
use super::*;
use crate::page::Origin;
use serde_json::json;

const HOSTILE: &str = "<script>alert(1)</script>\"'\u{202e}";

fn now() -> Timestamp {
    "2027-01-02T18:00:00Z".parse().expect("a time")
}

fn fence(name: &str, words: &str, succeeded: &str) -> NodeFence {
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": name, "resourceVersion": "7", "creationTimestamp": "2027-01-02T17:00:00Z"},
        "spec": {"nodeName": words, "trigger": {"type": "NodeCondition"}},
        "status": {
            "stageDeadlineTime": "2027-01-02T18:00:30Z",
            "conditions": [{
                "type": "Succeeded", "status": succeeded, "reason": "Fencing", "message": words,
                "lastTransitionTime": "2027-01-02T17:00:00Z",
            }],
        },
    });
    serde_json::from_value(fence).expect("a NodeFence")
}

fn world(fences: Vec<NodeFence>) -> World {
    World {
        nodes: Ok(vec![]),
        policies: Ok(vec![]),
        devices: Ok(vec![]),
        fences: Ok(fences),
    }
}

fn page(world: &World, cells: &[Cell], troubles: &[(&'static str, Option<Trouble>)]) -> String {
    let mut board = Board::default();
    board.update(pieces(world, cells, troubles, now()), vec![]);
    let origin = Origin {
        server: "https://127.0.0.1:6443",
        now: now(),
    };
    view::fleet(&board, &origin)
}

#[test]
fn hostile_words_stay_words() {
    let cell = Cell {
        name: HOSTILE.to_owned(),
        state: State::AtRisk,
        why: HOSTILE.to_owned(),
    };
    let trouble = Trouble {
        since: Some(now()),
        words: HOSTILE.to_owned(),
    };
    let world = world(vec![
        fence(HOSTILE, HOSTILE, "Unknown"),
        fence("b", HOSTILE, "True"),
    ]);
    let page = page(&world, &[cell], &[("connection", Some(trouble))]);
    // Its own, alone.
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains('\u{202e}'));
    assert!(page.matches("&lt;script&gt;alert(1)").count() > 8);
}

#[test]
fn hostile_words_stay_words_on_the_page_of_a_node_and_of_an_incident() {
    let cell = Cell {
        name: HOSTILE.to_owned(),
        state: State::Fenced,
        why: HOSTILE.to_owned(),
    };
    let fence = fence(HOSTILE, HOSTILE, "Unknown");
    let origin = Origin {
        server: HOSTILE,
        now: now(),
    };
    let of_node = view::node(&world(vec![fence.clone()]), &cell, 1, &origin);
    for page in [of_node, view::incident(&fence, 1, &origin)] {
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        assert!(!page.contains('\u{202e}') && page.contains("&lt;script&gt;alert(1)"));
        assert!(page.contains("data-events=\"../events\""));
    }
}

#[test]
fn an_open_incident_has_its_stage_deadline_and_timeline() {
    let page = page(&world(vec![fence("a-1", "worker-1", "Unknown")]), &[], &[]);
    for told in [
        "<strong>Fencing</strong>",
        "escalates <time datetime=\"2027-01-02T18:00:30Z\" data-live=\"\">in 30s</time>",
        "[Fencing]",
        "<svg class=\"chart\" role=\"img\"",
        "href=\"incident/a-1\"",
        "aria-live=\"polite\"",
        "<noscript>",
    ] {
        assert!(page.contains(told), "{told}\n{page}");
    }
    assert!(!page.contains("No incident is open."));
}

#[test]
fn what_is_not_known_is_said_in_its_place_and_nothing_is_claimed_of_it() {
    let mut world = world(vec![]);
    assert!(page(&world, &[], &[]).contains("No incident is open."));
    world.fences = Err("you may not read nodefences".to_owned());
    let unread = page(&world, &[], &[("fences", None)]);
    assert!(
        unread.contains("Not shown</strong>: you may not read nodefences"),
        "{unread}"
    );
    assert!(!unread.contains("No incident is open."));
    let policy = json!({"metadata": {"name": "workers"}, "spec": {"nodeSelector": {}}});
    world.policies = Ok(vec![serde_json::from_value(policy).expect("a policy")]);
    let uncounted = page(&world, &[], &[]);
    assert_eq!(uncounted.matches("<td>not known</td>").count(), 3);
    let trouble = Trouble {
        since: Some(now()),
        words: "refused".to_owned(),
    };
    let lost = page(&world, &[], &[("connection", Some(trouble))]);
    assert!(
        lost.contains("no connection to the API server since <time"),
        "{lost}"
    );
}

#[test]
fn time_that_goes_by_changes_no_piece() {
    let world = world(vec![fence("a-1", "worker-1", "Unknown")]);
    let mut board = Board::default();
    assert!(board.update(pieces(&world, &[], &[], now()), vec![]));
    let later = "2027-01-02T18:01:00Z".parse().expect("a time");
    assert!(!board.update(pieces(&world, &[], &[], later), vec![]));
}

#[test]
fn what_has_begun_or_gone_on_is_said_and_what_stays_is_not() {
    let stages = |of: &[(&str, &str)]| -> BTreeMap<String, String> {
        let owned = of
            .iter()
            .map(|(name, words)| ((*name).to_owned(), (*words).to_owned()));
        owned.collect()
    };
    let before = stages(&[("a", "Node a: Fencing"), ("b", "Node b: Held")]);
    let now = stages(&[
        ("a", "Node a: Verifying"),
        ("b", "Node b: Held"),
        ("c", "Node c: Held"),
    ]);
    assert_eq!(said(&before, &now), ["Node a: Verifying", "Node c: Held"]);
}
