//! How the replicas agree who works: the flags, and the rules that their values keep.

use super::{Error, invalid, seconds};
use clap::Args;
use fencing_core::election::{LEASE_MAX, Times};

const LEASE: &str = "--leader-elect-lease-duration-seconds";
const RENEW: &str = "--leader-elect-renew-deadline-seconds";
const RETRY: &str = "--leader-elect-retry-period-seconds";

/// The flags as they are given.
#[derive(Debug, Args)]
pub(super) struct ElectionArgs {
    /// Another replica takes over once the leader's Lease was not renewed for this long
    #[arg(
        long,
        value_name = "SECONDS",
        allow_negative_numbers = true,
        default_value = "15"
    )]
    leader_elect_lease_duration_seconds: String,

    /// A leader that could not renew its Lease for this long stops: less than the duration
    #[arg(
        long,
        value_name = "SECONDS",
        allow_negative_numbers = true,
        default_value = "10"
    )]
    leader_elect_renew_deadline_seconds: String,

    /// Pause between two tries to take or to renew the Lease: at most a third of the deadline
    #[arg(
        long,
        value_name = "SECONDS",
        allow_negative_numbers = true,
        default_value = "2"
    )]
    leader_elect_retry_period_seconds: String,
}

impl ElectionArgs {
    /// The rules of client-go's `leaderelection`, with room for an answer that is lost.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(super) fn validated(&self) -> Result<Times, Error> {
        let (lease, renew, retry) = (
            &self.leader_elect_lease_duration_seconds,
            &self.leader_elect_renew_deadline_seconds,
            &self.leader_elect_retry_period_seconds,
        );
        let range = 1..=LEASE_MAX.as_secs();
        let times = Times {
            lease: seconds(LEASE, lease, &range)?,
            renew: seconds(RENEW, renew, &range)?,
            retry: seconds(RETRY, retry, &range)?,
        };
        if times.renew >= times.lease {
            let rule = format!(
                "must be less than {LEASE} ({lease}), or two replicas would lead at the same time"
            );
            return Err(invalid(RENEW, renew, &rule));
        }
        if times.retry * 3 > times.renew {
            let rule = format!(
                "must be at most a third of {RENEW} ({renew}), or one lost answer would lose the Lease"
            );
            return Err(invalid(RETRY, retry, &rule));
        }
        Ok(times)
    }
}
