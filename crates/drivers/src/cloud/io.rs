//! The requests of one session, and where they may go.
//!
//! An address that a provider hands out (a catalog, a `Location`) comes from the other side: a token goes there only if its host is the one
//! in the settings, or the Secret lists it in its annotation, and never without TLS where that one has it.

use super::Sent;
use super::account::Account;
use super::errors::{Answers, Failed, SEE_PROVIDER};
use super::operation::Operation;
use super::packets::Packets;
use crate::DeviceError;
use crate::address::{Address, AddressRules};
use crate::cidr::Cidr;
use crate::clock::Clock;
use crate::credentials::Credentials;
use crate::http::{Call, Client, Reply, Target};
use crate::{error::printable, json};
use http::StatusCode;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Longest message of an answer that is kept, in characters.
const MESSAGE_CHARACTERS_MAX: usize = 300;
/// Services of one provider that a session talks to.
const SERVICES_MAX: usize = 4;

/// The requests of one session.
#[derive(Debug)]
pub struct Io {
    pub(super) target: Arc<Target>,
    clients: Vec<(Address, Client)>,
    /// The client of the last request.
    last: Option<usize>,
    /// What carries the requests of a provider that does not speak HTTP.
    pub(super) packets: Option<Packets>,
    /// Addresses beside the main one that the operator's own settings name.
    trusted: Vec<Address>,
    /// What all sessions with this login share.
    pub account: Arc<Account>,
    clock: Clock,
}

impl Io {
    /// Nothing is opened yet.
    #[must_use]
    pub fn new(target: Arc<Target>, account: Arc<Account>, clock: Clock) -> Self {
        Self {
            target,
            clients: Vec::new(),
            last: None,
            packets: None,
            trusted: Vec::new(),
            account,
            clock,
        }
    }

    /// The address in the settings.
    #[must_use]
    pub fn main(&self) -> Address {
        self.target.address.clone()
    }

