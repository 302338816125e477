//! The good history is good, and each of the bad ones is bad by the one rule that it was broken by.

mod bad_deletions;
mod bad_histories;
mod bad_reports;
mod history;

use std::collections::BTreeSet;

use jiff::SignedDuration;

use self::bad_deletions::BAD_DELETIONS;
use self::bad_histories::{BAD_HISTORIES, BadHistory};
use self::bad_reports::BAD_REPORTS;
use self::history::{History, Step};
use super::rules::ALL;
use super::run::Stall;
use super::{Counts, Judgement};
use fencing_testbed::moment::Moment;

/// The names of the rules that were broken.
fn names(judgement: &Judgement) -> BTreeSet<&'static str> {
    let violations = judgement.violations.iter();
    violations.map(|violation| violation.rule.name).collect()
}

fn bad_histories() -> impl Iterator<Item = &'static BadHistory> {
    let all = [BAD_HISTORIES, BAD_DELETIONS, BAD_REPORTS];
    all.into_iter().flatten()
}

#[test]
fn the_recorded_history_is_good_and_all_of_it_was_judged() {
    let judgement = History::recorded().judged();
    judgement.ensure_good().expect("it is good");
    let counts = Counts {
        writes: 75,
        of_the_operator: 15,
        node_states: 14,
        claims: 1,
        waits: 1,
        taints: 1,
        deletions: 1,
        releases: 1,
        attachments_deleted: 0,
        nodes_deleted: 0,
        commands: 1,
        readings: 10,
        readings_compared: 4, // two, for the deletion and for the taint
        readings_believed: 0,
        ages: 2, // of the deletion and of the taint
        attaches: 2,
        power_changes: 4,
        volume_lines: 36,
    };
    assert_eq!(judgement.counts, counts);
}

/// The same, but that its Node is deleted at the end (`recovery.strategy: DeleteNode`).
#[test]
fn a_history_in_which_the_node_is_deleted_is_good() {
    let mut history = History::recorded();
    history.delete_node(|_| ());
    let judgement = history.judged();
    judgement.ensure_good().expect("it is good");
    assert_eq!(judgement.counts.nodes_deleted, 1);
    history.take_volume(None);
    let judgement = history.judged();
    judgement.ensure_good().expect("it is good");
    assert_eq!(judgement.counts.attachments_deleted, 1);
}

