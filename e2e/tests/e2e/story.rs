//! A whole incident as those read it whom it wakes: Events and conditions in their order, and what kubectl shows. The texts stand beside this
//! file (`story/*.txt`) and in the book; `UPDATE=1` writes them anew, to be read by whoever changes a message.

pub mod tell;

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::lab::{Lab, Setup, has_taint};
use e2e::machine::Ailment;
use e2e::proxy::writes::QUARANTINE;
use e2e::toolchain::is_usual_kubernetes;
use fencing_testbed::https::Line;
use fencing_testbed::paths::workspace;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::json;

use crate::human_word::called;
use crate::outage::{Outage, approve, name};
use tell::Names;

/// Whose Events are told: of the operator, about a Node, a NodeFence, a policy.
const REPORTER: &str = "node-fencing-operator";
const KINDS: [&str; 3] = ["Node", "NodeFence", "NodeFencingPolicy"];

/// Stages that are written only if they last.
const PASSING: [&str; 6] = [
    "Checking",
    "Claiming",
    "Quiescing",
    "Verifying",
    "Detaching",
    "AwaitingRelease",
];

/// A text that grows.
struct Story<'a> {
    outage: &'a Outage,
    fence: String,
    names: Names,
    text: String,
}

impl<'a> Story<'a> {
    fn new(outage: &'a Outage, fence: &str, title: &str) -> Self {
        Self {
            outage,
            fence: fence.to_owned(),
            names: Names::of(&outage.node, fence),
            text: format!("# {title}\n"),
        }
    }

    fn lab(&self) -> &Lab {
        &self.outage.lab
    }

    fn add(&mut self, title: &str, text: &str) {
        let _ = write!(self.text, "\n## {title}\n\n{}\n", text.trim_end());
    }

