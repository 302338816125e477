//! Fence devices: how the power of a machine is read and cut out of band.
//!
//! No driver returns proof. A driver reports readings and carries out one command; whether the machine is down is
//! judged in [`crate::core`] alone.
