//! End-to-end tests: the operator as a black box on a real control plane. One binary, because links are slow.

mod admission;
mod api;
mod audit;
mod control_plane;
mod crash;
mod csi;
mod deploy;
mod devices;
mod failed_writes;
mod hands_off;
mod hung_kubelet;
mod interop;
mod operator;
mod partition;
mod power_cut;
mod power_on;
mod proxy;
mod rack_power;
mod real;
mod scene;
mod simulated;
mod sushy;
mod verdict;
mod wrong_machine;
