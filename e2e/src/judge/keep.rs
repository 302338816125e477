//! Making a history for tests out of the records of a run: what the judge reads and no more.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::run::{AUDIT, DEVICES, Extent, JOURNAL, RUN, Texts, VOLUMES};
use crate::audit::{OPERATOR, Request};
use crate::volume::{WRITES, Write};

/// Of the lines of a container, one in so many is kept, the first and the last besides.
const ONE_IN: u64 = 25;

impl Texts {
    /// The same, with what the judge looks at only.
    pub fn thinned(&self) -> Result<Self> {
        let mut audit = String::new();
        for line in self.audit.lines() {
            let Ok(request) = serde_json::from_str::<Request>(line) else {
                continue;
            };
            if request.is_write() && request.is_complete() && is_of_interest(&request) {
                audit += &thin(serde_json::from_str(line)?).to_string();
                audit.push('\n');
            }
        }
        let mut volumes = BTreeMap::new();
        for (handle, text) in &self.volumes {
            volumes.insert(handle.clone(), few(text));
        }
        Ok(Self {
            audit_skipped: 0,
            audit,
            volumes,
            ..self.clone()
        })
    }

    /// Writes the files of a run.
    pub fn write(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        let extent = Extent {
            audit_begin: 0,
            audit_end: u64::try_from(self.audit.len())?,
            until: self.until,
            stalls: self.stalls.clone(),
            ahead_seconds: self.ahead_seconds,
        };
        std::fs::write(directory.join(RUN), serde_json::to_string(&extent)? + "\n")?;
        std::fs::write(directory.join(AUDIT), &self.audit)?;
        std::fs::write(directory.join(DEVICES), &self.devices)?;
        std::fs::write(directory.join(JOURNAL), &self.journal)?;
        for (handle, text) in &self.volumes {
            let folder = directory.join(VOLUMES).join(handle);
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join(WRITES), text)?;
        }
        Ok(())
    }
}

fn is_of_interest(request: &Request) -> bool {
    let of = &request.object_ref;
    match of.resource.as_str() {
        "nodes" | "nodefences" | "volumeattachments" => true,
        "pods" => of.subresource != "status",
        "leases" => request.user.username.starts_with("system:node:"),
        "events" | "selfsubjectaccessreviews" | "selfsubjectreviews" => false,
        _ => request.user.username == OPERATOR,
    }
}

/// A line of the audit log without what is long and asked for by no rule.
fn thin(mut event: Value) -> Value {
    for key in ["annotations", "sourceIPs", "auditID", "userAgent"] {
        remove(&mut event, "", key);
    }
    let user = event["user"]["username"].clone();
    event["user"] = json!({"username": user});
    for object in ["/requestObject", "/responseObject"] {
        for (at, key) in [
            ("/metadata", "labels"),
            ("/metadata", "ownerReferences"),
            ("/spec", "containers"),
            ("/status", "containerStatuses"),
            ("/status", "capacity"),
            ("/status", "allocatable"),
            ("/status", "addresses"),
            ("/status", "images"),
        ] {
            remove(&mut event, &format!("{object}{at}"), key);
        }
        let conditions = event.pointer_mut(&format!("{object}/status/conditions"));
        if let Some(conditions) = conditions.and_then(Value::as_array_mut) {
            conditions.retain(|one| one["type"] == "Ready" || one["type"] == "Succeeded");
        }
    }
    event
}

fn remove(event: &mut Value, at: &str, key: &str) {
    if let Some(object) = event.pointer_mut(at).and_then(Value::as_object_mut) {
        object.remove(key);
    }
}

fn few(text: &str) -> String {
    let mut kept = String::new();
    let lines: Vec<&str> = text.lines().collect();
    let container = |line: &str| {
        let write: Result<Write> = line.parse();
        write.ok().map(|it| (it.node, it.boot, it.pod, it.sequence))
    };
    for (index, line) in lines.iter().enumerate() {
        let Some((node, boot, pod, sequence)) = container(line) else {
            continue;
        };
        let next = lines.get(index + 1).and_then(|next| container(next));
        let is_last = next.is_none_or(|(other, of, by, _)| (other, of, by) != (node, boot, pod));
        if sequence % ONE_IN == 0 || is_last {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}
