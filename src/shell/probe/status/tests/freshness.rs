//! When a look may use what another look has read of a Secret.

use super::*;
use crate::shell::devices::Freshness;
use crate::shell::probe::{Known, freshness};
use fencing_drivers::Extent;

/// What was well a minute ago is asked with what is known of its Secret; what was corrected, or is asked for, counts at once.
#[test]
fn a_look_reads_the_secret_anew_unless_all_was_well() {
    let of = |outcome| Known {
        finding: Some(Box::new(found(node("w1", OURS, "True"), outcome))),
        ..Known::default()
    };
    let (well, silent) = (of(answer(OURS)), of(Err(silence())));
    let table = [
        (None, Extent::Needed, Freshness::Now),
        (Some(Known::default()), Extent::Needed, Freshness::Now),
        (Some(silent), Extent::Needed, Freshness::Now),
        (Some(well.clone()), Extent::Whole, Freshness::Now),
        (Some(well), Extent::Needed, Freshness::Recent),
    ];
    for (known, extent, expected) in table {
        assert_eq!(freshness(known.as_ref(), extent), expected, "{known:?}");
    }
}
