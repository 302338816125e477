//! What a column needs of a provider of ours, whichever protocol it speaks.

use fencing_drivers::credentials::Credentials;
use fencing_testbed::bmc::BmcCa;
use fencing_testbed::cloud::{Cloud, CloudFaults, Page};
use fencing_testbed::https::Line;
use fencing_testbed::power::Power;
use std::net::IpAddr;
use std::sync::Arc;

/// A provider that can be started.
pub trait Peer: Sized + Send + 'static {
    /// The provider of this machine.
    fn start(self, address: IpAddr, machine: Arc<dyn Power>, ca: &BmcCa) -> Arc<dyn Running>;

    /// What opens it, where that is not what the column has.
    fn credentials(&self, _: &BmcCa) -> Option<Arc<Credentials>> {
        None
    }
}

/// One that runs.
pub trait Running: Send + Sync {
    /// `https://ADDRESS:PORT`.
    fn url(&self) -> String;
    /// SHA-256 of its certificate.
    fn fingerprint(&self) -> String;
    /// Changes what is wrong with it.
    fn faults(&self, change: Box<dyn FnOnce(&mut CloudFaults) + Send>);
    /// Changes the state of the line to it.
    fn set_line(&self, line: Line);
    /// The power commands that have arrived: on, or off.
    fn commands(&self) -> Vec<bool>;
}

impl<P: Page> Peer for P {
    fn start(self, address: IpAddr, machine: Arc<dyn Power>, ca: &BmcCa) -> Arc<dyn Running> {
        Arc::new(Cloud::start(address, machine, self, ca).unwrap())
    }
}

impl<P: Page> Running for Cloud<P> {
    fn url(&self) -> String {
        Cloud::url(self)
    }

    fn fingerprint(&self) -> String {
        Cloud::fingerprint(self)
    }

    fn faults(&self, change: Box<dyn FnOnce(&mut CloudFaults) + Send>) {
        Cloud::faults(self, change);
    }

    fn set_line(&self, line: Line) {
        Cloud::set_line(self, line).unwrap();
    }

    fn commands(&self) -> Vec<bool> {
        Cloud::commands(self)
    }
}
