use super::*;
use fencing_api::fence::NodeFence;
use jiff::Timestamp;
use serde_json::json;

const HOSTILE: &str =
    "</style><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}gpj";

fn now() -> Timestamp {
    "2027-01-02T18:00:42Z".parse().expect("a time")
}

/// An incident of which everything that people, devices or other programs write reads so.
fn incident(words: &str) -> NodeFence {
    let at = "2027-01-02T18:00:00Z";
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1",
        "kind": "NodeFence",
        "metadata": {"name": words, "creationTimestamp": at},
        "spec": {
            "nodeName": words,
            "policyName": words,
            "trigger": {"type": "Manual", "requestedBy": words, "reason": words},
            "approval": {"decision": "Approved", "user": words, "reason": words, "time": at},
            "manualConfirmation": {
                "statement": "IVerifiedTheNodeIsPoweredOff",
                "nodeUID": words, "user": words, "reason": words, "time": at,
            },
        },
        "status": {
            "conditions": [
                {"type": "Succeeded", "status": "True", "reason": words, "message": words, "lastTransitionTime": at},
                {"type": "Escalated", "status": "True", "reason": words, "message": words, "lastTransitionTime": at},
            ],
            "nodeUID": words, "bootID": words, "claim": words, "confirmationRefused": words,
            "contradictions": [words], "contradictingDevices": [words], "toleratingPods": [words],
            "podCount": 3, "volumeCount": 1, "attemptCount": 1,
            "detectedTime": at, "approvedTime": "2027-01-02T18:00:01Z",
            "taintAppliedTime": "2027-01-02T18:00:20Z", "completionTime": "2027-01-02T18:00:40Z",
            "attempts": [{"device": words, "action": "PowerOff", "startTime": "2027-01-02T18:00:05Z", "message": words}],
            "volumes": [{"volumeAttachment": words, "persistentVolume": words, "attacher": words, "state": "DetachError", "message": words}],
            "evidence": {
                "claim": words, "nodeUID": words, "nodeBootID": words,
                "quiescedTime": at, "provenTime": "2027-01-02T18:00:15Z",
                "readings": [{
                    "device": words, "level": words, "powerState": "Off", "raw": words,
                    "time": "2027-01-02T18:00:10.5Z", "roundTripMillis": 21,
                }],
            },
        },
    });
    serde_json::from_value(fence).expect("a NodeFence")
}

fn page(words: &str) -> String {
    let fence = incident(words);
    let origin = Origin {
        server: words,
        now: now(),
    };
    incidents(words, &[&fence, &fence], &origin)
}

/// The names of all elements, in their order.
fn elements(page: &str) -> Vec<&str> {
    let opened = page.split('<').skip(1);
    let named = opened.filter(|it| it.starts_with(|sign: char| sign.is_ascii_alphabetic()));
    named
        .map(|it| it.split([' ', '>']).next().unwrap_or_default())
        .collect()
}

#[test]
fn hostile_words_change_nothing_but_the_text_of_a_page() {
    let (plain, hostile) = (page("plain"), page(HOSTILE));
    assert_eq!(elements(&plain), elements(&hostile));
    assert!(!hostile.contains("<script") && !hostile.contains("<img"));
    assert!(!hostile.contains('\u{202e}'));
    // It is all there, to be read.
    let shown = Html::text(HOSTILE).to_string();
    let places = plain.matches("plain").count();
    assert_eq!(hostile.matches(&shown).count(), places);
    assert!(places > 60, "{places}");
}

#[test]
fn a_page_has_the_whole_record_with_absolute_and_relative_times() {
    let page = page("plain");
    for told in [
        "2027-01-02 18:00:10.500 UTC",
        "21 ms",
        "+20s",
        "<caption>Stages</caption>",
        "<caption>Readings, oldest first</caption>",
        "<caption>Attempts: 1 of 1 are on record</caption>",
        "<caption>Volumes: 0 of 1 had detached</caption>",
        "3 pods had to leave the node",
        "<caption>Approval and confirmation</caption>",
        "<caption>Conditions of the NodeFence</caption>",
        "is no longer valid",
        "read On when others had read Off",
        "Action required",
        "<svg class=\"chart\" role=\"img\"",
    ] {
        assert!(page.contains(told), "{told}\n{page}");
    }
}

