//! A namespace of Metal3 with one BareMetalHost, and others beside it that run, as the API server of its cluster answers. What is off was turned off
//! by our annotation, unless a fault says otherwise.

use serde_json::{Value, json};

use super::kube::{self, REVIEWS};
use super::{Beside, Page, Taken, View, Wants};
use crate::{bmc::Answer, https::Call};

/// The provider ID of the machine's Node.
pub const PROVIDER_ID: &str = "metal3://racks/host-0/machine-0";

const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/racks/baremetalhosts";
const HOST: &str = "/apis/metal3.io/v1alpha1/namespaces/racks/baremetalhosts/host-0";
const EVENTS: &str = "/api/v1/namespaces/racks/events";
const HELD: &str = "reboot.metal3.io/node-fencing-operator";

/// The cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Metal3 {
    /// Hosts that run beside the machine's, from 1 on.
    pub others: usize,
}

/// The provider ID of another Node, by its number.
pub fn provider_id_of(number: usize) -> String {
    format!("metal3://racks/host-{number}/machine-{number}")
}

/// The number in a path of a host.
fn number(path: &str) -> Option<usize> {
    path.strip_prefix(HOSTS)?
        .strip_prefix("/host-")?
        .parse()
        .ok()
}

/// What a patch does to our annotation.
fn patched(body: &str) -> Option<Value> {
    let patch: Value = serde_json::from_str(body).ok()?;
    patch["metadata"]["annotations"].get(HELD).cloned()
}

impl Page for Metal3 {
    const STATE: [&'static str; 2] = ["\"poweredOn\":true", "\"poweredOn\":false"];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let path = call.head.uri.path();
        match call.head.method.as_str() {
            "PATCH" if path == HOST => {
                let value = patched(std::str::from_utf8(&call.body).ok()?)?;
                Some(Wants::Switch(value.is_null()))
            }
            "GET" if number(path).is_some() => Some(Wants::State),
            "GET" if [HOSTS, EVENTS].contains(&path) => Some(Wants::Other),
            "POST" if path == REVIEWS => Some(Wants::Other),
            _ => None,
        }
    }

    fn lets_in(&self, _: Wants, call: &Call) -> bool {
        kube::has_token(call)
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        let path = view.head.uri.path();
        match (wants, view.taken) {
            // An annotation can be written whatever the power.
            (Wants::Switch(_), Taken::Done | Taken::Already) => {
                let mut host = host(0, view);
                let value = patched(view.body).unwrap_or_default();
                host["metadata"]["annotations"] = match value.is_null() {
                    true => json!({}),
                    false => json!({HELD: value}),
                };
                kube::json(&host)
            }
            (Wants::Switch(_), _) => self.error(422, "the annotation is refused"),
            (Wants::State, _) => match number(path).filter(|it| *it <= self.others) {
                Some(number) => kube::json(&host(number, view)),
                None => kube::absent("metal3.io", "baremetalhosts", "other"),
            },
            (Wants::Login | Wants::Other, _) => match path {
                REVIEWS => kube::allowed(),
                EVENTS => {
                    let is_there = !view.is_on && view.beside != Beside::OldReport;
                    kube::list("EventList", is_there.then(event).into_iter(), view)
                }
                _ => {
                    let hosts = (0..=self.others).map(|it| host(it, view));
                    kube::list("BareMetalHostList", hosts, view)
                }
            },
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        kube::error(status, words)
    }
}

fn uid(number: usize) -> String {
    format!("0a1b2c3d-0000-4000-8000-{number:012x}")
}

fn host(number: usize, view: &View<'_>) -> Value {
    let is_on = view.is_on || number > 0;
    let annotations = match is_on {
        true => json!({}),
        false => json!({HELD: "{\"mode\":\"hard\",\"after\":\"90\"}"}),
    };
    let (operational, manageable) = match view.beside {
        Beside::AtWork => ("servicing", "True"),
        Beside::CutOff => ("OK", "False"),
        _ => ("OK", "True"),
    };
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {
            "name": format!("host-{number}"), "namespace": "racks", "uid": uid(number), "resourceVersion": "95", "annotations": annotations,
        },
        "spec": {
            "online": true, "bootMACAddress": "00:5c:52:31:3a:9c",
            "bmc": {"address": "redfish://192.0.2.7/redfish/v1/Systems/1", "credentialsName": "bmc"},
            "consumerRef": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine", "name": format!("machine-{number}"),
                "namespace": "racks",
            },
        },
        "status": {
            "poweredOn": is_on, "operationalStatus": operational, "errorMessage": "", "errorCount": 0, "lastUpdated": "2026-11-29T01:00:00Z",
            "provisioning": {"state": "provisioned", "ID": "node", "image": {"url": ""}},
            "hardware": {
                "hostname": "localhost.localdomain", "ramMebibytes": 262_144,
                "systemVendor": {"manufacturer": "Dell Inc.", "productName": "PowerEdge R650", "serialNumber": "S1"},
                "nics": [{"name": "eth0", "mac": "00:5c:52:31:3a:9c", "ip": "192.0.2.17"}],
            },
            "conditions": [{"type": "Manageable", "status": manageable, "reason": "Manageable"}],
        },
    })
}

fn event() -> Value {
    json!({
        "metadata": {"name": "PowerOff-x7k2p", "namespace": "racks", "uid": "event-1", "resourceVersion": "97"},
        "involvedObject": {
            "kind": "BareMetalHost", "namespace": "racks", "name": "host-0", "uid": uid(0), "apiVersion": "metal3.io/v1alpha1",
        },
        "reason": "PowerOff", "message": "Host powered off", "source": {"component": "metal3-baremetal-controller"}, "count": 1,
        "type": "Normal", "reportingComponent": "metal3.io/baremetal-controller",
    })
}
