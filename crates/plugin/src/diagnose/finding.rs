//! What a diagnosis has found: which signature, on which objects, why, by what it was seen, and the way out as commands to copy.

use super::super::table::{WIDTH, wrapped};
use fencing_cluster::slim::{SlimAttachment, SlimPod};
use fencing_cluster::text::listed;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

/// Objects of one kind that are named in a title.
const NAMED_MAX: usize = 4;

/// The signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Id {
    /// A node with volumes is silent, and is not fenced.
    D1,
    /// A node with volumes is silent, and is being fenced.
    D2,
    /// A fenced node's volume does not detach.
    D3,
    /// A rollout starts the new pod before the old one stops.
    D4,
    /// Two workloads share a volume that goes to one node.
    D5,
    /// A kubelet does not let go of a volume that no pod uses.
    D6,
    /// A VolumeAttachment of a node that is no more.
    D7,
    /// Pods that no taint evicts.
    D8,
    /// The storage says attached, and the cluster knows nothing of it.
    D9,
    /// The scheduler's limits, which no fence lifts.
    D10,
    /// A pod does not end, and keeps its volume.
    D11,
    /// A node is out of service, and no NodeFence is open for it.
    D12,
    /// A VolumeAttachment of a driver that attaches nothing.
    D13,
    /// The pods that attach and detach for a driver are on nodes that are not Ready.
    D14,
    /// A volume can be reached from lost nodes only.
    D15,
    /// A volume is attached where no pod uses it.
    D16,
    /// An error or a wait that none of the others explains.
    D17,
}

/// An object that a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    /// Its kind, as kubectl takes it.
    pub kind: &'static str,
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Object {
    /// One of the cluster's own.
    pub fn of_cluster(kind: &'static str, name: &str) -> Self {
        Self {
            kind,
            namespace: None,
            name: name.to_owned(),
        }
    }

    /// One of a namespace.
    pub fn of(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::of_cluster(kind, name)
        }
    }

    /// A Node.
    pub fn node(name: &str) -> Self {
        Self::of_cluster("node", name)
    }

    /// A PersistentVolume.
    pub fn volume(name: &str) -> Self {
        Self::of_cluster("pv", name)
    }

    /// A VolumeAttachment, and its volume.
    pub fn attachment(attachment: &SlimAttachment) -> impl Iterator<Item = Self> {
        let own = Self::of_cluster("volumeattachment", &attachment.name_any());
        std::iter::once(own).chain(attachment.volume().map(Self::volume))
    }

    /// A pod.
    pub fn pod(pod: &SlimPod) -> Self {
        Self::of("pod", &pod.namespace().unwrap_or_default(), &pod.name_any())
    }

    /// Its kind and its name, with the namespace if it has one.
    pub fn told(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }
}

/// A step of the way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What it is for, and what to mind.
    pub why: String,
    /// The command.
    pub command: String,
}

/// A step.
pub fn step(why: impl Into<String>, command: impl Into<String>) -> Step {
    Step {
        why: why.into(),
        command: command.into(),
    }
}

/// Steps, as a shell would take them: in each two lines, `# ` and what the command is for, and the command. What is put into the text has no
/// line break: names of objects, and texts of this program.
pub fn steps(text: &str) -> Vec<Step> {
    let mut lines = text.lines().map(str::trim);
    let mut next = || Some(step(lines.next()?.trim_start_matches("# "), lines.next()?));
    std::iter::from_fn(&mut next).collect()
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which signature.
    pub id: Id,
    /// What is wrong, in one sentence.
    pub title: String,
    /// The objects.
    pub objects: Vec<Object>,
    /// Why that is so.
    pub cause: String,
    /// By what it was seen.
    pub seen: Vec<String>,
    /// The way out.
    pub fix: Vec<Step>,
}

impl Finding {
    /// As people read it.
    pub fn told(&self) -> String {
        let mut text = wrapped(&format!("{:?}: {}", self.id, self.title), 0);
        let objects: Vec<String> = self.objects.iter().map(Object::told).collect();
        text += &wrapped(
            &format!("Objects: {}", listed(&objects, "", NAMED_MAX * 2)),
            2,
        );
        text += &wrapped(&format!("Cause: {}", self.cause), 2);
        text += "  Seen:\n";
        text.extend(self.seen.iter().map(|it| point(it)));
        text += "  Fix:\n";
        for step in &self.fix {
            text += &remark(&step.why);
            text += &copied(&step.command);
        }
        text
    }
}

/// A line of a list.
fn point(words: &str) -> String {
    let text = wrapped(words, 6);
    format!("    - {}", text.trim_start())
}

/// Above a command, as a shell ignores it.
fn remark(words: &str) -> String {
    // Two columns more than the indent are taken by `# `.
    let lines = wrapped(words, 6);
    let lines = lines.lines();
    lines
        .map(|it| format!("    # {}\n", it.trim_start()))
        .collect()
}

/// A command, in lines that a shell joins again: it is cut at blanks outside of quotes only.
fn copied(command: &str) -> String {
    const INDENT: usize = 4;
    let mut text = " ".repeat(INDENT);
    let mut column = INDENT;
    for (nth, word) in words(command).into_iter().enumerate() {
        let length = word.chars().count();
        // Behind the last word of a line is ` \`.
        if nth > 0 && column + 1 + length + 2 > WIDTH {
            text += &format!(" \\\n{}", " ".repeat(INDENT + 2));
            column = INDENT + 2;
        } else if nth > 0 {
            text.push(' ');
            column += 1;
        }
        text += &word;
        column += length;
    }
    text.push('\n');
    text
}

/// The words of a command, quoted ones whole.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in command.chars() {
        match (quote, character) {
            (None, ' ') => {
                words.push(String::new());
                continue;
            }
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
        if let Some(word) = words.last_mut() {
            word.push(character);
        }
    }
    words
}

/// Names in a sentence.
pub fn named(names: &[String]) -> String {
    listed(names, "", NAMED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_cut_where_a_shell_joins_them_and_never_inside_of_quotes() {
        let patch = r#"'{"spec":{"strategy":{"type":"Recreate", "rollingUpdate":null}}}'"#;
        let command = format!("kubectl -n shop patch deployment db --type=merge -p {patch}");
        let text = copied(&command);
        assert!(text.contains(" \\\n"), "{text}");
        assert!(text.contains(patch), "{text}");
        let joined = text.replace(" \\\n", " ");
        let joined: Vec<&str> = joined.split_whitespace().collect();
        assert_eq!(joined.join(" "), command);
    }

    #[test]
    fn a_finding_fits_the_terminal_but_for_what_has_no_blank() {
        let finding = Finding {
            id: Id::D7,
            title: "word ".repeat(30),
            objects: vec![Object::of_cluster("volumeattachment", "csi-1")],
            cause: "word ".repeat(30),
            seen: vec!["word ".repeat(30)],
            fix: steps(&format!(
                "# {}\n{}",
                "word ".repeat(30),
                "kubectl ".repeat(20).trim_end()
            )),
        };
        let text = finding.told();
        assert!(text.lines().all(|it| it.chars().count() <= WIDTH), "{text}");
        assert!(text.trim_end().ends_with("kubectl"), "{text}");
    }
}
