//! The objects of a file, and a client that answers from them as an API server would.

use super::{BadInput, fields};
use crate::args::probe::Probing;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencing_api::device::{FenceDevice, IdentityCheck, Reads};
use fencing_api::drivers::supported;
use fencing_cluster::slim::SlimNode;
use fencing_drivers::NodeFacts;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::ResourceExt;
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
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| {
                bad(
                    file,
                    &format!("is not YAML: {}; correct that place", first_line(&error)),
                )
            })?;
            for document in documents {
                // What stands between two `---`, or behind the last one.
                if document.is_null() {
                    continue;
                }
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
            let name = name_of(object);
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
            return Err(self.not_one_device());
        };
        let name = name_of(device);
        fields::all_known(device, name)?;
        let device: FenceDevice = serde_json::from_value(device.clone()).map_err(|error| {
            BadInput(format!(
                "FenceDevice `{name}` cannot be read: {error}; see `kubectl apply --dry-run=server`"
            ))
        })?;
        let drivers: Vec<&str> = device.spec.drivers.set().map(|kind| kind.name).collect();
        match *drivers {
            [_] => outlets_are_vouched_for(device),
            [] => Err(BadInput(format!(
                "`spec` of FenceDevice `{}` must set exactly one driver ({}), it sets none; add one",
                device.name_any(),
                supported()
            ))),
            _ => Err(BadInput(format!(
                "`spec` of FenceDevice `{}` must set exactly one driver ({}), it sets {}: {}; keep one, and make a FenceDevice of each other",
                device.name_any(),
                supported(),
                drivers.len(),
                drivers.join(", ")
            ))),
        }
    }

    /// The Node of this name, as far as a driver needs it.
    pub fn node(&self, name: &str) -> Result<Option<NodeFacts>, BadInput> {
        let mut nodes = self.nodes().filter(|object| name_of(object) == name);
        let (node, None) = (nodes.next(), nodes.next()) else {
            return Err(BadInput(format!(
                "Node `{name}` is in the files twice; take one out"
            )));
        };
        let view = node.map(|node| serde_json::from_value::<SlimNode>(node.clone()));
        let view = view.transpose().map_err(|error| {
            BadInput(format!(
                "Node `{name}` cannot be read: {error}; take it as `kubectl get node {name} -o yaml` prints it"
            ))
        })?;
        Ok(view.map(|node| NodeFacts::from(&node.view())))
    }

    /// The name of the Node, if there is one and no other.
    pub fn only_node(&self) -> Option<String> {
        let mut nodes = self.nodes();
        let (Some(node), None) = (nodes.next(), nodes.next()) else {
            return None;
        };
        Some(name_of(node).to_owned())
    }

    fn nodes(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(|object| kind_of(object) == "Node")
    }

    fn not_one_device(&self) -> BadInput {
        const SHOWN: usize = 8;
        let all = self.0.iter();
        let shown = all.clone().take(SHOWN);
        let shown = shown.map(|object| format!("{} `{}`", kind_of(object), name_of(object)));
        let held = match self.0.len() {
            0 => " nothing".to_owned(),
            count => {
                let more = if count > SHOWN { ", ..." } else { "" };
                format!(": {}{more}", shown.collect::<Vec<_>>().join(", "))
            }
        };
        let way_out = match all
            .filter(|object| kind_of(object) == "FenceDevice")
            .count()
        {
            0 => "add it as it will be applied (`kind: FenceDevice`)",
            _ => {
                "keep the one that is to be probed, with its Secret, and probe each other by a file of its own"
            }
        };
        BadInput(format!(
            "the files must hold exactly one FenceDevice, they hold{held}; {way_out}"
        ))
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
    let name = name_of(object);
    if let Some(namespace) = text("/metadata/namespace").filter(|it| *it != own) {
        return Err(BadInput(format!(
            "{} `{name}` is in namespace `{namespace}`, and the operator reads only its own; move it to `{own}`, or name the operator's namespace with --namespace",
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
        Err(error) => Err(bad(
            file,
            &format!("cannot be read: {error}; name a file of YAML, or - for standard input"),
        )),
    }
}

fn bad(file: &Path, what: &str) -> BadInput {
    match file.as_os_str() == STDIN {
        true => BadInput(format!("standard input (`-`) {what}")),
        false => BadInput(format!("`{}` {what}", file.display())),
    }
}

/// The parser draws the place in further lines.
/// As the API server has it.
fn outlets_are_vouched_for(device: FenceDevice) -> Result<FenceDevice, BadInput> {
    let is_named = device.spec.identity_check != IdentityCheck::Skip;
    if device.spec.reads() == Reads::Outlets && is_named {
        return Err(BadInput(format!(
            "`spec.identityCheck` of FenceDevice `{}` must be `Skip` for driver `{}`, because the device cannot name its machine; set it, and verify it once, with the node drained",
            device.name_any(),
            device.spec.driver_name()
        )));
    }
    Ok(device)
}

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

fn name_of(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or("without a name")
}