    async fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.lab().control_plane.kubectl_text(words).await
    }

    /// `kubectl get nf -o wide` at this moment.
    async fn list(&mut self, when: &str) -> Result<()> {
        let text = self.kubectl(&["get", "nf", "-o", "wide"]).await?;
        let text = tell::table(&text, &["AGE"], &self.names);
        self.add(&format!("{when}: kubectl get nf -o wide"), &text);
        Ok(())
    }

    /// `kubectl describe node` at this moment: the taints, and the operator's Events.
    async fn node(&mut self, when: &str) -> Result<()> {
        let text = self
            .kubectl(&["describe", "node", &self.outage.node])
            .await?;
        let taints = text.lines().skip_while(|line| !line.starts_with("Taints:"));
        let taints: Vec<_> = taints
            .enumerate()
            .take_while(|(number, line)| *number == 0 || line.starts_with(' '))
            .map(|(_, line)| self.names.plain(line))
            .collect();
        let events = self.events_of(&text);
        let title =
            format!("{when}: kubectl describe node worker-1 (its taints, the operator's Events)");
        self.add(&title, &format!("{}\n{events}", taints.join("\n")));
        Ok(())
    }

    /// `kubectl describe nf` at this moment.
    async fn record(&mut self, when: &str) -> Result<()> {
        let text = self.kubectl(&["describe", "nf", &self.fence]).await?;
        let (object, _) = text.split_once("\nEvents:").context("it has Events")?;
        let object: Vec<_> = object.lines().map(|line| self.names.plain(line)).collect();
        let name = self.names.plain(&self.fence);
        let (object, events) = (tell::described(&object), self.events_of(&text));
        let title = format!("{when}: kubectl describe nf {name}");
        self.add(&title, &format!("{object}\n{events}"));
        Ok(())
    }

    /// The operator's Events of a description.
    fn events_of(&self, described: &str) -> String {
        let Some((_, events)) = described.split_once("\nEvents:") else {
            return "Events: <none>".to_owned();
        };
        let mut lines = events.lines().skip(1);
        let header = lines.next().unwrap_or_default();
        let own = lines.filter(|line| line.contains(REPORTER));
        let own: Vec<_> = own.collect();
        if own.is_empty() {
            return "Events: none of the operator".to_owned();
        }
        let table = format!("{header}\n{}", own.join("\n"));
        let table = tell::table(&table, &["Age"], &self.names);
        let indented: Vec<_> = table.lines().map(|line| format!("  {line}")).collect();
        format!("Events:\n{}", tell::told(&indented.join("\n")))
    }

    /// All that was told, oldest first.
    async fn events(&mut self) -> Result<()> {
        let events: Api<Event> = Api::all(self.lab().control_plane.admin());
        let mut events = events.list(&ListParams::default()).await?.items;
        let regarding = |event: &Event| event.regarding.as_ref().and_then(|it| it.kind.clone());
        events.retain(|event| {
            let kind = regarding(event).unwrap_or_default();
            event.reporting_controller.as_deref() == Some(REPORTER)
                && KINDS.contains(&kind.as_str())
        });
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        let mut text = String::new();
        for event in &events {
            let of = |it: &Option<String>| it.clone().unwrap_or_default();
            let (kind, type_) = (regarding(event).unwrap_or_default(), of(&event.type_));
            let (reason, note) = (of(&event.reason), self.names.plain(&of(&event.note)));
            let _ = writeln!(text, "{type_:<7} {kind:<9} {reason:<16} {note}");
        }
        self.add("Events, oldest first", &tell::told(&text));
        Ok(())
    }

    /// The conditions of the NodeFence: each change of status or reason, as it was written. A stage that is over at once is not written, but
    /// those which come with something that has to be on record before the next step.
    async fn conditions(&mut self) -> Result<()> {
        let mut known: Vec<(String, String)> = Vec::new();
        let mut text = String::new();
        for write in self.lab().writes_to("nodefences").await? {
            let conditions = write.request_object["status"]["conditions"]
                .as_array()
                .cloned();
            for condition in conditions.into_iter().flatten() {
                let word = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
                let shown = format!("{} {}", word("status"), word("reason"));
                let is_known = known.iter().position(|(kind, _)| *kind == word("type"));
                let before = is_known.map(|at| known.swap_remove(at).1);
                let may_be_left_out =
                    word("status") == "Unknown" && PASSING.contains(&word("reason").as_str());
                if before.as_ref() != Some(&shown) && !may_be_left_out {
                    let (kind, message) = (word("type"), self.names.plain(&word("message")));
                    let _ = writeln!(text, "{kind:<17} {shown:<21} {message}");
                }
                known.push((word("type"), shown));
            }
        }
        self.add("Conditions of the NodeFence, as they changed", &text);
        Ok(())
    }

    /// Compares it with the file, or writes that.
    fn hold(&self, name: &str) -> Result<()> {
        let path = workspace().join(format!("e2e/tests/e2e/story/{name}.txt"));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &self.text)?;
        }
        let recorded = fs::read_to_string(&path).unwrap_or_default();
        // Up to 1.35 kubectl writes `Boot Id`, and `Boot ID` since.
        let is_same = |recorded: &str, told: &str| match is_usual_kubernetes() {
            true => recorded == told,
            false => recorded.eq_ignore_ascii_case(told),
        };
        let mut lines = recorded.lines().zip(self.text.lines());
        let differs = lines.find(|(recorded, told)| !is_same(recorded, told));
        ensure!(
            differs.is_none() && is_same(&recorded, &self.text),
            "{} is stale, run it with UPDATE=1: recorded, and told now: {differs:#?}\n{}",
            path.display(),
            self.text
        );
        Ok(())
    }
}

/// The array detaches when the stage has been told: a volume that detaches at once leaves none.
async fn detached_and_recovered(outage: &Outage) -> Result<DynamicObject> {
    let Outage { lab, node, .. } = outage;
    let waits = lab.wait_stage(node, "Detaching").await?;
    lab.wait_told(&waits, "Detaching").await?;
    lab.control_plane.array().clear_faults().await?;
    let fence = lab.wait_stage(node, "Recovered").await?;
    lab.wait_told(&fence, "Recovered").await?;
    Ok(fence)
}

