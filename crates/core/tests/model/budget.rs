//! What may happen only so often in a configuration.

/// How often things may still happen that would otherwise happen for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// The machine is powered on.
    pub power_ons: u8,
    /// An operator dies.
    pub crashes: u8,
    /// The Node is deleted.
    pub deletions: u8,
    /// The Node is deleted and restored from a copy, with its taints.
    pub copies: u8,
    /// Somebody else adds a taint to the Node.
    pub foreign_taints: u8,
    /// A replacement of the pod is bound to a node.
    pub bindings: u8,
    /// A request stays on its way although nobody waits for it any more: so many at the same time.
    pub messages: u8,
    /// An off command goes out of which nobody knows when it takes effect, or whether: so many in all; none: any number. Once they are
    /// spent, the device answers each at once and for certain: the machine is off already, or it has not taken the command.
    pub commands: Option<u8>,
    /// The device begins to read Off although the machine is on.
    pub lies: u8,
    /// The machine is suspended (R8).
    pub suspends: u8,
    /// The kubelet writes of a pod.
    pub writes: u8,
}