    /// What opens the account.
    #[must_use]
    pub fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&self.target.credentials)
    }

    /// Time since boot of this host.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.clock.since_boot()
    }

    /// Wall clock, for requests that have to carry its time.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    /// What opens the account may go to this address too, which the operator's own settings name, and not the other side.
    pub fn trust(&mut self, at: Address) {
        if !self.trusted.contains(&at) {
            self.trusted.push(at);
        }
    }

    /// A service of this host's own surroundings, at an address that no device may have and in plain text. What opens the account is not sent there.
    pub fn trust_local(&mut self, at: &Address, ip: IpAddr) {
        let bits = if ip.is_ipv4() { 32 } else { 128 };
        let only: Vec<Cidr> = format!("{ip}/{bits}").parse().into_iter().collect();
        let target = Target {
            address: at.clone(),
            tls: None,
            credentials: Arc::new(Credentials::nobody()),
            rules: Arc::new(AddressRules::new(only, Vec::new())),
        };
        if !self.clients.iter().any(|(known, _)| known == at) {
            let client = Client::new(Arc::new(target), self.clock);
            self.clients.push((at.clone(), client));
        }
    }

    /// Opens the connection for the next request to this address.
    ///
    /// # Errors
    /// [`DeviceError`] when there is none to be had.
    pub async fn open(&mut self, at: &Address) -> Result<(), DeviceError> {
        match &mut self.packets {
            Some(packets) => packets.open().await,
            None => self.client(at)?.open().await,
        }
    }

    /// Sends a request that only reads, or a login, when it is the account's turn.
    ///
    /// # Errors
    /// [`DeviceError`] when no answer was understood. An answer with an error status is not an error here.
    pub async fn ask(&mut self, at: &Address, call: &Call) -> Result<Reply, DeviceError> {
        self.last = None;
        let account = Arc::clone(&self.account);
        account.turn().await;
        self.client(at)?.ask(call).await
    }

    /// Sends a power command, once and without waiting.
    ///
    /// # Errors
    /// As [`Io::ask`]; [`Io::sent`] says whether it may have arrived.
    pub async fn command(&mut self, at: &Address, call: &Call) -> Result<Reply, DeviceError> {
        self.last = None;
        self.account.count();
        self.client(at)?.command(call).await
    }

    /// May any byte of the last request have left this host?
    #[must_use]
    pub fn sent(&self) -> bool {
        if let Some(packets) = &self.packets {
            return packets.sent();
        }
        let last = self.last.and_then(|at| self.clients.get(at));
        last.is_some_and(|(_, client)| client.sent())
    }

    /// When the certificate expires that the service in the settings presented.
    #[must_use]
    pub fn expiry(&self) -> Option<Timestamp> {
        if let Some(packets) = &self.packets {
            return packets.expiry();
        }
        let main = self
            .clients
            .iter()
            .find(|(address, _)| *address == self.target.address);
        main.and_then(|(_, client)| client.expiry())
    }

    fn client(&mut self, at: &Address) -> Result<&mut Client, DeviceError> {
        let known = self.clients.iter().position(|(address, _)| address == at);
        let place = match known {
            Some(place) => place,
            None => {
                self.judge(at)?;
                let target = Target {
                    address: at.clone(),
                    ..Target::clone(&self.target)
                };
                let client = Client::new(Arc::new(target), self.clock);
                self.clients.push((at.clone(), client));
                self.clients.len().saturating_sub(1)
            }
        };
        self.last = Some(place);
        let lost = self.protocol(at, "it has no connection");
        let found = self.clients.get_mut(place).map(|(_, client)| client);
        found.ok_or(lost)
    }

    /// May what opens the account go to this address?
    fn judge(&self, at: &Address) -> Result<(), DeviceError> {
        let own = &self.target.address;
        // The connector is that of the device: without one, https would be spoken in plain text.
        let problem = if at.plaintext && !own.plaintext {
            "is plain http".to_owned()
        } else if own.plaintext && !at.plaintext {
            "is https, and this device has no TLS".to_owned()
        } else if !self.trusted.contains(at)
            && at.host != own.host
            && !self.target.credentials.names_hosts()
        {
            format!(
                "is another host than {}, and the annotation {} of the Secret does not list it",
                own.host,
                crate::credentials::ALLOWED_HOSTS_ANNOTATION
            )
        } else if self.clients.len() >= SERVICES_MAX {
            "is one service too many".to_owned()
        } else {
            return Ok(());
        };
        Err(DeviceError::Settings {
            field: "credentialsRef",
            problem: format!(
                "{own} sends its clients to {at}, which {problem}; nothing was sent there"
            ),
        })
    }

    /// The document of a success.
    ///
    /// # Errors
    /// It is none.
    pub fn document(&self, at: &Address, reply: Reply) -> Result<Value, DeviceError> {
        let document = json::document(&reply.body?, "a provider");
        document.map_err(|problem| self.protocol(at, &problem))
    }

    /// The same in this form.
    ///
    /// # Errors
    /// It has another.
    pub fn typed<T: DeserializeOwned>(&self, at: &Address, reply: Reply) -> Result<T, DeviceError> {
        let document = self.document(at, reply)?;
        self.formed(at, serde_json::from_value(document))
    }

    /// The same of a document that may be long, of which only what the form names is kept: for probes.
    ///
    /// # Errors
    /// As [`Io::typed`].
    pub fn listed<T: DeserializeOwned>(
        &self,
        at: &Address,
        reply: Reply,
    ) -> Result<T, DeviceError> {
        self.formed(at, json::kept(&reply.body?))
    }

    fn formed<T>(&self, at: &Address, read: serde_json::Result<T>) -> Result<T, DeviceError> {
        read.map_err(|error| self.protocol(at, &format!("its body has another form ({error})")))
    }

    /// Has the account requests to spare, as far as the header `RateLimit-Remaining` tells? So many are kept for fences.
    ///
    /// # Errors
    /// It has fewer.
    pub fn spares(&self, reply: &Reply, kept: u32) -> Result<(), DeviceError> {
        let left = reply.headers.get("ratelimit-remaining");
        let left: Option<u32> = left.and_then(|it| it.to_str().ok()?.parse().ok());
        match left.filter(|left| *left < kept) {
            None => Ok(()),
            Some(left) => Err(DeviceError::Busy {
                endpoint: self.main().to_string(),
                request: "a list of all machines".to_owned(),
                said: format!("that {left} requests are left, and {kept} are kept for fences"),
                retry_after: None,
            }),
        }
    }

    /// The answer to a request that only reads, where it has this status.
    ///
    /// # Errors
    /// What any other answer means, or none was understood.
    pub async fn read(
        &mut self,
        at: &Address,
        call: &Call,
        status: StatusCode,
        answers: &Answers,
    ) -> Result<Reply, DeviceError> {
        let reply = self.ask(at, call).await?;
        match reply.status == status {
            true => Ok(reply),
            false => {
                let failed = self.failed(at, call, &reply, answers);
                Err(failed.of_read(answers.table))
            }
        }
    }

    /// The answer to a power command that has this status, or what any other answer makes of it.
    ///
    /// # Errors
    /// It was certainly not carried out, unless no answer was understood ([`Io::sent`]).
    pub async fn switch(
        &mut self,
        at: &Address,
        call: &Call,
        status: StatusCode,
        answers: &Answers,
    ) -> Result<Result<Reply, Sent>, DeviceError> {
        self.switch_to_any(at, call, &[status], answers).await
    }

    /// The same where several statuses are a success.
    ///
    /// # Errors
    /// As [`Io::switch`].
    pub async fn switch_to_any(
        &mut self,
        at: &Address,
        call: &Call,
        statuses: &[StatusCode],
        answers: &Answers,
    ) -> Result<Result<Reply, Sent>, DeviceError> {
        let reply = self.command(at, call).await?;
        match statuses.contains(&reply.status) {
            true => Ok(Ok(reply)),
            false => {
                let failed = self.failed(at, call, &reply, answers);
                failed.of_command(answers.table).map(Err)
            }
        }
    }

    /// Sends a power command whose answer, with this status, names an operation: `path` reads where.
    ///
    /// # Errors
    /// As [`Io::switch`].
    pub async fn order(
        &mut self,
        at: &Address,
        call: &Call,
        status: StatusCode,
        answers: &Answers,
        path: impl FnOnce(&Self, Reply) -> Result<String, DeviceError>,
    ) -> Result<Sent, DeviceError> {
        let reply = match self.switch(at, call, status, answers).await? {
            Ok(reply) => reply,
            Err(sent) => return Ok(sent),
        };
        let (at, path) = (at.clone(), path(self, reply));
        Ok(path.map_or_else(Sent::Unclear, |path| {
            Sent::Operation(Operation { at, path })
        }))
    }

    /// An answer that is no success, as the provider has it.
    pub(super) fn failed(
        &self,
        at: &Address,
        call: &Call,
        reply: &Reply,
        answers: &Answers,
    ) -> Failed {
        let (code, message) = (answers.words)(reply);
        // What is behind it says which fields are wanted, and no person looks for those.
        let path = call.path.split('?').next().unwrap_or_default();
        Failed {
            endpoint: at.to_string(),
            request: self.shown(&format!("{} {path}", call.method)),
            status: reply.status.as_u16(),
            code: self.shown(&code),
            message: self.shown(&message),
            retry_after: reply.retry_after,
            right: answers.right,
        }
    }

    /// An answer that cannot be understood.
    #[must_use]
    pub fn protocol(&self, at: &Address, problem: &str) -> DeviceError {
        DeviceError::Protocol {
            endpoint: at.to_string(),
            problem: self.shown(problem),
            way_out: SEE_PROVIDER,
        }
    }

    /// A text of the provider, without what opens the account.
    #[must_use]
    pub fn shown(&self, text: &str) -> String {
        let text = self.account.without_token(text);
        let text = printable(&text, MESSAGE_CHARACTERS_MAX);
        self.target.credentials.without_secrets(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::account::{Accounts, Pace};
    use std::collections::BTreeMap;

    /// Requests to `https://keystone`, with a Secret that lists these hosts.
    fn io(hosts: Option<&str>) -> Io {
        io_at("https://keystone", hosts)
    }

    fn io_at(url: &str, hosts: Option<&str>) -> Io {
        let data = [("secret".to_owned(), b"value".to_vec())];
        let annotation = crate::credentials::ALLOWED_HOSTS_ANNOTATION.to_owned();
        let annotations: BTreeMap<String, String> = hosts
            .map(|hosts| (annotation, hosts.to_owned()))
            .into_iter()
            .collect();
        let credentials = Credentials::with_keys("cloud", &["secret"], &data.into(), &annotations);
        let target = Target {
            address: Address::parse(url).expect("an address"),
            tls: None,
            credentials: Arc::new(credentials.expect("credentials")),
            rules: Arc::new(AddressRules::default()),
        };
        let secret = ("cloud".to_owned(), "1".to_owned());
        let accounts = Accounts::default();
        let account = ("openstack", Pace::USUAL);
        let account = accounts.of(account, &target.address, &secret, Clock::SYSTEM);
        Io::new(Arc::new(target), account, Clock::SYSTEM)
    }

    #[test]
    fn another_service_has_the_same_host_or_is_listed_and_has_tls() {
        let allows = |hosts: Option<&str>, url: &str| {
            let address = Address::parse(url).expect("an address");
            io(hosts).judge(&address).is_ok()
        };
        assert!(allows(None, "https://keystone:8774"));
        assert!(!allows(None, "http://keystone:8774"));
        assert!(!allows(None, "https://nova"));
        // The address that it stands for is judged by the list when the connection is opened.
        assert!(allows(Some("keystone,nova"), "https://nova"));
        assert!(!allows(Some("keystone,nova"), "http://nova"));
        // The connector of a device of plain http has no TLS.
        let https = Address::parse("https://keystone:8774").expect("an address");
        assert!(io_at("http://keystone", None).judge(&https).is_err());
    }
}
