//! What an agent is given on its standard input: the user's parameters, judged, and what is always the same.
//!
//! The library that all agents share reads lines of `name=value`. It takes white space off the end of a line and a pair of double quotes off a
//! value, without a word: a value that it would change is refused here, before an account is locked by it.

use super::reviewed::{ALWAYS, Absent, Agent, Holds, IP, PLUG, PORT};
use crate::DeviceError;
use crate::credentials::Credentials;
use fencing_api::fence_agent::{FenceAgentDriver, FenceAgentParameter, SECRET_KEYS};
use std::net::IpAddr;
use std::sync::LazyLock;
use zeroize::Zeroizing;

/// The field, for messages.
const FIELD: &str = "fenceAgent.parameters";

/// What an agent is asked to do. There is no other: an agent that is asked for nothing reboots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Read the power.
    Status,
    /// Turn it off.
    Off,
    /// Turn it on.
    On,
}

impl Action {
    /// As the agent has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Off => "off",
            Self::On => "on",
        }
    }
}

/// The parameters of one device, in the agent's own order. Wiped from memory when dropped, and not shown: a password may be among them.
pub struct Given {
    lines: Vec<(&'static str, Zeroizing<String>)>,
}

impl Given {
    /// Judges what the user has set.
    ///
    /// # Errors
    /// [`DeviceError::Settings`] names the parameter, [`DeviceError::Credentials`] the key.
    pub fn new(
        driver: &FenceAgentDriver,
        agent: &'static Agent,
        credentials: &Credentials,
    ) -> Result<Self, DeviceError> {
        let known =
            |set: &&FenceAgentParameter| agent.parameters.iter().any(|it| it.name == set.name);
        if let Some(unknown) = driver.parameters.iter().find(|set| !known(set)) {
            let names: Vec<&str> = agent.parameters.iter().map(|it| it.name).collect();
            return Err(unusable(format!(
                "`{}` of {} is not taken; only these are: {}",
                unknown.name.escape_debug(),
                agent.name,
                names.join(", ")
            )));
        }
        let is_set = |name: &str| driver.parameters.iter().any(|set| set.name == name);
        // Without one, agents take a community that everybody knows.
        if written(driver, "snmp_version") == Some("2c") && !is_set("community") {
            return Err(unusable(format!(
                "{} needs `community`; set it",
                agent.name
            )));
        }
        let mut lines = Vec::new();
        for parameter in agent.parameters {
            let set = driver
                .parameters
                .iter()
                .find(|set| set.name == parameter.name);
            let value = match (set, parameter.absent) {
                (Some(set), _) => value_of(set, parameter.holds, credentials)?,
                (None, Absent::Fine) => continue,
                (None, Absent::Is(value)) => Zeroizing::new(value.to_owned()),
                (None, Absent::Refused) => {
                    return Err(unusable(format!(
                        "{} needs `{}`; set it",
                        agent.name, parameter.name
                    )));
                }
            };
            // It is looked up, and judged, each time.
            if parameter.holds != Holds::Address {
                lines.push((parameter.name, value));
            }
        }
        let fixed = agent.fixed.iter().chain(&ALWAYS);
        lines.extend(fixed.map(|(name, value)| (*name, Zeroizing::new((*value).to_owned()))));
        Ok(Self { lines })
    }

    /// What the agent reads. The action is never left out, and comes last, so that no line before it is another one.
    pub fn input(&self, action: Action, address: IpAddr) -> Zeroizing<String> {
        let mut text = Zeroizing::new(format!("{IP}={address}\n"));
        // It does not grow afterwards, which would leave a copy behind.
        text.reserve_exact(
            self.lines
                .iter()
                .map(|(name, value)| name.len() + value.len() + 2)
                .sum::<usize>()
                + 32,
        );
        for (name, value) in &self.lines {
            for part in [name, "=", value.as_str(), "\n"] {
                text.push_str(part);
            }
        }
        for part in ["action=", action.word(), "\n"] {
            text.push_str(part);
        }
        text
    }
}

/// The value of a parameter in the settings, if it stands there and not in the Secret.
pub fn written<'a>(driver: &'a FenceAgentDriver, name: &str) -> Option<&'a str> {
    let set = driver.parameters.iter().find(|set| set.name == name);
    set?.value.as_deref()
}

/// The outlet, if the device has several.
pub fn plug(driver: &FenceAgentDriver) -> Option<&str> {
    written(driver, PLUG)
}

