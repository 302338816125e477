//! The operator dies at a write: before it is sent, when it is done and nobody has said so, when the answer has arrived. Then it starts
//! again, another one takes over, or both act.

use super::{eventually, has_ended, strike, victim};
use crate::network::{Aim, Fate, Moment, Step};
use crate::objects::text;
use crate::stage::Stage;
use crate::tally::Course;
use simapi::kinds::FENCE;

/// Who goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// The process starts again. There is no other.
    Same,
    /// The other replica; the dead one stays dead.
    Other,
    /// Both, each with an election to itself.
    Both,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Crash {
    step: Step,
    moment: Moment,
    after: After,
}

/// Nine writes, three moments, three who go on.
pub(super) fn all() -> Vec<Crash> {
    let moments = [
        Moment::BeforeSending,
        Moment::BeforeAnswer,
        Moment::AfterAnswer,
    ];
    let mut all = Vec::new();
    for step in Step::ALL {
        for moment in moments {
            for after in [After::Same, After::Other, After::Both] {
                all.push(Crash {
                    step,
                    moment,
                    after,
                });
            }
        }
    }
    all
}

impl Crash {
    pub(super) fn replicas(self) -> usize {
        match self.after {
            After::Same => 1,
            After::Other | After::Both => 2,
        }
    }

    pub(super) async fn happen(self, stage: &Stage) {
        let leader = stage.leader();
        let mut all = stage.operators().iter();
        let leading = all.find(|operator| Some(operator.pod()) == leader);
        let dying = leading.expect("somebody leads");
        let network = dying.network().expect("it lives");
        let death = (
            Aim::Step(self.step),
            Fate::Death(self.moment),
            self.step.death(),
        );
        stage.world.steps().push(death);
        // Only what lasts is written down by itself.
        let slows = |on| stage.world.switches().csi_stuck = on && self.step == Step::Status;
        slows(true);
        let node = victim(stage);
        strike(stage, &node);
        if !eventually(stage, "it dies", || network.faults().died).await {
            return;
        }
        slows(false);
        match self.after {
            After::Same => {}
            After::Other => dying.dismiss(),
            After::Both => {
                dying.kill();
                dying.revive();
                dying.network().expect("it lives").faults().alone = true;
            }
        }
        eventually(stage, "the fence ends", || has_ended(stage, &node)).await;
        self.judge(stage, &node);
    }

    /// L4: one outage, one record, and at most one more command by each who goes on.
    fn judge(self, stage: &Stage, node: &str) {
        let fences = stage.world.api.all(&FENCE);
        let own = fences
            .iter()
            .filter(|it| text(it, "/spec/nodeName") == node);
        let records = own.count();
        let courses = stage.judge.tally().courses;
        let commands: u32 = courses.values().map(Course::commanded).sum();
        let allowed = if self.after == After::Both { 3 } else { 2 };
        if records != 1 || commands > allowed {
            stage
                .world
                .violation(format!("L4: {records} records, {commands} commands"));
        }
    }
}
