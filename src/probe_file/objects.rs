//! The objects of a file, and a client that answers from them as an API server would.

use super::BadInput;
use crate::api::device::FenceDevice;
use crate::args::probe::Probing;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Largest file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Standard input.
const STDIN: &str = "-";

/// What the files hold.
#[derive(Debug)]
pub struct Objects(Vec<Value>);

impl Objects {
    /// Reads the objects of the file and of the Secret's file; `-` is standard input.
    pub fn read(order: &Probing) -> Result<Self, BadInput> {
        let mut objects = Vec::new();
        for file in [Some(&order.file), order.secret.as_ref()]
            .into_iter()
            .flatten()
        {
            let text = text(file)?;
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
                .map_err(|error| bad(file, &format!("is not YAML: {}", first_line(&error))))?;
            for document in documents {
                match document.get("items").and_then(Value::as_array) {
                    Some(items) => objects.extend(items.iter().cloned()),
                    None => objects.push(document),
                }
            }
        }
        let read = |object: &&Value| matches!(kind_of(object), "Secret" | "ConfigMap");
        let mut read = objects.iter().filter(read);
        let mut names = BTreeSet::new();
        read.try_for_each(|object| {
            usable(object, &order.namespace)?;
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            let name = name.unwrap_or("without a name");
            match names.insert((kind_of(object), name)) {
                true => Ok(()),
                false => Err(BadInput(format!(
                    "{} `{name}` is in the files twice; take one out",
                    kind_of(object)
                ))),
            }
        })?;
        Ok(Self(objects))
    }

    /// The one FenceDevice.
    pub fn device(&self) -> Result<FenceDevice, BadInput> {
        let mut devices = self
            .0
            .iter()
            .filter(|object| kind_of(object) == "FenceDevice");
        let (Some(device), None) = (devices.next(), devices.next()) else {
            let kinds: Vec<_> = self
                .0
                .iter()
                .map(|object| kind_of(object).to_owned())
                .collect();
            let held = match kinds.as_slice() {
                [] => " nothing".to_owned(),
                _ => format!(": {}", kinds.join(", ")),
            };
            return Err(BadInput(format!(
                "the files must hold exactly one FenceDevice, they hold{held}"
            )));
        };
        let device: FenceDevice = serde_json::from_value(device.clone()).map_err(|error| {
            BadInput(format!("the FenceDevice cannot be read: {error}; `kubectl apply --dry-run=server` says more"))
        })?;
        match *device.spec.driver_names() {
            [_] => Ok(device),
            [] => Err(BadInput(
                "`spec` of the FenceDevice must set exactly one driver (`redfish`, `ipmi`, `pdu` or `manual`), it sets none; check the spelling, or ask `kubectl apply --dry-run=server -f FILE`".to_owned(),
            )),
            ref drivers => Err(BadInput(format!(
                "`spec` of the FenceDevice must set exactly one driver (`redfish`, `ipmi`, `pdu` or `manual`), it sets {}: {}",
                drivers.len(),
                drivers.join(", ")
            ))),
        }
    }

    /// A client that knows these objects, and nothing else.
    pub fn client(self, namespace: &str) -> Client {
        let objects = Arc::new(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let objects = Arc::clone(&objects);
            async move { Ok::<_, Infallible>(objects.answer(request.uri().path())) }
        });
        Client::new(service, namespace)
    }

    /// The answer to a GET: `/api/v1/namespaces/NAMESPACE/secrets/NAME`.
    fn answer(&self, path: &str) -> Response<Body> {
        let mut parts = path.rsplit('/');
        let (name, plural) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let kind = match plural {
            "secrets" => "Secret",
            "configmaps" => "ConfigMap",
            _ => "",
        };
        let found = self.0.iter().find(|object| {
            kind_of(object) == kind
                && object.pointer("/metadata/name").and_then(Value::as_str) == Some(name)
        });
        let (status, object) = match found {
            Some(object) => (StatusCode::OK, plain(object)),
            None => (
                StatusCode::NOT_FOUND,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                    "message": format!("{kind} {name} is not in the files")}),
            ),
        };
        let mut response = Response::new(Body::from(object.to_string().into_bytes()));
        *response.status_mut() = status;
        response
    }
}

/// Refuses what the API server would refuse of a Secret, and what the operator would not find.
fn usable(object: &Value, own: &str) -> Result<(), BadInput> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or("without a name");
    if let Some(namespace) = text("/metadata/namespace").filter(|it| *it != own) {
        return Err(BadInput(format!(
            "{} `{name}` is in namespace `{namespace}`, and the operator reads those of its own only: move it to `{own}`, or name the operator's namespace with --namespace",
            kind_of(object)
        )));
    }
    if kind_of(object) != "Secret" {
        return Ok(());
    }
    let entries = |field| {
        object
            .get(field)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    };
    for (key, value) in entries("stringData") {
        if !value.is_string() {
            return Err(BadInput(format!(
                "`stringData.{key}` of Secret `{name}` is no text; put it in quotation marks"
            )));
        }
    }
    for (key, value) in entries("data") {
        let decoded = value.as_str().map(|value| STANDARD.decode(value));
        if !matches!(decoded, Some(Ok(_))) {
            return Err(BadInput(format!(
                "`data.{key}` of Secret `{name}` is not base64; plain text belongs into `stringData`"
            )));
        }
    }
    Ok(())
}

/// What the API server makes of a Secret: `stringData` becomes `data`.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(fields) = object.as_object_mut() else {
        return object;
    };
    let texts = fields.remove("stringData").unwrap_or_default();
    let data = fields.entry("data").or_insert_with(|| json!({}));
    for (key, text) in texts.as_object().into_iter().flatten() {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        if let Some(data) = data.as_object_mut() {
            data.insert(key.clone(), json!(encoded));
        }
    }
    object
}

fn text(file: &Path) -> Result<String, BadInput> {
    let mut text = String::new();
    let read = match file.as_os_str() == STDIN {
        true => std::io::stdin()
            .take(FILE_BYTES_MAX)
            .read_to_string(&mut text),
        false => std::fs::File::open(file)
            .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text)),
    };
    match read {
        Ok(bytes) if u64::try_from(bytes).is_ok_and(|bytes| bytes >= FILE_BYTES_MAX) => Err(bad(
            file,
            "is larger than 1 MiB; keep the FenceDevice, its Secret and its CA only",
        )),
        Ok(_) => Ok(text),
        Err(error) => Err(bad(file, &format!("cannot be read: {error}"))),
    }
}

fn bad(file: &Path, what: &str) -> BadInput {
    BadInput(format!("`{}` {what}", file.display()))
}

/// The parser draws the place in further lines.
fn first_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

fn kind_of(object: &Value) -> &str {
    object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or("something without a kind")
}
