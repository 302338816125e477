//! What is explored: which incident, which pods, and how often things may happen that would otherwise happen for ever.

use crate::state::Budget;
use crate::views::Incident;
use crate::world::{Second, World};
use node_fencing_operator::api::settings::{FenceMode, ReleaseMode};

/// Mode ConfirmOnly, one pod, two operators; nothing may happen that needs a budget.
pub fn confirm_only() -> World {
    World {
        name: "ConfirmOnly",
        incident: Incident {
            mode: FenceMode::ConfirmOnly,
            tolerates: false,
            release: ReleaseMode::AfterDetach,
            expedited: true,
        },
        second: Second::None,
        starts_despite_claim: true,
        two: true,
        reads_ahead: false,
        proofs_die: false,
        stages: false,
        budget: Budget::default(),
    }
}

/// The same in mode PowerOff.
pub fn power_off() -> World {
    let mut world = confirm_only();
    world.name = "PowerOff";
    world.incident.mode = FenceMode::PowerOff;
    world
}
