//! What a write of an operator means, in words for whoever reads the story of a seed.

use crate::objects::{
    CLAIM, DETACHING, OUT_OF_SERVICE, QUARANTINE, is_leaving, ready, stage, taint, text,
};
use serde_json::Value;
use simapi::kinds::{ATTACHMENT, FENCE, NODE, POD};
use simapi::store::{Change, Write};

/// In words; none: it is no part of the story.
pub fn of(write: &Write) -> Option<String> {
    let name = &write.key.1;
    if *write.kind == NODE && write.change == Change::Deleted {
        return Some(format!("DELETES NODE {name}"));
    }
    if *write.kind == ATTACHMENT && is_leaving(&write.new) {
        return Some(format!("deletes VolumeAttachment {name}"));
    }
    if *write.kind == NODE {
        return node(name, write.old.as_deref()?, &write.new);
    }
    if *write.kind == POD && write.change == Change::Deleted {
        let node = text(&write.new, "/spec/nodeName");
        return Some(format!("deletes {name} on {node} by force"));
    }
    if *write.kind == FENCE {
        return fence(name, write);
    }
    None
}

fn node(name: &str, old: &Value, new: &Value) -> Option<String> {
    let mut told = Vec::new();
    for (key, word) in [
        (CLAIM, "claim"),
        (OUT_OF_SERVICE, "out-of-service"),
        (DETACHING, "detaching"),
        (QUARANTINE, "quarantine"),
    ] {
        match (taint(old, key), taint(new, key)) {
            (None, Some(_)) if key == OUT_OF_SERVICE => told.push("OUT OF SERVICE".to_owned()),
            (None, Some(_)) if key == DETACHING => told.push("MARKED AS DETACHING".to_owned()),
            (None, Some(taint)) => told.push(format!("+{word} {}", text(taint, "/value"))),
            (Some(_), None) => told.push(format!("-{word}")),
            (Some(one), Some(other)) if one != other => {
                told.push(format!("{word} {} for the old one", text(other, "/value")));
            }
            _ => {}
        }
    }
    if ready(old) != ready(new) {
        told.push(format!("REPORTS IT AS {}", ready(new)));
    }
    (!told.is_empty()).then(|| format!("{name}: {}", told.join(", ")))
}

fn fence(name: &str, write: &Write) -> Option<String> {
    let old = match write.change {
        Change::Deleted => return Some(format!("deletes record {name}")),
        Change::Added => return Some(format!("opens record {name}")),
        Change::Modified => write.old.as_deref()?,
    };
    let new = &write.new;
    let mut told = Vec::new();
    if stage(old) != stage(new) {
        told.push(format!("{} ({})", stage(new), message(new)));
    }
    let count = |of: &Value, field: &str| of["status"][field].as_array().map_or(0, Vec::len);
    if count(new, "attempts") > count(old, "attempts") {
        let last = new["status"]["attempts"].as_array()?.last()?;
        told.push(format!("intends {} at {}", last["action"], last["device"]));
    }
    let evidence = &new["status"]["evidence"];
    if old["status"]["evidence"] != *evidence && !evidence.is_null() {
        told.push(format!("evidence for {}", evidence["claim"]));
    }
    (!told.is_empty()).then(|| format!("{name}: {}", told.join(", ")))
}

fn message(fence: &Value) -> &str {
    let conditions = fence["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    let succeeded = all.find(|one| one["type"] == "Succeeded");
    succeeded.map_or("", |condition| text(condition, "/message"))
}
