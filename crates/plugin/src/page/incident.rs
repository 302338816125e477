//! One incident as a part of a page: all that its record has, section by section.

use super::super::fences::Warning;
use super::super::timeline::timeline;
use super::super::trail::dated;
use super::super::{fences, table};
use super::chart::chart;
use super::html::Html;
use super::parts::{ago, code, facts, since, table as rows_of, took, utc, utc_or_none};
use super::spans::{Span, spans};
use fencing_api::fence::{Approval, ManualConfirmation, NodeFence, TriggerType};
use fencing_api::fence_status::{Attempt, EvidenceReading, NodeFenceStatus, VolumeRecord};
use fencing_drivers::manual;
use jiff::Timestamp;
use kube::ResourceExt;

/// Its id in a page, and what the ids in it begin with.
pub(super) fn id(fence: &NodeFence) -> String {
    format!("incident-{}", fence.name_any())
}

/// The whole record. The heading is one of the second level.
pub fn article(fence: &NodeFence, now: Timestamp) -> Html {
    let id = id(fence);
    let heading = format!("{id}-heading");
    let (node, stage) = (&fence.spec.node_name, fences::stage(fence));
    let title = Html::element("h2", &[("id", &heading)], format!("Node {node}: {stage}"));
    let status = fence.status.clone().unwrap_or_default();
    let spans = spans(fence);
    let content = title
        .and(calls(fence))
        .and(overview(fence, now))
        .and(section("Timeline", over_time(fence, &spans, &id, now)))
        .and(section("Words of people", people(fence)))
        .and(section("Proof: what devices read", proof(&status)))
        .and(section("What was asked of devices", attempts(&status)))
        .and(section("Volumes", volumes(&status)))
        .and(section("Pods", pods(&status)))
        .and(section("Contradictions", contradictions(&status)))
        .and(section("Conditions", conditions(&status)));
    let attributes: [(_, &dyn std::fmt::Display); 3] = [
        ("id", &id),
        ("class", &"incident"),
        ("aria-labelledby", &heading),
    ];
    Html::element("article", &attributes, content)
}

/// What one wants to know at a glance while it goes on: stage, deadline, words, and the timeline.
pub fn glimpse(fence: &NodeFence, now: Timestamp) -> Html {
    let status = fence.status.clone().unwrap_or_default();
    let stage = fences::stage(fence);
    let begun = status.stage_start_time.or_else(|| fences::created(fence));
    let lasts = begun.map(|at| Html::text("begun ").and(ago(at, now)));
    let deadline = status.stage_deadline_time.filter(|_| !fence.is_ended());
    let deadline = deadline.map(|at| Html::text("; escalates ").and(ago(at, now)));
    let stage = Html::element("strong", &[], stage)
        .and(" ")
        .and(lasts.unwrap_or_default())
        .and(deadline.unwrap_or_default());
    let spans = spans(fence);
    Html::element("p", &[], stage)
        .and(Html::element(
            "p",
            &[("class", &"way")],
            table::bar(fences::stage(fence), fence.spec.fence.mode),
        ))
        .and(calls(fence))
        .and(chart(fence, &spans, &id(fence), now))
        .and(Html::element(
            "details",
            &[],
            Html::element("summary", &[], "Step by step").and(moments(fence, now)),
        ))
}

/// What the operator says of it, and why a human is called.
fn calls(fence: &NodeFence) -> Html {
    let words = Html::element("p", &[("class", &"words")], fences::message(fence));
    let alarm = |it: &Warning| {
        let title = Html::element("strong", &[], format!("{}: ", it.kind.title()));
        Html::element("p", &[("class", &"alarm")], title.and(it.words.as_str()))
    };
    let warnings = fences::warnings(fence);
    let warnings = fences::told(&warnings).map(alarm);
    std::iter::once(words).chain(warnings).collect()
}

fn section(title: &str, content: Html) -> Html {
    match content == Html::default() {
        true => content,
        false => Html::element("section", &[], Html::element("h3", &[], title).and(content)),
    }
}

