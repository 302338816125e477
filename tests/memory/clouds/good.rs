//! What clouds answer when all is well, but for the one request that is attacked.

use super::{ADDRESS, AZURE, UUID};
use crate::bmc::{Act, Request, reply, reply_with};
use serde_json::{Value, json};

/// What a request is answered with when all is well; none: it is the one that is attacked.
pub fn good(name: &str, request: &Request) -> Option<Act> {
    let path = request.path.as_str();
    let said = match name {
        "azure" => azure(path)?,
        "gcp" if path.contains("/token") => {
            let head = "Content-Type: application/json\r\nMetadata-Flavor: Google\r\n";
            let token = token().to_string();
            return Some(Act::Send(reply_with("200 OK", head, &token)));
        }
        "gcp" => gcp(path)?,
        "hetzner" => hetzner(path)?,
        "nutanix" if path.contains("$page=") => return None,
        "nutanix" => json!({"data": {"extId": UUID, "name": "n", "powerState": "ON"}}),
        "proxmox" if path.contains("/cluster/resources") => return None,
        "proxmox" => json!({"data": []}),
        "openstack" if path.contains("/auth/tokens") => return Some(login(request)),
        "openstack" if path.contains("/servers/detail") => return None,
        "openstack" => {
            json!({"server": {"id": UUID, "status": "ACTIVE", "OS-EXT-STS:vm_state": "active"}})
        }
        "kubevirt" if path.contains("/virtualmachineinstances/") => return Some(absent()),
        "kubevirt" if path.contains("/pods") => return None,
        "kubevirt" => json!({
            "kind": "VirtualMachine", "metadata": {"name": "n"},
            "spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {}}}},
            "status": {"printableStatus": "Stopped"},
        }),
        "aws" => return None,
        _ => xapi(&request.body)?,
    };
    Some(Act::Send(reply("200 OK", &said.to_string())))
}

fn token() -> Value {
    json!({"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"})
}

fn azure(path: &str) -> Option<Value> {
    let statuses = [
        json!({"code": "PowerState/running"}),
        json!({"code": "ProvisioningState/succeeded"}),
    ];
    Some(match path {
        _ if path.contains("/oauth2/") => token(),
        _ if path.to_lowercase().contains("/permissions") => {
            json!({"value": [{"actions": ["*"]}]})
        }
        _ if path.contains("/n?") => {
            json!({"id": AZURE, "properties": {"vmId": UUID, "instanceView": {"statuses": statuses}}})
        }
        _ => return None,
    })
}

fn gcp(path: &str) -> Option<Value> {
    Some(match path {
        _ if path.contains("testIam") => json!({"permissions": ["compute.instances.stop"]}),
        _ if path.contains("maxResults") => return None,
        _ => json!({
            "id": "4711", "name": "n", "status": "RUNNING", "networkInterfaces": [{"networkIP": ADDRESS}],
        }),
    })
}

fn hetzner(path: &str) -> Option<Value> {
    let server = json!({
        "id": 4711, "name": "n", "status": "running", "locked": false, "rescue_enabled": false,
        "public_net": {}, "private_net": [{"ip": ADDRESS}], "server_type": {"name": "cpx31"},
    });
    (!path.contains("per_page")).then(|| json!({"server": server}))
}

/// A token of Keystone, whose catalog leads back here.
fn login(request: &Request) -> Act {
    let host = request
        .head
        .lines()
        .find_map(|it| it.strip_prefix("host: "));
    let url = format!("http://{}/v2.1", host.unwrap_or_default().trim());
    let endpoint = json!({"interface": "public", "region": "r", "region_id": "r", "url": url});
    let token = json!({"token": {
        "expires_at": "2999-01-01T00:00:00.000000Z", "issued_at": "2026-01-01T00:00:00.000000Z",
        "catalog": [{"type": "compute", "name": "nova", "endpoints": [endpoint]}],
    }});
    let head = "Content-Type: application/json\r\nX-Subject-Token: a-token\r\n";
    Act::Send(reply_with("201 Created", head, &token.to_string()))
}

fn absent() -> Act {
    let details = json!({"name": "n", "group": "kubevirt.io", "kind": "virtualmachineinstances"});
    let absent = json!({"kind": "Status", "reason": "NotFound", "details": details});
    Act::Send(reply("404 Not Found", &absent.to_string()))
}

fn xapi(body: &str) -> Option<Value> {
    let result = match body {
        _ if body.contains("session.login") => json!("OpaqueRef:session"),
        _ if body.contains("task.get_record") => return None,
        _ if body.contains("hard_shutdown") => json!("OpaqueRef:task"),
        _ => json!({"OpaqueRef:vm": {
            "uuid": UUID, "name_label": "n", "metrics": "OpaqueRef:m", "power_state": "Running",
            "resident_on": "OpaqueRef:h", "scheduled_to_be_resident_on": "OpaqueRef:NULL",
            "current_operations": {}, "is_a_template": false, "is_a_snapshot": false,
            "is_control_domain": false, "ha_restart_priority": "", "other_config": {},
        }}),
    };
    Some(json!({"jsonrpc": "2.0", "id": 1, "result": result}))
}