#[test]
fn each_bad_history_is_found_out_by_the_rule_that_it_breaks_and_by_no_other() {
    let mut wrong = Vec::new();
    for (words, rule, break_it) in bad_histories() {
        let mut history = History::recorded();
        break_it(&mut history);
        let judgement = history.judged();
        if names(&judgement) != BTreeSet::from([rule.name]) {
            let found: Vec<String> = judgement
                .violations
                .iter()
                .map(ToString::to_string)
                .collect();
            wrong.push(format!("{words}, {}:\n{}", rule.name, found.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let count = bad_histories().count();
    println!("{count} bad histories, each found out");
}

#[test]
fn each_rule_has_a_history_that_breaks_it() {
    let histories = bad_histories();
    let broken: BTreeSet<_> = histories.map(|(_, rule, _)| rule.name).collect();
    let all: BTreeSet<_> = ALL.iter().map(|rule| rule.name).collect();
    assert_eq!(broken, all);
}

#[test]
fn a_violation_names_the_object_the_time_the_rule_and_both_records() {
    let mut history = History::recorded();
    history.evidence()["claim"] = "other-1".into();
    let judgement = history.judged();
    let told = judgement.violations[1].to_string();
    let at = history.when(Step::Taint).strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
    let begin = format!("S17-evidence-claim: Node node-1 at {at}: audit.log:");
    assert!(told.starts_with(&begin), "{told}");
    assert!(told.contains("patch nodes node-1 -> 200 by"), "{told}");
    assert!(told.contains("| \"other-1\" in audit.log:"), "{told}");
}

#[test]
fn a_write_that_the_lab_held_up_on_its_way_may_be_late() {
    let mut history = History::recorded();
    let bad = BAD_HISTORIES
        .iter()
        .find(|(_, rule, _)| rule.name == "S2-fresh");
    let (_, _, break_it) = bad.expect("a bad history");
    break_it(&mut history);
    let held = |wall| Moment {
        monotonic_ns: 0,
        wall,
    };
    let late = history.when(Step::Taint);
    let (second, stall) = (SignedDuration::from_secs(1), |from, until| Stall {
        from: held(from),
        until: held(until),
    });
    history.stalls = vec![stall(late - second * 2, late - second)];
    assert_eq!(names(&history.judged()), BTreeSet::new());
    history.stalls = vec![stall(late + second, late + second * 2)];
    assert_eq!(names(&history.judged()), BTreeSet::from(["S2-fresh"]));
}

#[test]
fn readings_by_a_date_that_the_lab_has_set_are_found_with_their_device() {
    let mut history = History::recorded();
    for nth in 0..2 {
        let hour_ahead = history.read_at(nth) + SignedDuration::from_hours(1);
        history.evidence()["readings"][nth]["time"] = hour_ahead.to_string().into();
    }
    assert!(names(&history.judged()).contains("S17-evidence-true"));
    history.ahead_seconds = 3600;
    history.judged().ensure_good().expect("it is good");
}

#[test]
fn readings_without_a_log_are_held_against_the_power_of_the_machine() {
    let mut history = History::recorded();
    history.without_the_log();
    let judgement = history.judged();
    judgement.ensure_good().expect("it is good");
    assert_eq!(judgement.counts.readings_believed, 4);
}

#[test]
fn the_order_of_the_lines_says_nothing() {
    let mut history = History::recorded();
    history.audit.reverse();
    history.devices.reverse();
    history.journal.reverse();
    history.lines.reverse();
    let judgement = history.judged();
    judgement.ensure_good().expect("it is good");
    assert_eq!(judgement.counts, History::recorded().judged().counts);
}

#[test]
fn what_was_refused_was_not_done() {
    let mut refusals = 0;
    for (words, rule, break_it) in bad_histories() {
        let mut history = History::recorded();
        let recorded = history.audit.clone();
        break_it(&mut history);
        // What differs from the good history was refused; what was done is as it was.
        let is_new = |event: &&serde_json::Value| !recorded.contains(event);
        let mut refused: Vec<_> = history.audit.iter().filter(is_new).cloned().collect();
        for event in &mut refused {
            event["responseStatus"]["code"] = 403.into();
        }
        // The others are bad for what a device or a volume did.
        refusals += usize::from(!refused.is_empty());
        let mut history = History::recorded();
        history.audit.extend(refused);
        let judgement = history.judged();
        assert_eq!(names(&judgement), BTreeSet::new(), "{words}, {}", rule.name);
    }
    assert!(refusals > BAD_HISTORIES.len() / 2, "{refusals}");
}

/// The API server did it, and the one who had asked was not there any more to be told.
#[test]
fn a_pod_whose_name_is_another_one_s_by_now_has_gone() {
    let mut history = History::recorded();
    history.step(Step::Evict)["responseStatus"]["code"] = 504.into();
    history.judged().ensure_good().expect("it is good");
    let evicted = history.when(Step::Evict);
    history.audit.retain(|event| {
        let is_pod = event["objectRef"]["resource"] == "pods";
        !is_pod || history::time(&event["requestReceivedTimestamp"]) <= evicted
    });
    assert!(names(&history.judged()).contains("S14-pods-gone"));
}

#[test]
fn a_request_of_nobody_was_refused_and_hinders_nothing() {
    let mut history = History::recorded();
    let mut nobodys = history.step(Step::Taint).clone();
    nobodys["user"] = serde_json::json!({});
    nobodys["responseStatus"]["code"] = 401.into();
    history.audit.push(nobodys);
    history.judged().ensure_good().expect("it is good");
}

#[test]
fn there_is_nothing_good_about_an_empty_log() {
    let mut history = History::recorded();
    history.audit.clear();
    history.devices.clear();
    let error = history
        .judged()
        .ensure_good()
        .expect_err("nothing was judged");
    assert!(
        error
            .to_string()
            .starts_with("there is nothing to be judged: 0 writes"),
        "{error}"
    );
}
