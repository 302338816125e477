//! A cloud of Azure with one machine, and others beside it that run, as Azure Resource Manager and Entra ID answer at one address.

use http::{
    HeaderName,
    header::{AUTHORIZATION, CONTENT_LENGTH, LOCATION},
};
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants, uuid_of};
use crate::{bmc::Answer, https::Call};

/// The subscription.
pub const SUBSCRIPTION: &str = "b1e5d1a0-7c1f-4a51-9f3a-2d1f0c0ffee0";
/// The resource group.
pub const GROUP: &str = "mc_prod";
/// The scale set of a machine that is in one, and its number there.
pub const INSTANCE: [&str; 2] = ["aks-pool-vmss", "7"];
/// The name of a machine that is in none.
pub const NAME: &str = "node-1";
/// Tenant, ID and secret of an app registration.
pub const APP: [&str; 3] = [
    "contoso.example.com",
    "0c0ffee0-0000-4000-8000-000000000001",
    "s3cretvalue",
];
/// The token that it gets.
pub const TOKEN: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.e30.sig";

/// Names of the operations that the commands become.
const STOP: &str = "0a1b2c3d-0000-4000-8000-000000000013";
const START: &str = "0a1b2c3d-0000-4000-8000-000000000014";
/// Behind the tenant, where tokens are given.
const LOGIN: &str = "/oauth2/v2.0/token";
/// Behind a machine, where the rights to it are told.
const RIGHTS: &str = "/providers/microsoft.authorization/permissions";
/// Machines on one page of a list.
const PAGE: usize = 50;

/// The cloud.
#[derive(Debug, Clone, Copy, Default)]
pub struct Azure {
    /// Machines that run beside it.
    pub others: usize,
    /// The machine is an instance of a scale set.
    pub is_instance: bool,
}

impl Azure {
    /// The provider ID of its Node.
    pub fn provider_id(self) -> String {
        format!("azure://{}", self.id(0))
    }

    /// The list that has all machines.
    fn list(self) -> String {
        let provider = "providers/Microsoft.Compute";
        let [set, _] = INSTANCE;
        match self.is_instance {
            true => format!(
                "/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/{provider}/virtualMachineScaleSets/{set}/virtualMachines"
            ),
            false => format!("/subscriptions/{SUBSCRIPTION}/{provider}/virtualMachines"),
        }
    }

    /// The ID of the machine, or of one beside it, from 1 on.
    fn id(self, number: usize) -> String {
        if self.is_instance {
            let [_, own] = INSTANCE;
            let number = match number {
                0 => own.to_owned(),
                other => (other + 100).to_string(),
            };
            return format!("{}/{number}", self.list());
        }
        let name = match number {
            0 => NAME.to_owned(),
            other => format!("other-{other}"),
        };
        format!(
            "/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachines/{name}"
        )
    }

    /// Which machine is this path about, and what is behind its ID?
    fn machine_of(self, path: &str) -> Option<(usize, String)> {
        let path = path.to_lowercase();
        (0..=self.others).find_map(|number| {
            let rest = path.strip_prefix(&self.id(number).to_lowercase())?;
            let is_it = rest.is_empty() || rest.starts_with('/');
            is_it.then(|| (number, rest.to_owned()))
        })
    }
}

/// The value of a query's field.
fn field<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    let mut all = query?.split('&').filter_map(|it| it.split_once('='));
    all.find_map(|(key, value)| (key == name || key == name.replace('$', "%24")).then_some(value))
}

fn operations() -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/westeurope/operations/"
    )
}

