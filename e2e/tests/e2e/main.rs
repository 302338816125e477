//! End-to-end tests: the operator as a black box on a real control plane. One binary, because links are slow.
//!
//! The harness starts tests in the order of their names. Those that take longest should not begin last, and so the names of their
//! modules begin with an `a`: `again`, `agreement`, `ailing_bmc`.

mod admission;
mod admission_guard;
mod again;
mod agreement;
mod ailing_bmc;
mod api;
mod audit;
mod budget;
mod control_plane;
mod crash;
mod credentials;
mod csi;
mod deploy;
mod detach_stuck;
mod devices;
mod failed_writes;
mod hands_off;
mod human_word;
mod hung_kubelet;
mod interop;
mod ipmi;
mod judged;
mod levels;
mod lying_bmc;
mod node_deleted;
mod node_fields;
mod operator;
mod other_hands;
mod outage;
mod partition;
mod patience;
mod power_cut;
mod power_on;
mod prompt;
mod proxy;
mod rack_power;
mod real;
mod release_modes;
mod replicas;
mod scene;
mod scripts;
mod secrecy;
mod simulated;
mod stolen_token;
mod tolerations;
mod verdict;
mod words;
mod wrong_machine;