/// The node is Ready again, and carries nothing of ours.
async fn back(outage: &Outage) -> Result<()> {
    outage.rig()?.machine.ail(Ailment::default());
    outage.restore().await?;
    outage.wait_no_taint(QUARANTINE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_incident_reads_as_it_stands_in_the_book() -> Result<()> {
    let lab = Lab::start(Setup::new("story", 2)).await?;
    let outage = Outage::of(lab, "PowerOff", json!({})).await?;
    outage.lab.control_plane.array().hang_detach().await?;
    outage.rig()?.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    let fence = detached_and_recovered(&outage).await?;
    let title = "A kubelet hangs, and the policy may turn the machine off";
    let mut story = Story::new(&outage, name(&fence)?, title);
    story.events().await?;
    story.conditions().await?;
    story.list("When it is over").await?;
    story.node("When it is over").await?;
    story.record("When it is over").await?;
    story.hold("clean")?;
    ensure!(has_taint(&outage.lab.node(&outage.node).await?, QUARANTINE));
    back(&outage).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incident_that_calls_for_a_human_and_is_held_reads_as_it_stands_in_the_book()
-> Result<()> {
    let lab = Lab::start(Setup::new("story-held", 2)).await?;
    let levels =
        json!([{"name": "bmc", "attempts": 1, "retryPeriodSeconds": 1, "timeoutSeconds": 60}]);
    let policy = json!({"fence": {"levels": levels}, "budget": {"minHealthy": "100%"}});
    let outage = Outage::of(lab, "PowerOff", policy).await?;
    let Outage { lab, node, .. } = &outage;
    lab.control_plane.array().hang_detach().await?;
    let rig = outage.rig()?;
    rig.bmc.set_line(Line::Refused)?;
    rig.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    // The way out is added a moment later, and the list that follows shows it.
    let stuck = called(&outage, "DeviceFailed", "`spec.manualConfirmation`").await?;
    let title =
        "The BMC is dark; when it is back, all nodes have to stay Ready, and a human lets it go on";
    let mut story = Story::new(&outage, name(&stuck)?, title);
    lab.wait_told(&stuck, "DeviceFailed").await?;
    story.list("While it requires action").await?;
    story.node("While it requires action").await?;
    rig.bmc.set_line(Line::Up)?;
    let held = lab.wait_stage(node, "Held").await?;
    lab.wait_told(&held, "Held").await?;
    story.list("While it is held").await?;
    approve(lab, name(&held)?).await?;
    let fence = detached_and_recovered(&outage).await?;
    ensure!(name(&fence)? == name(&held)?, "it is one incident");
    story.events().await?;
    story.conditions().await?;
    story.record("When it is over").await?;
    story.hold("held")?;
    back(&outage).await?;
    outage.verdict().await
}

#[test]
fn what_a_run_alone_has_is_taken_out_and_the_rest_stays() {
    let names = Names::of("node-2", "node-2-0a1b2c3d");
    let text = "node-2-0a1b2c3d-x7k2 at 2026-11-24T09:04:57Z: 6f2c0f6e-0f6e-4f6e-8f6e-6f2c0f6e0f6e reads Off (127.113.2.1:443), 2 of 3.";
    let plain = "worker-1-5c0ffee5-<nonce> at <time>: <uid> reads Off (<address>), 2 of 3.";
    assert_eq!(names.plain(text), plain);
    let table = "NAME      AGE   NOTE\nnode-2    12s   \nanother   3m    Ready  at last\n";
    let laid = "NAME       AGE     NOTE\nworker-1   <age>\nanother    <age>   Ready  at last\n";
    assert_eq!(tell::table(table, &["AGE"], &names), laid);
}
