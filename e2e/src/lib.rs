//! A Kubernetes cluster in one process tree, with machines whose power can be cut.
//!
//! One lab serves the demo, the end-to-end tests, the benchmarks and a developer at the prompt. Its control plane is
//! the real one; its machines are either real kubelets in namespaces or simulated nodes; its volumes are files that
//! every running container writes to, so that a wrong decision of the operator is seen as a wrong write.

mod actuator;
pub mod audit;
pub mod bench;
pub mod bmc;
pub mod browser;
pub mod chaos;
pub mod clocks;
pub mod control_plane;
pub mod csi;
pub mod deadline;
pub mod debian;
pub mod demo;
pub mod eventually;
mod fetch;
pub mod flux;
pub mod https;
pub mod image;
pub mod ipmi;
pub mod ipmi_peers;
pub mod judge;
pub mod lab;
pub mod load;
pub mod machine;
pub mod moment;
pub mod operator;
pub mod parity;
pub mod pki;
pub mod plain_http;
pub mod point;
pub mod ports;
mod power_socket;
pub mod process;
pub mod prometheus;
pub mod prometheus_operator;
pub mod prompt;
pub mod proxy;
mod pypi;
pub mod real;
pub mod rights;
pub mod secrecy;
pub mod simulated;
pub mod snmpd;
pub mod splitmix64;
pub mod sushy;
pub mod taints;
pub mod timeline;
pub mod toolchain;
pub mod usage;
pub mod volume;
pub mod workload;
