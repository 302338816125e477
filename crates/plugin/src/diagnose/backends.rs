//! The backend matrix: what a storage can do, and what it does by itself about a node that has died.
//!
//! It is data (`backends.yaml`), each row with its sources, so that a reader can look it up and a contributor can add one without a program.

use crate::foreign_text::says_one_of;
use k8s_openapi::api::core::v1::PersistentVolume;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

const TABLE: &str = include_str!("backends.yaml");

/// How a storage is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Type {
    /// Disks.
    Block,
    /// File systems.
    File,
    /// What is in the node.
    Local,
    /// Disks or file systems, by its configuration.
    Either,
}

/// What is known of an ability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Ability {
    /// It has it.
    Yes,
    /// For raw block devices only.
    RawBlock,
    /// It has it not.
    No,
    /// Whoever installs it decides.
    Configurable,
    /// No source says so.
    NotDocumented,
}

impl Ability {
    /// In words.
    pub fn told(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::RawBlock => "as a raw block device only",
            Self::No => "no",
            Self::Configurable => "as it is installed",
            Self::NotDocumented => "not documented",
        }
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Backend {
    /// What people call it.
    pub name: String,
    /// Names of its drivers; `*` stands for any beginning or end.
    #[serde(default)]
    pub provisioners: Vec<String>,
    /// Fields of a PersistentVolume's spec, of volumes without a CSI driver.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// How it is used.
    #[serde(rename = "type")]
    pub type_: Type,
    /// May several nodes write at a time?
    pub read_write_many: Ability,
    /// Does it have VolumeAttachments?
    pub attach: Ability,
    /// What out-of-service makes of it.
    #[serde(default)]
    pub force_detach: Option<String>,
    /// What it does by itself about a node that is silent.
    #[serde(default)]
    pub fences: Option<String>,
    /// Commands that show an attachment that the cluster knows nothing of.
    #[serde(default)]
    pub orphan: Vec<String>,
    /// By which words its driver says that a volume is in use elsewhere, in lower case.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub in_use: Vec<Phrase>,
    /// Where that was read.
    pub sources: Vec<String>,
}

/// How a driver says something, and where that was read; programs are told the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, into = "String")]
pub struct Phrase {
    /// A part of its words.
    pub says: String,
    /// The driver's own source, or a report that quotes it.
    pub source: String,
}

impl From<Phrase> for String {
    fn from(phrase: Phrase) -> Self {
        phrase.says
    }
}

impl Backend {
    fn is_of(&self, provisioner: &str) -> bool {
        self.provisioners.iter().any(|name| {
            let by_end = name.strip_prefix('*').map(|it| provisioner.ends_with(it));
            let by_beginning = || name.strip_suffix('*').map(|it| provisioner.starts_with(it));
            by_end.or_else(by_beginning).unwrap_or(name == provisioner)
        })
    }

    /// Does its driver say that a volume is in use elsewhere?
    pub fn says_in_use(&self, words: &str) -> bool {
        says_one_of(words, self.in_use.iter().map(|it| it.says.as_str()))
    }

    /// Its vendor's commands for this volume.
    pub fn orphan_commands(&self, handle: &str) -> Vec<String> {
        let commands = self.orphan.iter();
        commands.map(|it| it.replace("{handle}", handle)).collect()
    }
}

/// The rows; none where the table cannot be read, which a test would show.
static ROWS: LazyLock<Vec<Backend>> =
    LazyLock::new(|| serde_saphyr::from_str(TABLE).unwrap_or_default());

/// The row of a driver or provisioner.
pub fn of_provisioner(provisioner: &str) -> Option<&'static Backend> {
    ROWS.iter().find(|it| it.is_of(provisioner))
}

/// The row of a volume.
pub fn of_volume(volume: &PersistentVolume) -> Option<&'static Backend> {
    let spec = volume.spec.as_ref()?;
    if let Some(csi) = &spec.csi {
        return of_provisioner(&csi.driver);
    }
    let fields = serde_json::to_value(spec).ok()?;
    ROWS.iter()
        .find(|row| row.volumes.iter().any(|it| fields.get(it).is_some()))
}

/// All of them.
#[cfg(test)]
pub fn rows() -> &'static [Backend] {
    &ROWS
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    /// Neither the driver's source nor a report that was found has its words: what its storage provider says is passed on as it is.
    const UNSOURCED: [&str; 1] = ["HPE CSI Driver"];

    fn row(provisioner: &str) -> Option<String> {
        of_provisioner(provisioner).map(|it| it.name.clone())
    }

    #[test]
    fn every_row_can_be_read_has_a_source_and_says_of_what_it_is() {
        let rows: Vec<Backend> = serde_saphyr::from_str(TABLE).expect("the table");
        assert!(rows.len() >= 18, "{}", rows.len());
        for row in rows {
            assert!(!row.sources.is_empty(), "{} has no source", row.name);
            assert!(
                row.sources.iter().all(|it| it.starts_with("https://")),
                "{}",
                row.name
            );
            assert!(
                !row.provisioners.is_empty() || !row.volumes.is_empty(),
                "{}",
                row.name
            );
            // Else what it says of a volume that another node has is not told from any other error.
            let attaches = row.type_ == Type::Block && row.attach == Ability::Yes;
            let is_told = !row.in_use.is_empty() || UNSOURCED.contains(&row.name.as_str());
            assert!(!attaches || is_told, "{}", row.name);
            for phrase in &row.in_use {
                assert_eq!(phrase.says.to_lowercase(), phrase.says, "{}", row.name);
                let is_linked = phrase.source.starts_with("https://github.com/");
                assert!(is_linked, "{}: {}", row.name, phrase.source);
            }
        }
    }

    #[test]
    fn no_provisioner_is_in_two_rows() {
        let mut names = BTreeSet::new();
        for row in ROWS.iter() {
            for name in row.provisioners.iter().chain(&row.volumes) {
                assert!(names.insert(name), "{name} is there twice");
            }
        }
    }

    #[test]
    fn drivers_are_found_by_name_and_by_how_it_ends_or_begins() {
        assert_eq!(row("ebs.csi.aws.com").as_deref(), Some("Amazon EBS"));
        let ceph = row("openshift-storage.rbd.csi.ceph.com");
        assert!(ceph.is_some_and(|it| it.starts_with("Ceph RBD")));
        assert_eq!(
            row("org.democratic-csi.iscsi").as_deref(),
            Some("democratic-csi")
        );
        assert_eq!(row("nobody.example.com"), None);
    }

    #[test]
    fn volumes_without_a_driver_are_found_by_their_field() {
        let of = |source: Value| {
            let mut volume = json!({"metadata": {"name": "v"}, "spec": {}});
            volume["spec"] = source;
            let volume: PersistentVolume = serde_json::from_value(volume).expect("a volume");
            of_volume(&volume).map(|it| it.name.clone())
        };
        let nfs = of(json!({"nfs": {"server": "s", "path": "/"}}));
        assert_eq!(nfs.as_deref(), Some("NFS"));
        let csi = of(json!({"csi": {"driver": "csi.hpe.com", "volumeHandle": "h"}}));
        assert_eq!(csi.as_deref(), Some("HPE CSI Driver"));
        assert_eq!(of(json!({})), None);
    }

    #[test]
    fn commands_bear_the_handle_of_the_volume() {
        let ebs = of_provisioner("ebs.csi.aws.com").expect("a row");
        let commands = ebs.orphan_commands("vol-1");
        assert!(
            commands.iter().all(|it| it.contains("vol-1")),
            "{commands:?}"
        );
    }
}