fn overview(fence: &NodeFence, now: Timestamp) -> Html {
    let (spec, status) = (&fence.spec, fence.status.as_ref());
    let began = fences::began(fence);
    let completed = status.and_then(|it| it.completion_time);
    let lasted = completed.or(Some(now)).zip(began);
    let lasted = lasted.map(|(end, begin)| took(end.duration_since(begin)));
    let ended = match fence.is_ended() {
        true => utc_or_none(completed),
        false => Html::text("it has not ended"),
    };
    let uid = spec.node_uid.as_ref();
    let uid = uid.or_else(|| status?.node_uid.as_ref());
    let boot = spec.boot_id.as_ref();
    let boot = boot.or_else(|| status?.boot_id.as_ref());
    facts(vec![
        ("Node", Some(Html::text(&spec.node_name))),
        ("NodeFence", Some(code(&fence.name_any()))),
        ("Policy", spec.policy_name.as_deref().map(Html::text)),
        ("Trigger", Some(Html::text(asked(fence)))),
        ("Mode", Some(Html::text(format!("{:?}", spec.fence.mode)))),
        ("Began", Some(utc_or_none(began))),
        ("Ended", Some(ended)),
        ("Took", lasted.map(Html::text)),
        ("Node uid", uid.map(|it| code(it))),
        ("Boot that is fenced", boot.map(|it| code(it))),
    ])
}

fn asked(fence: &NodeFence) -> String {
    let trigger = &fence.spec.trigger;
    let reason = trigger.reason.as_deref().unwrap_or_default();
    match trigger.type_ {
        TriggerType::NodeCondition => {
            let kind = trigger.condition_type.as_deref().unwrap_or_default();
            let status = trigger.condition_status.map_or("", |it| it.as_str());
            format!("condition {kind}={status}")
        }
        TriggerType::Manual => {
            let user = trigger.requested_by.as_deref().unwrap_or_default();
            format!("{user} asked for it: {reason}")
        }
        TriggerType::External => "a taint that was found without its record".to_owned(),
    }
}

fn over_time(fence: &NodeFence, spans: &[Span], id: &str, now: Timestamp) -> Html {
    let first = spans.first().map_or(now, |it| it.from);
    let rows = spans.iter().map(|span| {
        let until = span.until.map_or_else(|| Html::text("goes on"), utc);
        let lasted = span.until.unwrap_or(now).duration_since(span.from);
        vec![
            Html::text(&span.name),
            since(span.from, first),
            utc(span.from),
            until,
            Html::text(took(lasted)),
        ]
    });
    let titles = ["Stage", "After", "From", "Until", "Took"];
    chart(fence, spans, id, now)
        .and(rows_of("Stages", &titles, rows.collect()))
        .and(moments(fence, now))
}

fn moments(fence: &NodeFence, now: Timestamp) -> Html {
    let moments = timeline(fence);
    let first = moments.first().map_or(now, |it| it.time);
    let rows = moments.iter().map(|moment| {
        vec![
            since(moment.time, first),
            utc(moment.time),
            Html::text(&moment.words),
        ]
    });
    let titles = ["After", "When", "What"];
    rows_of("What happened, oldest first", &titles, rows.collect())
}

fn people(fence: &NodeFence) -> Html {
    let row = |word: &str, user: &str, reason: &str, (time, said): (Timestamp, String)| {
        vec![
            Html::text(word),
            Html::text(user),
            Html::text(reason),
            utc(time).and(Html::text(said)),
        ]
    };
    let approval = fence.spec.approval.iter();
    let approval = approval.map(|it: &Approval| {
        let decision = format!("{:?}", it.decision);
        let when = dated(fence, "approval", it.time);
        row(&decision, &it.user, &it.reason, when)
    });
    let word = fence.spec.manual_confirmation.iter();
    let word = word.map(|it: &ManualConfirmation| {
        let when = dated(fence, "manualConfirmation", it.time);
        row("Confirmed: no power", &it.user, &it.reason, when)
    });
    let titles = ["Word", "Who", "Reason", "When"];
    let table = rows_of(
        "Approval and confirmation",
        &titles,
        approval.chain(word).collect(),
    );
    let status = fence.status.as_ref();
    let refused = status.and_then(|it| it.confirmation_refused.as_ref());
    let refused = refused.map(|it| {
        let words = format!("The confirmation counts for nothing any more: {it}");
        Html::element("p", &[("class", &"alarm")], words)
    });
    table.and(refused.unwrap_or_default())
}

