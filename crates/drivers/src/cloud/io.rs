//! The requests of one session, and where they may go.
//!
//! An address that a provider hands out (a catalog, a `Location`) comes from the other side: a token goes there only if its host is the one
//! in the settings, or the Secret lists it in its annotation, and never without TLS where that one has it.

mod answers;

use super::account::Account;
use super::packets::Packets;
use crate::address::{Address, AddressRules};
use crate::cidr::Cidr;
use crate::clock::Clock;
use crate::credentials::Credentials;
use crate::http::{Call, Client, Reply, Target};
use crate::tls::Expiry;
use crate::{DeviceClock, DeviceError};
use jiff::Timestamp;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

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
    pub fn expiry(&self) -> Option<Expiry> {
        if let Some(packets) = &self.packets {
            return packets.expiry();
        }
        let main = self
            .clients
            .iter()
            .find(|(address, _)| *address == self.target.address);
        main.and_then(|(_, client)| client.expiry())
    }

    /// What the clock of a service showed that has answered in this session; none: no answer had a date.
    #[must_use]
    pub fn date(&self) -> Option<DeviceClock> {
        self.clients.iter().find_map(|(_, client)| client.date())
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
