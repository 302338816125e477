//! The drivers against devices that lie, stall, break off and attack: the rows of "Devices" in docs/faults.md. What they have
//! in common is that nothing but an exact off is ever read as off.

#![allow(
    clippy::disallowed_methods,
    reason = "tests measure how long they wait"
)]

mod account;
mod agent;
mod aws;
mod azure;
mod beside;
mod bmc;
mod bodies;
mod certificates;
mod confirm;
mod device;
mod fence_agent;
mod gcp;
mod grid;
mod hetzner;
mod http_outlet;
mod infra_cluster;
mod ipmi;
mod levels;
mod libvirt;
mod libvirtd;
mod nutanix;
mod odd;
mod openstack;
mod pdu;
mod pdu_command;
mod pdu_forged;
mod pdu_network;
mod pdu_snmpd;
mod power_off;
mod power_on;
mod proxmox;
mod reads;
mod redfish;
mod refusals;
mod repeats;
mod second_connection;
mod transport;
mod vsphere;
mod webhook;
mod xapi;
