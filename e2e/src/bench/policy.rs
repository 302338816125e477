//! The policies under which the benchmark cuts power, and what of a fence's time they ask for themselves.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::times::Times;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// The shortest times that the API allows, and the wait for a machine that is off, too: what is compared from release to release.
    Shortest,
    /// What a policy is that sets none of its times.
    Default,
    /// The same with `earlyDetection: Enabled`.
    Early,
}

impl Policy {
    /// Those that are measured on a cluster with these times; the last one only where the operator knows it.
    pub(super) fn under(times: Times, early: bool) -> Vec<Self> {
        match (times, early) {
            (Times::Fast, _) => vec![Self::Shortest],
            (_, false) => vec![Self::Default],
            (_, true) => vec![Self::Default, Self::Early],
        }
    }

    /// What the report calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Shortest => "shortest policy",
            Self::Default => "default policy",
            Self::Early => "early detection",
        }
    }

    /// In words, for the report.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Shortest => {
                "mode ConfirmOnly, `durationPolicy: Wait`, `durationSeconds: 10`, two readings 1 s apart"
            }
            Self::Default => {
                "mode PowerOff, `durationPolicy: SkipIfOff`: the operator acts on the Off without the 60 s of `durationSeconds`, and reads it \
                 twice, 3 s apart"
            }
            Self::Early => "the default policy with `earlyDetection: Enabled`",
        }
    }

    /// How long a machine that reads Off is waited for once its node's Ready is Unknown.
    pub(super) fn wait(self) -> Duration {
        match self {
            Self::Shortest => Duration::from_secs(10),
            Self::Default | Self::Early => Duration::ZERO,
        }
    }

    /// What the proof takes by its definition: `readPeriodSeconds` times one less than `consecutiveOffReads`. (An incident of mode ConfirmOnly that was
    /// opened before its wait was over would be read for 10 s at least, `UNSTEADY` of `crates/core/src/plan/span.rs`.)
    pub(super) fn window(self) -> Duration {
        match self {
            Self::Shortest => Duration::from_secs(1),
            Self::Default | Self::Early => Duration::from_secs(3),
        }
    }

    /// Puts it in the place of any other.
    pub(super) async fn apply(self, lab: &Lab) -> Result<()> {
        if self == Self::Shortest {
            return lab.policy("ConfirmOnly", shortest()).await;
        }
        if self == Self::Early {
            lab.grant("early-detection").await?;
        }
        lab.apply("NodeFencingPolicy", "lab", self.spec())
            .await
            .map(drop)
    }

    /// With the limits set aside that would keep a lab of two nodes from dying ten times an hour.
    fn spec(self) -> Value {
        let mut spec = json!({
            "nodeSelector": {},
            "fence": {"mode": "PowerOff", "levels": [{"name": "bmc"}]},
            "budget": {"minHealthy": 0, "maxPerHour": 1000, "cooldownSeconds": 0},
            "exclusions": {"minUptimeSeconds": 0},
        });
        if self == Self::Early {
            spec["earlyDetection"] = json!("Enabled");
        }
        spec
    }
}

/// What the shortest policy changes of [`Lab::policy`].
pub(super) fn shortest() -> Value {
    json!({"fence": {"verification": {"consecutiveOffReads": 2, "readPeriodSeconds": 1}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_detection_is_asked_for_only_where_it_is_wanted() {
        let under =
            |early| [Times::Fast, Times::Stock, Times::Tuned].map(|it| Policy::under(it, early));
        assert_eq!(
            under(false),
            [
                vec![Policy::Shortest],
                vec![Policy::Default],
                vec![Policy::Default]
            ]
        );
        let both = vec![Policy::Default, Policy::Early];
        assert_eq!(under(true), [vec![Policy::Shortest], both.clone(), both]);
        assert!(Policy::Default.spec().get("earlyDetection").is_none());
        assert_eq!(Policy::Early.spec()["earlyDetection"], "Enabled");
    }
}
