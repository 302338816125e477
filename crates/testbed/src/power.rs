//! The plug of a machine.
//!
//! A machine has power and a system UUID, and a BMC talks to it through [`Power`] only, so that a Redfish service of ours, sushy-tools and a
//! test's hand all pull the same plug.

/// The plug of a machine: what a BMC can see and do.
pub trait Power: Send + Sync + 'static {
    /// The machine's name, which is its Node's name.
    fn name(&self) -> &str;
    /// SMBIOS system UUID, in RFC 4122 text form; equals `status.nodeInfo.systemUUID` of the Node.
    fn system_uuid(&self) -> &str;
    /// Is the machine powered now?
    fn is_on(&self) -> bool;
    /// Cuts the power, or restores it, at once. Idempotent. Returns when the machine is dark (or has begun to boot). Of a machine that is
    /// suspended an off changes nothing, as of a VM that was saved, and an on resumes it.
    fn set_power(&self, on: bool);
}
