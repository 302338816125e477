//! The health checks for Argo CD in `hack/argocd`, laid out and tested as in its own `resource_customizations`: each object of `health_test.yaml`
//! goes through the Lua of its kind, in the dialect of Argo CD (5.1) and without the libraries that it withholds.

use super::tidy::{root, texts};
use anyhow::{Context, Result, ensure};
use fencing_testbed::debian::{self, Packages};
use fencing_testbed::fetch::run;
use serde::Deserialize;
use serde_json::Value;
use std::fs;

const CHECKS: &str = "hack/argocd/resource_customizations/nodefencing.io";
const KINDS: [&str; 3] = ["FenceDevice", "NodeFence", "NodeFencingPolicy"];

/// `health_test.yaml`.
#[derive(Deserialize)]
struct Tests {
    tests: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    health_status: Health,
    input_path: String,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Health {
    status: String,
    message: String,
}

fn read(path: &str) -> Result<String> {
    let path = format!("{CHECKS}/{path}");
    fs::read_to_string(root().join(&path)).context(path)
}

/// The value as a Lua program has it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields: Vec<String> = fields
                .map(|(name, value)| format!("[{}] = {}", quoted(name), literal(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        plain => plain.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| format!("\\{byte:03}")).collect();
    format!("\"{}\"", bytes.concat())
}

/// What the script makes of the object.
fn health(lua: &Packages, script: &str, object: &Value) -> Result<Health> {
    let object = literal(object);
    let program = format!(
        "local hs = setfenv(function()\n{script}\nend, {{obj = {object}, ipairs = ipairs}})()\nio.write(hs.status, '\\n', hs.message)"
    );
    let output = run(lua.command("lua5.1").args(["-e", &program]))?;
    let (status, message) = output.split_once('\n').context("two lines")?;
    Ok(Health {
        status: status.to_owned(),
        message: message.to_owned(),
    })
}

#[test]
fn argo_cd_sees_the_health_of_each_object() -> Result<()> {
    if !debian::available_to_test("argo_cd_sees_the_health_of_each_object")? {
        return Ok(());
    }
    let lua = Packages::unpack("lua", &["lua5.1"])?;
    for kind in KINDS {
        let script = read(&format!("{kind}/health.lua"))?;
        let tests: Tests = serde_saphyr::from_str(&read(&format!("{kind}/health_test.yaml"))?)?;
        let data = texts(&format!("{CHECKS}/{kind}/testdata"), &["yaml"]);
        ensure!(
            tests.tests.len() == data.len(),
            "{kind}: a file is not tested"
        );
        for row in tests.tests {
            let object = serde_saphyr::from_str(&read(&format!("{kind}/{}", row.input_path))?)?;
            let found = health(&lua, &script, &object)?;
            ensure!(
                found == row.health_status,
                "{kind} {}: {found:?}",
                row.input_path
            );
        }
    }
    Ok(())
}

/// A NodeFence stands in no Application.
#[test]
fn the_how_to_has_the_checks_of_what_stands_in_git() -> Result<()> {
    let page = fs::read_to_string(root().join("docs/how-to/gitops-argo-cd.md"))?;
    for kind in ["FenceDevice", "NodeFencingPolicy"] {
        let script = read(&format!("{kind}/health.lua"))?;
        let lines: Vec<String> = script.lines().map(|line| format!("    {line}\n")).collect();
        let key = format!("  resource.customizations.health.nodefencing.io_{kind}: |\n");
        let expected = key + &lines.concat();
        ensure!(page.contains(&expected), "the page lacks:\n{expected}");
    }
    Ok(())
}
