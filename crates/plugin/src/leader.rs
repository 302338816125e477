//! Who leads, as the operator's Lease has it, and from when on they are taken for gone: for `status` and `check`.

use fencing_core::election::Times;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;

/// Who renews a Lease for so many times no more as it lasts is taken for gone: the clock that has dated it may differ from the API server's.
const FAR_OVER: i32 = 4;

/// Whoever has the Lease.
#[derive(Debug, PartialEq, Eq)]
pub struct Leader {
    /// The replica.
    pub name: String,
    /// When it has last renewed it.
    pub renewed: Timestamp,
    /// From when on it is taken for gone, unless it renews it.
    pub silent_from: Option<Timestamp>,
}

impl Leader {
    /// None: nobody has it. One that was never renewed is nobody's.
    pub fn of(lease: Option<&Lease>) -> Option<Self> {
        let spec = lease?.spec.as_ref()?;
        let name = spec.holder_identity.clone().filter(|it| !it.is_empty())?;
        let renewed = spec.renew_time.as_ref()?.0;
        let lasts = spec.lease_duration_seconds.map_or_else(
            || SignedDuration::try_from(Times::default().lease).unwrap_or_default(),
            |it| SignedDuration::from_secs(it.into()),
        );
        Some(Self {
            name,
            renewed,
            silent_from: renewed.checked_add(lasts * FAR_OVER).ok(),
        })
    }
}

/// Is who is taken for gone from then on taken for it now? None: that is not known.
pub fn is_silent(silent_from: Option<Timestamp>, now: Timestamp) -> bool {
    silent_from.is_some_and(|it| now > it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn leader(spec: &Value) -> Option<Leader> {
        let lease: Lease = serde_json::from_value(json!({"spec": spec})).expect("a Lease");
        Leader::of(Some(&lease))
    }

    #[test]
    fn who_has_renewed_the_lease_leads_until_that_is_far_over() {
        let renewed = "2027-01-02T18:00:00.000000Z";
        for (lasts, over) in [(json!(30), 120), (json!(null), 60)] {
            let found = leader(
                &json!({"holderIdentity": "pod-1", "renewTime": renewed, "leaseDurationSeconds": lasts}),
            );
            let found = found.expect("a leader");
            assert_eq!(found.name, "pod-1");
            let after = |seconds| found.renewed + SignedDuration::from_secs(seconds);
            assert!(!is_silent(found.silent_from, after(over)));
            assert!(is_silent(found.silent_from, after(over + 1)));
        }
        assert!(!is_silent(None, Timestamp::MAX));
    }

    #[test]
    fn a_lease_that_nobody_has_or_has_renewed_names_no_leader() {
        let renewed = "2027-01-02T18:00:00.000000Z";
        assert_eq!(Leader::of(None), None);
        for spec in [
            json!({}),
            json!({"renewTime": renewed}),
            json!({"holderIdentity": "", "renewTime": renewed}),
            json!({"holderIdentity": "pod-1"}),
        ] {
            assert_eq!(leader(&spec), None, "{spec}");
        }
    }
}