/// The port, or what the agent takes.
pub fn port(driver: &FenceAgentDriver, usual: u16) -> u16 {
    let set = written(driver, PORT);
    set.and_then(|port| port.parse().ok()).unwrap_or(usual)
}

/// Each set of keys that a Secret may be asked for, so that what is asked lives as long as the process.
static KEYS: LazyLock<Vec<Vec<&'static str>>> = LazyLock::new(|| {
    let all = 0..1_usize << SECRET_KEYS.len();
    let of = |set: usize| {
        let keys = SECRET_KEYS.iter().enumerate();
        keys.filter(|(at, _)| (set >> at) & 1 == 1)
            .map(|(_, key)| *key)
            .collect()
    };
    all.map(of).collect()
});

/// The keys that these parameters name.
pub fn keys(driver: &FenceAgentDriver) -> &'static [&'static str] {
    let named = |key: &&str| {
        driver
            .parameters
            .iter()
            .any(|set| set.secret_key.as_deref() == Some(*key))
    };
    let bits = SECRET_KEYS.iter().enumerate().filter(|(_, key)| named(key));
    let set: usize = bits.map(|(at, _)| 1 << at).sum();
    KEYS.get(set).map_or(&[], Vec::as_slice)
}

fn value_of(
    set: &FenceAgentParameter,
    holds: Holds,
    credentials: &Credentials,
) -> Result<Zeroizing<String>, DeviceError> {
    let name = &set.name;
    match (&set.value, &set.secret_key) {
        (Some(_), None) if holds == Holds::Secret => Err(unusable(format!(
            "`{name}` is a secret, and everyone who reads a FenceDevice reads its `value`; set its `secretKey`"
        ))),
        (Some(value), None) => match problem(value, holds) {
            None => Ok(Zeroizing::new(value.clone())),
            Some(problem) => Err(unusable(format!("`{name}` {problem}"))),
        },
        (None, Some(key)) if matches!(holds, Holds::Text | Holds::Secret) => {
            let Some(key) = SECRET_KEYS.into_iter().find(|it| it == key) else {
                return Err(unusable(format!(
                    "`secretKey` of `{name}` must be one of {}",
                    SECRET_KEYS.join(", ")
                )));
            };
            // A writer of FenceDevices has no password sent where everyone on the way reads it.
            let own = match name.as_str() {
                "snmp_priv_passwd" => "privPassword",
                name => name,
            };
            if key != own {
                return Err(unusable(format!("`secretKey` of `{name}` must be {own}")));
            }
            let value = credentials.value(key);
            match problem(value, holds) {
                None => Ok(Zeroizing::new(value.to_owned())),
                Some(problem) => Err(credentials.refuse(key, &format!("it {problem}")).into()),
            }
        }
        (None, Some(_)) => Err(unusable(format!("`{name}` is no secret; set its `value`"))),
        _ => Err(unusable(format!(
            "`{name}` must have exactly one of `value`, `secretKey`"
        ))),
    }
}

/// Why this cannot be given to an agent. Holds nothing of the value, which may be a password.
fn problem(value: &str, holds: Holds) -> Option<String> {
    let is_number = |range: std::ops::RangeInclusive<u32>| {
        let digits = value.bytes().all(|it| it.is_ascii_digit());
        digits
            && !value.starts_with('0')
            && value.parse().is_ok_and(|number| range.contains(&number))
    };
    let (is_fine, rule) = match holds {
        // What stands there is judged where it is resolved.
        Holds::Address => (true, String::new()),
        Holds::Port => (
            is_number(1..=65_535),
            "must be a number from 1 to 65535".to_owned(),
        ),
        Holds::Plug => (
            is_number(1..=65_535),
            "must be the number of one outlet; create a FenceDevice for each other".to_owned(),
        ),
        Holds::OneOf(words) => (
            words.contains(&value),
            format!("must be one of {}", words.join(", ")),
        ),
        Holds::Text | Holds::Secret => {
            let is_quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
            let is_cut = value.ends_with(char::is_whitespace) || is_quoted;
            let is_fine = !value.is_empty() && !value.contains(char::is_control) && !is_cut;
            (
                is_fine,
                "must be one line without white space at its end or quotes around it, which agents remove".to_owned(),
            )
        }
    };
    (!is_fine).then_some(rule)
}

fn unusable(problem: String) -> DeviceError {
    DeviceError::Settings {
        field: FIELD,
        problem,
    }
}

#[cfg(test)]
mod tests;
