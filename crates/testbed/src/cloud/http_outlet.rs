//! A smart plug with one machine on it, as four kinds of plugs answer by their public documentation (docs/how-to/http-outlet.md says which).
//!
//! What is beside an Off: a timer, or a state that is only assumed, is `AtWork`; power that flows all the same is `OldReport`; a meter that
//! cannot be read is `CutOff`.

use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants};
use crate::{bmc::Answer, https::Call};

/// The token of Home Assistant.
pub const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.outlet.s3cret";
/// User and password of ESPHome, as they are sent: `fence` and `outlet-s3cret`.
pub const BASIC: &str = "Basic ZmVuY2U6b3V0bGV0LXMzY3JldA==";
/// Watts that a machine takes.
const WATTS: f64 = 62.4;

/// Whose API it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Api {
    /// Shelly of the second generation or later: RPC over HTTP.
    Shelly,
    /// Tasmota: commands by a web request.
    Tasmota,
    /// ESPHome: the REST API of its component `web_server`.
    EspHome,
    /// Home Assistant: its REST API.
    #[default]
    HomeAssistant,
}

/// The plug.
#[derive(Debug, Clone, Copy, Default)]
pub struct HttpOutlet {
    /// Whose API.
    pub api: Api,
}

impl Page for HttpOutlet {
    const STATE: [&'static str; 2] = ["\"state\":\"on\"", "\"state\":\"off\""];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let target = call.head.uri.path_and_query()?.as_str();
        let (get, post) = (call.head.method == "GET", call.head.method == "POST");
        match self.api {
            Api::Shelly if get => match target {
                "/rpc/Shelly.GetStatus" => Some(Wants::State),
                "/rpc/Switch.Set?id=0&on=false" => Some(Wants::Switch(false)),
                "/rpc/Switch.Set?id=0&on=true" => Some(Wants::Switch(true)),
                _ => None,
            },
            Api::Tasmota if get => match target {
                "/cm?cmnd=Status%200" => Some(Wants::State),
                "/cm?cmnd=Power1%20OFF" => Some(Wants::Switch(false)),
                "/cm?cmnd=Power1%20ON" => Some(Wants::Switch(true)),
                _ => None,
            },
            Api::EspHome => match target {
                "/switch/Relay?detail=all" if get => Some(Wants::State),
                "/sensor/Relay%20Power" if get => Some(Wants::Other),
                "/switch/Relay/turn_off" if post => Some(Wants::Switch(false)),
                "/switch/Relay/turn_on" if post => Some(Wants::Switch(true)),
                _ => None,
            },
            Api::HomeAssistant => match target {
                "/api/states/switch.worker_3" if get => Some(Wants::State),
                "/api/states/sensor.worker_3_power" if get => Some(Wants::Other),
                "/api/services/switch/turn_off" if is_for_switch(post, call) => {
                    Some(Wants::Switch(false))
                }
                "/api/services/switch/turn_on" if is_for_switch(post, call) => {
                    Some(Wants::Switch(true))
                }
                _ => None,
            },
            Api::Shelly | Api::Tasmota => None,
        }
    }

