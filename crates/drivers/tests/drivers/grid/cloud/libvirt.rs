//! The column of libvirt, which speaks in packets: what is no JSON elsewhere is no packet here.

use super::super::cell::Cell;
use super::super::rows::Fault;
use super::peer::{Peer, Running};
use super::{Column, Odd, settings};
use crate::libvirt::secret;
use fencing_api::device::LibvirtDriver;
use fencing_drivers::DriverKind;
use fencing_drivers::credentials::Credentials;
use fencing_testbed::bmc::BmcCa;
use fencing_testbed::cloud::{Beside, CloudFaults, libvirt::Libvirt};
use fencing_testbed::https::Line;
use fencing_testbed::pki::User;
use fencing_testbed::power::Power;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;

/// A host with a daemon.
struct Host;

impl Peer for Host {
    fn start(self, address: IpAddr, machine: Arc<dyn Power>, ca: &BmcCa) -> Arc<dyn Running> {
        Arc::new(Libvirt::start(address, machine, ca).unwrap())
    }

    fn credentials(&self, ca: &BmcCa) -> Option<Arc<Credentials>> {
        Some(secret(&ca.client(&User::new("fence", None)).unwrap()))
    }
}

impl Running for Libvirt {
    fn url(&self) -> String {
        let uri = self.uri();
        let authority = uri.trim_start_matches("test+tls://");
        format!("https://{}", authority.trim_end_matches("/default"))
    }

    fn fingerprint(&self) -> String {
        Libvirt::fingerprint(self)
    }

    fn faults(&self, change: Box<dyn FnOnce(&mut CloudFaults) + Send>) {
        Libvirt::faults(self, |faults| change(&mut faults.cloud));
    }

    fn set_line(&self, line: Line) {
        Libvirt::set_line(self, line).unwrap();
    }

    fn commands(&self) -> Vec<bool> {
        Libvirt::commands(self)
    }
}

/// The host at this URL.
fn of_host(mut value: Value) -> Box<dyn DriverKind> {
    let uri = value["uri"].as_str().unwrap_or_default();
    let uri = uri.replace("https://", "test+tls://");
    value["uri"] = json!(format!("{uri}/default"));
    settings::<LibvirtDriver>(value)
}

pub fn libvirt(fault: Fault) -> Cell {
    const TESTS: &str = "crates/drivers/tests/drivers/libvirt.rs";
    const COLUMN: Column<Host> = Column {
        page: || Host,
        kind: of_host,
        url: "uri",
        secret: &[],
        provider_id: |_| String::new(),
        tells_uuid: true,
        tells_already: true,
        odd: |fault| match fault {
            Fault::Sleeping => Odd::Beside(Beside::Memory),
            // Its daemon was started since, and does not know why.
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            // It was migrated.
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::InterlockBit => Odd::Never("a daemon has no peers"),
            Fault::WrongSystem => Odd::Elsewhere(TESTS, "another_domain_and_none_are_no_reading"),
            Fault::ZeroUuid => Odd::Never("no domain is asked for by such a UUID"),
            _ => Odd::Never("it gives no links"),
        },
    };
    match fault {
        Fault::WrongUser => Cell::Never("a certificate has no password beside it"),
        // It closes the connection without a word, as one that ends does.
        Fault::WrongPassword | Fault::LockedAccount => {
            Cell::Elsewhere(TESTS, "errors_are_told_apart_by_their_numbers")
        }
        Fault::OneSession | Fault::SessionsExhausted => {
            Cell::Never("a daemon that is full takes no connection")
        }
        _ => COLUMN.provoke(fault),
    }
}
