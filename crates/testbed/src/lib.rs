//! What a fence driver can be tested with on one machine, without a cluster.
//!
//! Fence devices of our own, written apart from the drivers (Redfish, IPMI, a PDU of net-snmp's agent), each with the faults that real ones
//! have; devices of others (ipmi_sim, pyghmi, sushy-tools); and what it takes to run them: ports, processes, certificates, packages of
//! Debian and PyPI. The lab builds clusters around them; this crate knows neither Kubernetes nor anything of the operator's.

mod actuator;
pub mod azure_mgmt;
pub mod bench;
pub mod bmc;
pub mod cloud;
pub mod deadline;
pub mod debian;
pub mod docker;
pub mod eventually;
pub mod exchange;
pub mod fakepve;
pub mod fence_agent;
pub mod fetch;
pub mod google_compute;
pub mod hcloud;
pub mod https;
pub mod ipmi;
pub mod ipmi_peers;
pub mod ironic;
pub mod libvirtd;
pub mod moment;
pub mod moto;
pub mod ntnx;
pub mod openstack_peer;
pub mod paths;
pub mod pki;
pub mod ports;
pub mod power;
mod power_socket;
pub mod process;
pub mod pypi;
pub mod secrecy;
pub mod skip;
pub mod snmpd;
pub mod splitmix64;
pub mod sushy;
pub mod usage;
pub mod vcsim;
pub mod webhook_example;