fn proof(status: &NodeFenceStatus) -> Html {
    let Some(evidence) = &status.evidence else {
        return Html::element("p", &[], "No proof is on record.");
    };
    let first = evidence.readings.first();
    let first = first.map_or(evidence.quiesced_time, |it| it.time);
    let row = |reading: &EvidenceReading| {
        vec![
            match manual::is_word(&reading.raw) {
                true => Html::text("none: a human's word"),
                false => Html::text(&reading.device),
            },
            Html::text(format!("{:?}", reading.power_state)),
            code(&reading.raw),
            Html::text(format!("{} ms", reading.round_trip_millis)),
            since(reading.time, first),
            utc(reading.time),
            Html::text(reading.level.as_deref().unwrap_or("-")),
        ]
    };
    let titles = [
        "FenceDevice",
        "Power",
        "Raw answer",
        "Round trip",
        "After",
        "When",
        "Level",
    ];
    let rows = evidence.readings.iter().map(row);
    facts(vec![
        ("Claim", Some(code(&evidence.claim))),
        ("Boot", Some(code(&evidence.node_boot_id))),
        ("No pod could start from", Some(utc(evidence.quiesced_time))),
        ("Proven", Some(utc(evidence.proven_time))),
        ("Last Lease renewal", evidence.lease_renew_time.map(utc)),
        (
            "Last report of Ready",
            evidence.ready_heartbeat_time.map(utc),
        ),
    ])
    .and(rows_of("Readings, oldest first", &titles, rows.collect()))
}

fn attempts(status: &NodeFenceStatus) -> Html {
    let row = |attempt: &Attempt| {
        let result = attempt.result;
        let result = result.map_or_else(|| "not known".to_owned(), |it| format!("{it:?}"));
        let ended = attempt.completion_time;
        vec![
            Html::text(&attempt.device),
            Html::text(format!("{:?}", attempt.action)),
            Html::text(result),
            utc(attempt.start_time),
            ended.map_or_else(|| Html::text("may still land"), utc),
            Html::text(attempt.message.as_deref().unwrap_or("-")),
        ]
    };
    let titles = [
        "FenceDevice",
        "Action",
        "Result",
        "Sent",
        "Completed",
        "Message",
    ];
    let rows = status.attempts.iter().map(row);
    let count = status.attempt_count.unwrap_or_default();
    let caption = format!(
        "Attempts: {} of {count} are on record",
        status.attempts.len()
    );
    rows_of(&caption, &titles, rows.collect())
}

fn volumes(status: &NodeFenceStatus) -> Html {
    let row = |volume: &VolumeRecord| {
        vec![
            Html::text(&volume.volume_attachment),
            Html::text(volume.persistent_volume.as_deref().unwrap_or("-")),
            Html::text(volume.attacher.as_deref().unwrap_or("-")),
            Html::text(format!("{:?}", volume.state)),
            utc_or_none(volume.detached_time),
            Html::text(volume.message.as_deref().unwrap_or("-")),
        ]
    };
    let titles = [
        "VolumeAttachment",
        "PersistentVolume",
        "CSI driver",
        "State",
        "Detached",
        "Error",
    ];
    let rows = status.volumes.iter().map(row);
    let (all, gone) = (status.volume_count, status.volumes_detached);
    let caption = format!(
        "Volumes: {} of {} had detached",
        gone.unwrap_or_default(),
        all.unwrap_or_default()
    );
    rows_of(&caption, &titles, rows.collect())
}

fn pods(status: &NodeFenceStatus) -> Html {
    let Some(count) = status.pod_count else {
        return Html::default();
    };
    let words = format!("{count} pod(s) had to leave the node. The record does not name them.");
    let stay = status.tolerating_pods.iter();
    let rows = stay.map(|it| vec![Html::text(it)]).collect();
    Html::element("p", &[], words).and(rows_of(
        "Pods that stay, because they tolerate the out-of-service taint",
        &["Pod"],
        rows,
    ))
}

fn contradictions(status: &NodeFenceStatus) -> Html {
    let words = status.contradictions.iter().cloned();
    let devices = status.contradicting_devices.iter();
    let devices = devices.map(|it| format!("FenceDevice {it} read On when others had read Off"));
    let all: Html = words
        .chain(devices)
        .map(|it| Html::element("li", &[], it))
        .collect();
    match all == Html::default() {
        true => all,
        false => Html::element("ul", &[("class", &"alarm")], all),
    }
}

fn conditions(status: &NodeFenceStatus) -> Html {
    let rows = status.conditions.iter().map(|it| {
        vec![
            Html::text(&it.type_),
            Html::text(&it.status),
            Html::text(&it.reason),
            Html::text(&it.message),
            utc(it.last_transition_time.0),
        ]
    });
    let titles = ["Type", "Status", "Reason", "Message", "Since"];
    rows_of("Conditions of the NodeFence", &titles, rows.collect())
}