    fn lets_in(&self, _: Wants, call: &Call) -> bool {
        let header = call.head.headers.get(AUTHORIZATION);
        let is = |value: &str| header.is_some_and(|it| it.as_bytes() == value.as_bytes());
        match self.api {
            // Whoever reaches it.
            Api::Shelly | Api::Tasmota => true,
            Api::EspHome => is(BASIC),
            Api::HomeAssistant => is(&format!("Bearer {TOKEN}")),
        }
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        match (wants, view.taken) {
            // A command to what is so already is taken, too.
            (Wants::Switch(on), Taken::Done | Taken::Already) => self.switched(on),
            (Wants::Switch(_), _) => self.error(404, "no such outlet"),
            _ => match self.api {
                Api::Shelly => json(&shelly(view)),
                Api::Tasmota => json(&tasmota(view)),
                Api::EspHome => json(&esphome(wants, view)),
                Api::HomeAssistant => json(&home_assistant(wants, view)),
            },
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        Answer::text(
            status,
            json!({"code": status, "message": words}).to_string(),
        )
    }
}

impl HttpOutlet {
    fn switched(self, on: bool) -> Answer {
        match self.api {
            Api::Shelly => json(&json!({"was_on": !on})),
            Api::Tasmota => json(&json!({"POWER1": if on { "ON" } else { "OFF" }})),
            Api::EspHome => Answer::text(200, String::new()),
            Api::HomeAssistant => json(&json!([])),
        }
    }
}

fn is_for_switch(is_post: bool, call: &Call) -> bool {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    is_post && body["entity_id"] == "switch.worker_3"
}

fn json(value: &Value) -> Answer {
    Answer::text(200, value.to_string())
}

/// What the meter reads; none: it cannot be read.
fn watts(view: &View<'_>) -> Option<f64> {
    match (view.is_on, view.beside) {
        (_, Beside::CutOff) => None,
        (true, _) | (false, Beside::OldReport) => Some(WATTS),
        (false, _) => Some(0.0),
    }
}

/// `Shelly.GetStatus`: the status of all components. A running timer has its own fields in that of the switch.
fn shelly(view: &View<'_>) -> Value {
    let mut switch = json!({
        "id": 0, "source": "HTTP_in", "output": view.is_on, "voltage": 230.6, "current": 0.271, "freq": 50.0, "pf": 0.98,
        "aenergy": {"total": 4711.3, "by_minute": [0.0, 0.0, 0.0], "minute_ts": 1_764_374_400},
        "temperature": {"tC": 31.4, "tF": 88.5},
    });
    if let Some(watts) = watts(view) {
        switch["apower"] = json!(watts);
    }
    if view.beside == Beside::AtWork {
        switch["timer_started_at"] = json!(1_764_374_400.5);
        switch["timer_duration"] = json!(60.0);
    }
    json!({
        "ble": {}, "cloud": {"connected": false}, "input:0": {"id": 0, "state": false}, "mqtt": {"connected": false}, "switch:0": switch,
        "sys": {"mac": "A8032ABE54DC", "restart_required": false, "time": "00:00", "unixtime": 1_764_374_400, "uptime": 4711},
        "wifi": {"sta_ip": "10.20.3.11", "status": "got ip", "ssid": "lab", "rssi": -55}, "ws": {"connected": false},
    })
}

/// `Status 0`: all status information, of which the state is in `StatusSTS` and the meter in `StatusSNS`; with `SetOption26 1`, by which a single
/// relay has its number, too.
fn tasmota(view: &View<'_>) -> Value {
    let mut sensors = json!({"Time": "2026-11-29T01:00:00"});
    if let Some(watts) = watts(view) {
        sensors["ENERGY"] =
            json!({"Total": 263.033, "Power": watts, "Voltage": 235, "Current": 0.202});
    }
    json!({
        "Status": {"Module": 43, "FriendlyName": ["worker-3"], "Topic": "worker-3", "Power": "1", "PowerOnState": 0},
        "StatusFWR": {"Version": "15.0.1(release-tasmota)"},
        "StatusNET": {"Hostname": "worker-3", "IPAddress": "10.20.3.12", "Mac": "2C:3A:E8:01:02:03", "HTTP_API": 1},
        "StatusSNS": sensors,
        "StatusSTS": {"Time": "2026-11-29T01:00:00", "UptimeSec": 4711, "POWER1": if view.is_on { "ON" } else { "OFF" }},
    })
}

/// A switch in full detail, or a sensor.
fn esphome(wants: Wants, view: &View<'_>) -> Value {
    let state = if view.is_on { "ON" } else { "OFF" };
    match (wants, watts(view)) {
        (Wants::Other, Some(watts)) => {
            json!({"id": "sensor-relay_power", "state": format!("{watts} W"), "value": watts})
        }
        (Wants::Other, None) => json!({"id": "sensor-relay_power", "state": "NA", "value": "NA"}),
        _ => json!({
            "id": "switch-relay", "state": state, "value": view.is_on, "assumed_state": view.beside == Beside::AtWork,
        }),
    }
}

/// The state of an entity: the switch, or its meter.
fn home_assistant(wants: Wants, view: &View<'_>) -> Value {
    let mut attributes = json!({"friendly_name": "worker-3"});
    let (id, state) = match wants {
        Wants::Other => {
            let watts = watts(view).map(|watts| watts.to_string());
            let state = watts.unwrap_or_else(|| "unavailable".to_owned());
            ("sensor.worker_3_power", state)
        }
        _ => {
            if view.beside == Beside::AtWork {
                attributes["assumed_state"] = json!(true);
            }
            let state = if view.is_on { "on" } else { "off" };
            ("switch.worker_3", state.to_owned())
        }
    };
    json!({
        "entity_id": id, "state": state, "attributes": attributes, "last_changed": "2026-11-29T01:00:00.000000+00:00",
        "last_reported": "2026-11-29T01:00:00.000000+00:00", "last_updated": "2026-11-29T01:00:00.000000+00:00",
    })
}