impl Page for Azure {
    const STATE: [&'static str; 2] = [
        "\"code\":\"PowerState/running\"",
        "\"code\":\"PowerState/stopped\"",
    ];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let (uri, headers) = (&call.head.uri, &call.head.headers);
        let (path, query) = (uri.path(), uri.query());
        if path.ends_with(LOGIN) {
            return Some(Wants::Login);
        }
        field(query, "api-version")?;
        let found = self.machine_of(path);
        let rest = found
            .as_ref()
            .map(|(number, rest)| (*number, rest.as_str()));
        // The real one answers 411 to a command without a length.
        let is_command = call.head.method == "POST" && headers.contains_key(CONTENT_LENGTH);
        match rest {
            Some((_, "")) if call.head.method == "GET" => Some(Wants::State),
            Some((0, "/poweroff")) if is_command => {
                let is_hard = field(query, "skipShutdown")?.eq_ignore_ascii_case("true");
                is_hard.then_some(Wants::Switch(false))
            }
            Some((0, "/start")) if is_command => Some(Wants::Switch(true)),
            Some((0, RIGHTS)) => Some(Wants::Other),
            Some(_) => None,
            None if path.eq_ignore_ascii_case(&self.list()) || path.starts_with(&operations()) => {
                Some(Wants::Other)
            }
            None => None,
        }
    }

    fn lets_in(&self, wants: Wants, call: &Call) -> bool {
        if wants == Wants::Login {
            let form = std::str::from_utf8(&call.body).ok();
            return call.head.uri.path() == format!("/{}{LOGIN}", APP[0])
                && field(form, "client_id") == Some(APP[1])
                && field(form, "client_secret") == Some(APP[2])
                && field(form, "grant_type") == Some("client_credentials");
        }
        let given = call.head.headers.get(AUTHORIZATION);
        given.is_some_and(|it| it.as_bytes() == format!("Bearer {TOKEN}").as_bytes())
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        let path = view.head.uri.path();
        match (wants, view.taken) {
            (Wants::Login, _) => json(&json!({
                "token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": TOKEN,
            })),
            // As one says that is deallocated; one that is stopped takes it.
            (Wants::Switch(false), Taken::Already) => {
                let words = format!(
                    "Operation 'powerOff' is not allowed on VM '{NAME}' since the VM is either deallocated or marked to be deallocated."
                );
                error(409, "OperationNotAllowed", &words)
            }
            (Wants::Switch(on), Taken::Done | Taken::Already) => taken(on, view.url),
            (Wants::Switch(_), _) => error(
                409,
                "OperationNotAllowed",
                "the VM is marked for deletion; it can only be deleted",
            ),
            (Wants::State, _) => match self.machine_of(path) {
                Some((number, _)) => json(&self.machine(number, view)),
                None => error(404, "ResourceNotFound", "the resource was not found"),
            },
            (Wants::Other, _) => match path.strip_prefix(&operations()) {
                Some(name) => operation(name, view.head.uri.query()),
                None if path.to_lowercase().ends_with(RIGHTS) => json(
                    &json!({"value": [{"actions": ["Microsoft.Compute/*"], "notActions": []}]}),
                ),
                None => json(&self.page(view)),
            },
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        let code = match status {
            401 => "InvalidAuthenticationToken",
            403 => "AuthorizationFailed",
            404 => "ResourceNotFound",
            _ => "InternalServerError",
        };
        error(status, code, words)
    }

    /// Entra ID writes its errors as OAuth 2.0 has them.
    fn refused(&self, wants: Wants) -> Answer {
        let words = "AADSTS7000215: Invalid client secret provided.";
        let body = json!({"error": "invalid_client", "error_description": words});
        match wants {
            Wants::Login => Answer::text(401, body.to_string()),
            _ => self.error(401, "the access token is invalid"),
        }
    }
}

fn json(value: &Value) -> Answer {
    Answer::text(200, value.to_string())
}

fn error(status: u16, code: &str, words: &str) -> Answer {
    let body = json!({"error": {"code": code, "message": words}});
    Answer::text(status, body.to_string())
}

/// A command that was taken, and where its operation is.
fn taken(on: bool, url: &str) -> Answer {
    let name = if on { START } else { STOP };
    let link = format!(
        "{url}{}{name}?p=a1b2&api-version=2024-07-01&t=639&c=MIIH",
        operations()
    );
    Answer::text(202, "")
        .with(
            HeaderName::from_static("azure-asyncoperation"),
            link.clone(),
        )
        .with(LOCATION, format!("{link}&monitor=true"))
}