#[test]
fn a_page_needs_nothing_beside_itself_and_lets_nothing_in() {
    let page = page("plain");
    assert!(page.contains("content=\"default-src 'none'; style-src 'sha256-"));
    for reach in [
        "http:", "src=", "url(", "@import", "style=\"", "<link", "<script",
    ] {
        assert!(!page.contains(reach), "{reach}");
    }
    let policy = content_security_policy(Some("x"));
    assert!(
        policy.contains("script-src 'sha256-") && !policy.contains("unsafe"),
        "{policy}"
    );
}

#[test]
fn a_page_has_one_first_heading_a_language_and_tables_that_say_what_their_cells_are() {
    let page = page("plain");
    let elements = elements(&page);
    let count = |name: &str| elements.iter().filter(|it| **it == name).count();
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    assert_eq!((count("h1"), count("main"), count("header")), (1, 1, 1));
    assert_eq!(count("table"), count("caption"));
    assert_eq!(count("th"), page.matches("scope=\"").count());
    assert_eq!(count("svg"), page.matches("role=\"img\"").count());
}

#[test]
fn an_incident_of_which_nothing_is_recorded_yet_has_a_page_too() {
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "a"},
        "spec": {"nodeName": "worker-1", "trigger": {"type": "NodeCondition"}},
    });
    let fence: NodeFence = serde_json::from_value(fence).expect("a NodeFence");
    let text = article(&fence, now()).to_string();
    assert!(text.contains("Node worker-1: Pending") && text.contains("No proof is on record."));
    let origin = Origin {
        server: "https://127.0.0.1",
        now: now(),
    };
    assert!(incidents("None", &[], &origin).contains("No incident is on record."));
}

/// Relative luminance of `#rrggbb`, by WCAG 2.
fn luminance(colour: &str) -> f64 {
    let channel = |from: usize| {
        let value = colour.get(from..from + 2).expect("two digits");
        let value = f64::from(u8::from_str_radix(value, 16).expect("hexadecimal")) / 255.0;
        match value <= 0.040_45 {
            true => value / 12.92,
            false => ((value + 0.055) / 1.055).powf(2.4),
        }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

/// WCAG 2.2, 1.4.3 (text) and 1.4.11 (what a picture is drawn with).
#[test]
fn colours_are_far_enough_apart_in_light_and_dark() {
    let (screen, _) = STYLE.split_once("* {").expect("colours are first");
    let (light, dark) = screen.split_once("@media").expect("light is first");
    for (name, style) in [("light", light), ("dark", dark)] {
        let colour = |variable: &str| {
            let (_, rest) = style
                .split_once(&format!("--{variable}: "))
                .expect(variable);
            rest.split(';').next().expect("it ends")
        };
        for (front, least) in [
            ("ink", 4.5),
            ("faint", 4.5),
            ("link", 4.5),
            ("well", 4.5),
            ("risk", 4.5),
            ("alarm", 4.5),
            ("bar", 3.0),
            ("now", 3.0),
        ] {
            for back in ["paper", "box"] {
                let (one, other) = (luminance(colour(front)), luminance(colour(back)));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(
                    contrast >= least,
                    "{name}: {front} on {back}: {contrast:.2}"
                );
            }
        }
    }
}

/// An auditor sees which of the rows no device has read.
#[test]
fn a_human_s_word_stands_in_the_readings_as_one_and_names_no_device() {
    let mut fence = incident("worker-1");
    let evidence = fence.status.as_mut().and_then(|it| it.evidence.as_mut());
    let readings = &mut evidence.expect("a proof").readings;
    let mut word = readings.first().expect("a reading").clone();
    word.device = "manualConfirmation".to_owned();
    word.raw = "confirmed by eve".to_owned();
    readings.push(word);
    let origin = Origin {
        server: "https://127.0.0.1",
        now: now(),
    };
    let page = incidents("worker-1", &[&fence], &origin);
    let of_word = ">none (manual confirmation)</th>";
    assert_eq!(page.matches(of_word).count(), 1, "{page}");
    assert!(page.contains("confirmed by eve"), "{page}");
    assert!(!page.contains("manualConfirmation"), "{page}");
}
