//! The lab's storage array, as a test sees it: who has which volume, what happened, and what is to go wrong.
//!
//! The array itself is `e2e/control-plane/cmd/csi-controller`, behind the real external-attacher.

/// The name of the lab's CSI driver.
pub const DRIVER: &str = "csi.lab.nodefencing.io";