/// An operation that has ended; whoever follows `Location` gets no more than a status.
fn operation(name: &str, query: Option<&str>) -> Answer {
    let time = "2026-11-29T01:00:00.0000000+00:00";
    match (name, field(query, "monitor")) {
        (STOP | START, Some(_)) => Answer::text(200, ""),
        (STOP | START, None) => {
            json(&json!({"name": name, "status": "Succeeded", "startTime": time, "endTime": time}))
        }
        _ => error(404, "NotFound", "there is no such operation"),
    }
}

impl Azure {
    /// The document of the machine, or of one that runs.
    fn machine(self, number: usize, view: &View<'_>) -> Value {
        let is_on = view.is_on || number > 0;
        let beside = if number > 0 {
            Beside::Nothing
        } else {
            view.beside
        };
        let provisioning = match beside {
            Beside::AtWork => "ProvisioningState/updating",
            _ => "ProvisioningState/succeeded",
        };
        let status =
            |code: &str| json!({"code": code, "displayStatus": "in words", "level": "Info"});
        let mut statuses = vec![status(provisioning)];
        match (is_on, beside) {
            (true, _) => statuses.push(status("PowerState/running")),
            (false, Beside::Memory) => {
                statuses.push(status("PowerState/deallocated"));
                statuses.push(status("HibernationState/Hibernated"));
            }
            (false, _) => statuses.push(status("PowerState/stopped")),
        }
        let uuid = match number {
            0 => view.uuid.to_owned(),
            other => uuid_of(other),
        };
        let id = self.id(number);
        let name = id.rsplit('/').next().unwrap_or_default().to_owned();
        let mut document = json!({
            "id": id, "name": name, "location": "westeurope", "zones": ["1"],
            "type": "Microsoft.Compute/virtualMachines", "tags": {"role": "worker"},
            "properties": {
                "vmId": uuid, "provisioningState": "Succeeded", "timeCreated": "2026-01-30T23:50:00.0000000+00:00",
                "hardwareProfile": {"vmSize": "Standard_D4s_v5"},
                "storageProfile": {"osDisk": {"osType": "Linux", "name": "os", "createOption": "FromImage", "caching": "ReadOnly"}, "dataDisks": []},
                "osProfile": {"computerName": view.name, "adminUsername": "azureuser", "secrets": []},
                "networkProfile": {"networkInterfaces": []},
                "instanceView": {
                    "vmAgent": {"vmAgentVersion": "2.11.1.4", "statuses": [{
                        "code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Ready", "time": "2026-11-29T01:00:00+00:00",
                    }]},
                    "disks": [], "hyperVGeneration": "V2", "statuses": statuses,
                },
            },
        });
        if self.is_instance {
            document["instanceId"] = json!(name);
            document["sku"] = json!({"name": "Standard_D4s_v5", "tier": "Standard"});
            document["type"] = json!("Microsoft.Compute/virtualMachineScaleSets/virtualMachines");
        }
        document
    }

    /// A page of the list, with the address of the next one.
    fn page(self, view: &View<'_>) -> Value {
        let query = view.head.uri.query();
        let page = field(query, "$skiptoken").and_then(|it| it.parse::<usize>().ok());
        let first = page.unwrap_or_default() * PAGE;
        let machines = (first..=self.others).take(PAGE);
        let machines: Vec<Value> = machines.map(|number| self.machine(number, view)).collect();
        let next = first + PAGE;
        let next = (next <= self.others).then(|| {
            let fields = query.unwrap_or_default().split('&');
            let fields = fields.filter(|it| !it.contains("skiptoken="));
            let (url, list) = (view.url, self.list());
            let fields = fields.collect::<Vec<_>>().join("&");
            format!("{url}{list}?{fields}&$skiptoken={}", next / PAGE)
        });
        json!({"value": machines, "nextLink": next})
    }
}
