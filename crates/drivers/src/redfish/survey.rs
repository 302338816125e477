//! What a Redfish service says of itself and of all its systems, for whoever writes the FenceDevices: it reads, and sends no command.
//!
//! A driver knows its one system. Here nobody knows yet which systems there are: the service is asked without a login whether it is one, and
//! with a login, on another day or on a human's word, for the systems that it manages.

use super::parse::{self, ROOT, System, word};
use super::{SYSTEMS, status};
use crate::DeviceError;
use crate::clock::Clock;
use crate::error::CHECK_ADDRESS;
use crate::http::{Client, Target};
use crate::limit::Limit;
use http::StatusCode;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Systems of one service that are read: a chassis has fewer.
const SYSTEMS_MAX: usize = 64;

/// What a service tells everybody of itself (DSP0266, service root).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `RedfishVersion`.
    pub version: String,
    /// `Vendor`.
    pub vendor: Option<String>,
    /// `Product`.
    pub product: Option<String>,
}

/// Questions to one service, one at a time.
#[derive(Debug)]
pub struct Survey {
    target: Arc<Target>,
    http: Client,
    time: Duration,
}

impl Survey {
    /// Nothing is sent yet. Each question, with all requests that it takes, has this time.
    #[must_use]
    pub fn new(target: Target, time: Duration, clock: Clock) -> Self {
        let target = Arc::new(target);
        let http = Client::new(Arc::clone(&target), clock);
        Self { target, http, time }
    }

    /// Is it a Redfish service, and which?
    ///
    /// # Errors
    /// [`DeviceError`]; another service that answers is a [`DeviceError::Protocol`].
    pub async fn service(&mut self) -> Result<Service, DeviceError> {
        let limit = self.limit();
        let root = limit.on(self.get(ROOT)).await?;
        service(&root).map_err(|problem| self.protocol(&problem))
    }

    /// The path of each of its systems, and what it says of it.
    ///
    /// # Errors
    /// [`DeviceError`], the first that stands in the way.
    pub async fn systems(&mut self) -> Result<Vec<(String, System)>, DeviceError> {
        let limit = self.limit();
        limit.on(self.read_systems()).await
    }

    async fn read_systems(&mut self) -> Result<Vec<(String, System)>, DeviceError> {
        let collection = self.get(SYSTEMS).await?;
        let paths = parse::members(&collection).map_err(|problem| self.protocol(&problem))?;
        if paths.len() > SYSTEMS_MAX {
            let problem = format!(
                "it has {} systems, and {SYSTEMS_MAX} are read at most; write their FenceDevices from a table",
                paths.len()
            );
            return Err(self.protocol(&problem));
        }
        let mut systems = Vec::new();
        for path in paths {
            let document = self.get(&path).await?;
            let system = parse::system(&document).map_err(|problem| self.protocol(&problem))?;
            let credentials = &self.target.credentials;
            let system = system.with_texts(|text| credentials.without_secrets(text));
            systems.push((path, system));
        }
        Ok(systems)
    }

    async fn get(&mut self, path: &str) -> Result<Value, DeviceError> {
        let reply = self.http.get(path).await?;
        if reply.status != StatusCode::OK {
            let endpoint = self.endpoint();
            let shown = |text: &str| self.shown(text);
            return Err(status::error(endpoint, "GET", path, false, &reply, shown));
        }
        let document = parse::json(&reply.body?).map_err(|problem| self.protocol(&problem))?;
        Ok(parse::with_paths(document, &self.target.address))
    }

    fn limit(&self) -> Limit {
        Limit {
            endpoint: self.endpoint(),
            time: self.time,
        }
    }

    fn protocol(&self, problem: &str) -> DeviceError {
        DeviceError::Protocol {
            endpoint: self.endpoint(),
            problem: self.shown(problem),
            way_out: CHECK_ADDRESS,
        }
    }

    fn shown(&self, text: &str) -> String {
        self.target.credentials.without_secrets(text)
    }

    fn endpoint(&self) -> String {
        self.target.address.to_string()
    }
}

/// Reads a service root.
///
/// # Errors
/// Something else than a service root.
fn service(root: &Value) -> Result<Service, String> {
    let version = word(root, "RedfishVersion");
    Ok(Service {
        version: version.ok_or("it has no `RedfishVersion`, so it is no Redfish service")?,
        vendor: word(root, "Vendor"),
        product: word(root, "Product"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_root_has_a_version() {
        let root = json!({"RedfishVersion": "1.20.0", "Vendor": "Contoso", "Product": 7});
        let read = Service {
            version: "1.20.0".to_owned(),
            vendor: Some("Contoso".to_owned()),
            product: None,
        };
        assert_eq!(service(&root), Ok(read));
        for other in [json!({}), json!([1]), json!({"RedfishVersion": 1})] {
            assert!(service(&other).is_err(), "{other}");
        }
    }
}
