//! kubeconform over what was rendered: a second opinion beside the API server's, from the schemas that the API server publishes.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::toolchain::{Programs, Toolchain};
use serde_json::{Map, Value, json};
use tokio::process::Command;

use super::path;

/// What every field of every kind may be, our own kinds among them, as kubeconform wants it: a file for each kind.
pub struct Schemas {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Schemas {
    /// Those of the API server.
    pub async fn of(plane: &ControlPlane) -> Result<Self> {
        let published = plane.kubectl_text(&["get", "--raw=/openapi/v2"]).await?;
        let mut published: Value = serde_json::from_str(&published)?;
        let definitions = published["definitions"].as_object_mut();
        let definitions = definitions.context("the API server publishes no definitions")?;
        definitions.values_mut().for_each(close);
        let directory = tempfile::tempdir()?;
        for (name, definition) in &*definitions {
            for kind in kinds(definition) {
                let folder = directory.path().join(kind.folder());
                std::fs::create_dir_all(&folder)?;
                let schema = json!({"$ref": format!("#/definitions/{name}"), "definitions": needed(name, definitions)});
                std::fs::write(folder.join(kind.file()), schema.to_string())?;
            }
        }
        let toolchain = tokio::task::spawn_blocking(|| Toolchain::build(Programs::All)).await??;
        let program = toolchain.program("kubeconform");
        Ok(Self { directory, program })
    }

    /// Does the API server publish what such an object may be?
    pub fn has(&self, group: &str, version: &str, kind: &str) -> bool {
        let [group, version, kind] = [group, version, kind].map(str::to_owned);
        let kind = Kind {
            group,
            version,
            kind,
        };
        let folder = self.directory.path().join(kind.folder());
        folder.join(kind.file()).exists()
    }

    /// Fails unless kubeconform finds every object valid and skips none.
    pub async fn hold(&self, objects: &[Value]) -> Result<()> {
        let list = self.directory.path().join("render.yaml");
        let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
        std::fs::write(&list, documents.join("\n---\n"))?;
        let schemas = path(self.directory.path().to_owned())?;
        let location = format!(
            "{schemas}/{{{{.Group}}}}/{{{{.ResourceKind}}}}-{{{{.ResourceAPIVersion}}}}.json"
        );
        let output = Command::new(&self.program)
            .args(["-strict", "-summary", "-output=json"])
            .args(["-schema-location", &location])
            .arg(list)
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let report: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
        let valid = report["summary"]["valid"].as_u64();
        ensure!(
            valid == Some(u64::try_from(objects.len())?),
            "kubeconform: {said}"
        );
        Ok(())
    }
}

/// A kind that a definition is for.
struct Kind {
    group: String,
    version: String,
    kind: String,
}

impl Kind {
    /// What kubeconform calls the group: of the core's it takes the version.
    fn folder(&self) -> &str {
        if self.group.is_empty() {
            &self.version
        } else {
            &self.group
        }
    }

    fn file(&self) -> String {
        format!("{}-{}.json", self.kind.to_lowercase(), self.version)
    }
}

fn kinds(definition: &Value) -> Vec<Kind> {
    let kinds = definition["x-kubernetes-group-version-kind"].as_array();
    let text = |kind: &Value, field: &str| kind[field].as_str().unwrap_or_default().to_owned();
    let kind = |it| Kind {
        group: text(it, "group"),
        version: text(it, "version"),
        kind: text(it, "kind"),
    };
    kinds.into_iter().flatten().map(kind).collect()
}

/// An object has no field that its definition does not name, and an IntOrString is either.
fn close(definition: &mut Value) {
    let Some(definition) = definition.as_object_mut() else {
        return;
    };
    if definition.get("format") == Some(&json!("int-or-string")) {
        definition.remove("format");
        definition.insert("type".to_owned(), json!(["integer", "string"]));
    }
    let is_open = definition.contains_key("x-kubernetes-preserve-unknown-fields");
    if definition.contains_key("properties") && !is_open {
        definition
            .entry("additionalProperties")
            .or_insert(Value::Bool(false));
    }
    for inner in ["properties", "items", "additionalProperties"] {
        match definition.get_mut(inner) {
            Some(Value::Object(properties)) if inner == "properties" => {
                properties.values_mut().for_each(close);
            }
            Some(schema) => close(schema),
            None => {}
        }
    }
}

/// The definitions that one of them leads to, itself included.
fn needed(name: &str, all: &Map<String, Value>) -> Map<String, Value> {
    let mut needed = Map::new();
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        let Some(definition) = all.get(&name).filter(|_| !needed.contains_key(&name)) else {
            continue;
        };
        let text = definition.to_string();
        let names = text.split("\"#/definitions/").skip(1);
        open.extend(names.filter_map(|rest| Some(rest.split('"').next()?.to_owned())));
        needed.insert(name, definition.clone());
    }
    needed
}
