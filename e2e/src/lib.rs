//! A Kubernetes cluster in one process tree, with machines whose power can be cut.
//!
//! One lab serves the demo, the end-to-end tests, the benchmarks and a developer at the prompt. Its control plane is
//! the real one; its machines are either real kubelets in namespaces or simulated nodes; its volumes are files that
//! every running container writes to, so that a wrong decision of the operator is seen as a wrong write.

pub mod audit;
pub mod bench;
pub mod browser;
pub mod chaos;
pub mod clocks;
pub mod control_plane;
pub mod csi;
pub mod csi_addons;
pub mod demo;
pub mod flux;
pub mod gitops;
pub mod go;
pub mod image;
pub mod judge;
pub mod lab;
pub mod load;
pub mod machine;
pub mod operator;
pub mod parity;
pub mod plain_http;
pub mod point;
pub mod prometheus;
pub mod prometheus_operator;
pub mod prompt;
pub mod proxy;
pub mod real;
pub mod rights;
pub mod simulated;
pub mod taints;
pub mod timeline;
pub mod times;
pub mod toolchain;
pub mod volume;
pub mod workload;
