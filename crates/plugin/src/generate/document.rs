//! An object as YAML, with remarks for whoever reads it before it is applied.
//!
//! Only what differs from the API's defaults is printed. Which fields these are is not listed here: a field goes if the object is the same
//! without it, for the types of `crates/api/src` fill in the very defaults that the API server does.

use super::super::Error;
use super::super::table::wrapped;
use fencing_drivers::error::printable;
use kube::Resource;
use kube::ResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Longest remark in characters: parts of it may come from a device or from somebody else's object.
const REMARK_CHARACTERS_MAX: usize = 1000;

/// What stands above an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// In lines that fit the terminal.
    Words(String),
    /// To be copied, so on one line.
    Command(String),
}

impl Remark {
    /// In words.
    pub fn words(words: impl Into<String>) -> Self {
        Self::Words(words.into())
    }
}

/// Remarks as comments.
pub fn comments(remarks: &[Remark]) -> String {
    let lines = |remark: &Remark| match remark {
        Remark::Words(words) => {
            let words = printable(words, REMARK_CHARACTERS_MAX);
            // Indented, so that there is room for the sign of a comment.
            let lines = wrapped(&words, 2);
            lines
                .lines()
                .map(|it| format!("# {}\n", it.trim()))
                .collect()
        }
        Remark::Command(command) => format!("#   {}\n", printable(command, REMARK_CHARACTERS_MAX)),
    };
    remarks.iter().map(lines).collect()
}

/// The object, or its proposal in comments where it cannot be applied as it stands.
///
/// # Errors
/// It cannot be written as such, which is a fault of the program.
pub fn document<K>(object: &K, remarks: &[Remark], is_complete: bool) -> Result<String, Error>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + PartialEq,
{
    let failed = |words: String| {
        Error::No(format!(
            "{} {} cannot be written: {words}",
            K::kind(&()),
            object.name_any()
        ))
    };
    let mut whole = serde_json::to_value(object).map_err(|it| failed(it.to_string()))?;
    prune(object, &mut whole, "/spec");
    let yaml = serde_saphyr::to_string(&whole).map_err(|it| failed(it.to_string()))?;
    let yaml = match is_complete {
        true => yaml,
        false => commented(&yaml),
    };
    Ok(format!("---\n{}{yaml}", comments(remarks)))
}

fn commented(text: &str) -> String {
    let lines = text.lines();
    let lines = lines.map(|line| format!("# {}", line.trim_end()).trim_end().to_owned() + "\n");
    lines.collect()
}

/// Takes away below this place what the object is the same without.
fn prune<K: DeserializeOwned + PartialEq>(object: &K, whole: &mut Value, place: &str) {
    let below: Vec<String> = match whole.pointer(place) {
        Some(Value::Object(fields)) => fields.keys().cloned().collect(),
        Some(Value::Array(items)) => {
            for index in 0..items.len() {
                prune(object, whole, &format!("{place}/{index}"));
            }
            return;
        }
        _ => return,
    };
    for key in below {
        let mut without = whole.clone();
        if let Some(Value::Object(fields)) = without.pointer_mut(place) {
            fields.remove(&key);
        }
        let is_the_same = K::deserialize(&without).is_ok_and(|it| it == *object);
        match is_the_same {
            true => *whole = without,
            // A pointer's own signs in a label's key (RFC 6901).
            false => {
                let key = key.replace('~', "~0").replace('/', "~1");
                prune(object, whole, &format!("{place}/{key}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_api::device::FenceDevice;
    use serde_json::json;

    fn device(node: &str) -> FenceDevice {
        let spec = json!({
            "nodeName": node,
            "redfish": {"address": "https://10.0.0.1", "tls": {"caRef": {"name": "bmc-ca"}}},
            "credentialsRef": {"name": "bmc"},
        });
        let spec = serde_json::from_value(spec).expect("a spec");
        FenceDevice::new("worker-1-bmc", spec)
    }

    #[test]
    fn only_what_is_no_default_is_printed() {
        let text = document(&device("worker-1"), &[], true).expect("YAML");
        assert_eq!(
            text,
            "---
apiVersion: nodefencing.io/v1alpha1
kind: FenceDevice
metadata:
  name: worker-1-bmc
spec:
  credentialsRef:
    name: bmc
  nodeName: worker-1
  redfish:
    address: https://10.0.0.1
    tls:
      caRef:
        name: bmc-ca
"
        );
    }

    /// kubectl reads YAML 1.1, where `on` is a boolean and `012` is ten.
    #[test]
    fn a_name_stays_a_text_whatever_it_looks_like() {
        for name in [
            "on",
            "y",
            "no",
            "null",
            "012",
            "1e3",
            "0x10",
            "1_000",
            "12:30",
            "~",
            "2026-11-26",
        ] {
            let text = document(&device(name), &[], true).expect("YAML");
            let line = text.lines().find(|it| it.contains("nodeName"));
            let line = line.expect("the line").trim();
            let quoted = [
                format!("nodeName: \"{name}\""),
                format!("nodeName: '{name}'"),
            ];
            assert!(quoted.iter().any(|it| it == line), "{line}");
        }
    }

    #[test]
    fn a_remark_ends_in_its_own_comment_whatever_a_device_says() {
        let remarks = [
            Remark::words("a model\n---\nkind: Secret ".repeat(4)),
            Remark::Command("kubectl get\nkind: Secret".to_owned()),
        ];
        let text = document(&device("worker-1"), &remarks, false).expect("YAML");
        let (first, rest) = text.split_once('\n').expect("lines");
        assert_eq!(first, "---");
        assert!(rest.lines().all(|it| it.starts_with('#')), "{rest}");
        assert!(rest.lines().all(|it| it.len() <= 80), "{rest}");
        assert!(rest.contains("# kind: FenceDevice\n"), "{rest}");
    }
}
