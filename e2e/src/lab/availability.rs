//! Tests that need what this host may not have, such as real machines.

use anyhow::Result;
use fencing_testbed::skip::or_skip;

use super::Kind;
use crate::real;

/// Can this kind of machine be had here? The error says why not.
pub fn available(kind: Kind) -> Result<(), String> {
    match kind {
        Kind::Simulated => Ok(()),
        Kind::Real => real::available(),
    }
}

/// The same for a test. `false`: it is to end here, and has been counted as skipped; `test` names it where its thread
/// does not.
pub fn available_to_test(kind: Kind, test: &str) -> Result<bool> {
    or_skip(available(kind), &format!("machines of kind {kind:?}"), test)
}
