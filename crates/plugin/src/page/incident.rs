//! One incident as a part of a page: all that its record has, section by section.

use super::super::fences::Warning;
use super::super::timeline::{condition, remediation, timeline};
use super::super::trail::dated;
use super::super::{fences, table};
use super::chart::chart;
use super::html::Html;
use super::parts::{ago, code, columns, facts, name, or_dash, since, took, utc, utc_or_none};
use super::spans::{Span, spans};
use fencing_api::fence::{NodeFence, TriggerType};
use fencing_api::fence_status::NodeFenceStatus;
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
        .and(section("Power commands and readings", attempts(&status)))
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
            table::bar(fences::stage(fence), fence.spec.procedure.fence.mode),
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
        ("Mode", Some(name(spec.procedure.fence.mode))),
        ("Began", Some(utc_or_none(began))),
        ("Ended", Some(ended)),
        ("Took", lasted.map(Html::text)),
        ("Node uid", uid.map(|it| code(it))),
        ("Fenced boot", boot.map(|it| code(it))),
    ])
}

fn asked(fence: &NodeFence) -> String {
    let trigger = &fence.spec.trigger;
    let user = trigger.requested_by.as_deref().unwrap_or_default();
    let reason = trigger.reason.as_deref().unwrap_or_default();
    let caller = remediation(fence).map(|it| format!(", {it}"));
    let caller = caller.unwrap_or_default();
    match trigger.type_ {
        TriggerType::NodeCondition if trigger.reported_by.is_some() => {
            format!(
                "condition {}, reported early by the operator{caller}",
                condition(fence)
            )
        }
        TriggerType::NodeCondition => format!("condition {}{caller}", condition(fence)),
        TriggerType::Manual => format!("Requested by {user}: {reason}"),
        TriggerType::External => "a taint found without its record".to_owned(),
    }
}

fn over_time(fence: &NodeFence, spans: &[Span], id: &str, now: Timestamp) -> Html {
    let first = spans.first().map_or(now, |it| it.from);
    let rows = spans.iter().map(|span| {
        let lasted = span.until.unwrap_or(now).duration_since(span.from);
        vec![
            ("Stage", Html::text(&span.name)),
            ("After", since(span.from, first)),
            ("From", utc(span.from)),
            (
                "Until",
                span.until.map_or_else(|| Html::text("goes on"), utc),
            ),
            ("Took", Html::text(took(lasted))),
        ]
    });
    chart(fence, spans, id, now)
        .and(columns("Stages", rows))
        .and(moments(fence, now))
}

fn moments(fence: &NodeFence, now: Timestamp) -> Html {
    let moments = timeline(fence);
    let first = moments.first().map_or(now, |it| it.time);
    let rows = moments.iter().map(|moment| {
        vec![
            ("After", since(moment.time, first)),
            ("When", utc(moment.time)),
            ("What", Html::text(&moment.words)),
        ]
    });
    columns("Events, oldest first", rows)
}

fn people(fence: &NodeFence) -> Html {
    let row = |word: String, user: &str, reason: &str, (time, said): (Timestamp, String)| {
        vec![
            ("Word", Html::text(word)),
            ("Who", Html::text(user)),
            ("Reason", Html::text(reason)),
            ("When", utc(time).and(said)),
        ]
    };
    let approval = fence.spec.approval.iter().map(|it| {
        let when = dated(fence, "approval", it.time);
        row(format!("{:?}", it.decision), &it.user, &it.reason, when)
    });
    let word = fence.spec.manual_confirmation.iter().map(|it| {
        let when = dated(fence, "manualConfirmation", it.time);
        row("Confirmed: no power".to_owned(), &it.user, &it.reason, when)
    });
    let table = columns("Approval and confirmation", approval.chain(word));
    let status = fence.status.as_ref();
    let refused = status.and_then(|it| it.confirmation_refused.as_ref());
    let refused = refused.map(|it| {
        let words = format!("The confirmation is no longer valid: {it}");
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
    let rows = evidence.readings.iter().map(|it| {
        let device = match manual::is_word(&it.raw) {
            true => "none (manual confirmation)",
            false => &it.device,
        };
        vec![
            ("FenceDevice", Html::text(device)),
            ("Power", name(it.power_state)),
            ("Raw answer", code(&it.raw)),
            (
                "Round trip",
                Html::text(format!("{} ms", it.round_trip_millis)),
            ),
            ("After", since(it.time, first)),
            ("When", utc(it.time)),
            ("Level", or_dash(it.level.as_ref())),
        ]
    });
    let renewed = evidence.lease_renew_time.map(utc);
    let reported = evidence.ready_heartbeat_time.map(utc);
    facts(vec![
        ("Claim", Some(code(&evidence.claim))),
        ("Boot", Some(code(&evidence.node_boot_id))),
        ("No pod could start from", Some(utc(evidence.quiesced_time))),
        ("Proven", Some(utc(evidence.proven_time))),
        ("Last Lease renewal", renewed),
        ("Last report of Ready", reported),
    ])
    .and(columns("Readings, oldest first", rows))
}

fn attempts(status: &NodeFenceStatus) -> Html {
    let rows = status.attempts.iter().map(|it| {
        let result = it.result.map(name);
        let ended = it.completion_time.map(utc);
        vec![
            ("FenceDevice", Html::text(&it.device)),
            ("Action", name(it.action)),
            ("Result", result.unwrap_or_else(|| "not known".into())),
            ("Sent", utc(it.start_time)),
            (
                "Completed",
                ended.unwrap_or_else(|| "may still land".into()),
            ),
            ("Message", or_dash(it.message.as_ref())),
        ]
    });
    let (kept, count) = (status.attempts.len(), status.attempt_count);
    let count = count.unwrap_or_default();
    columns(&format!("Attempts: {kept} of {count} are on record"), rows)
}

fn volumes(status: &NodeFenceStatus) -> Html {
    let rows = status.volumes.iter().map(|it| {
        vec![
            ("VolumeAttachment", Html::text(&it.volume_attachment)),
            ("PersistentVolume", or_dash(it.persistent_volume.as_ref())),
            ("CSI driver", or_dash(it.attacher.as_ref())),
            ("State", name(it.state)),
            ("Detached", utc_or_none(it.detached_time)),
            ("Error", or_dash(it.message.as_ref())),
        ]
    });
    let gone = status.volumes_detached.unwrap_or_default();
    let all = status.volume_count.unwrap_or_default();
    columns(&format!("Volumes: {gone} of {all} had detached"), rows)
}

fn pods(status: &NodeFenceStatus) -> Html {
    let Some(count) = status.pod_count else {
        return Html::default();
    };
    let pods = fencing_core::quiesce::counted(count, "pod");
    let words = format!("{pods} had to leave the node (not named in the record).");
    let stay = status.tolerating_pods.iter();
    Html::element("p", &[], words).and(columns(
        "Pods that stay (they tolerate the out-of-service taint)",
        stay.map(|it| vec![("Pod", Html::text(it))]),
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
            ("Type", Html::text(&it.type_)),
            ("Status", Html::text(&it.status)),
            ("Reason", Html::text(&it.reason)),
            ("Message", Html::text(&it.message)),
            ("Since", utc(it.last_transition_time.0)),
        ]
    });
    columns("Conditions of the NodeFence", rows)
}
