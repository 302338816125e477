//! What the watches of one operator tell of a kind of objects: late, not at all, or again.

use super::Network;
use crate::faults::Fault;
use bytes::Bytes;
use futures::{StreamExt, stream};
use simapi::Answer;
use std::time::Duration;
use tokio::time::sleep;

/// Nothing of this happens by chance: a case of [`crate::matrix`] asks for it.
#[derive(Debug, Default)]
pub struct Told {
    /// Of this kind nothing is told for now.
    pub late: Option<&'static str>,
    /// Events of this kind and type get lost.
    pub lost: Option<(&'static str, &'static str)>,
    /// All that was heard of this kind is told again in place of what comes next, and nothing after it: the past stands.
    pub again: Option<&'static str>,
    /// Hears what is told.
    pub hears: bool,
    /// So many events were late, lost or told again.
    pub befallen: usize,
    heard: Vec<(String, Bytes)>,
}

impl Told {
    /// Is this kind's turn later?
    pub fn is_late(&self, kind: &str) -> bool {
        self.late == Some(kind)
    }

    /// What is told in place of this line.
    pub fn pass(&mut self, kind: &str, line: Bytes) -> Vec<Bytes> {
        let is_lost = self
            .lost
            .is_some_and(|(of, event)| of == kind && is_of_type(&line, event));
        if is_lost {
            self.befallen += 1;
            return Vec::new();
        }
        if self.again == Some(kind) {
            (self.again, self.late) = (None, self.again);
            let past = self.heard.iter().filter(|(of, _)| of == kind);
            let past: Vec<Bytes> = past.map(|(_, line)| line.clone()).collect();
            self.befallen += past.len();
            return past;
        }
        if self.hears && !is_of_type(&line, "BOOKMARK") {
            self.heard.push((kind.to_owned(), line.clone()));
        }
        vec![line]
    }
}

impl Network {
    /// A watch, with what may happen to its lines.
    pub(super) fn watched(self, kind: String, answer: Answer) -> Answer {
        let Answer::Watch(lines) = answer else {
            return answer;
        };
        let lines = lines.then(move |line| {
            let (this, kind) = (self.clone(), kind.clone());
            async move {
                let (lag, is_dead) = {
                    let faults = this.faults();
                    this.world.hit_if(faults.watches_dead, Fault::WatchLoss);
                    (
                        faults.watch_lag,
                        faults.watches_dead || faults.cut || faults.dead,
                    )
                };
                this.world.hit_if(!lag.is_zero(), Fault::StaleWatch);
                if is_dead {
                    return std::future::pending().await;
                }
                sleep(lag + this.world.dice.millis(1, 20)).await;
                if this.faults().told.is_late(&kind) {
                    this.faults().told.befallen += 1;
                    while this.faults().told.is_late(&kind) {
                        sleep(Duration::from_secs(1)).await;
                    }
                }
                let mut faults = this.faults();
                if faults.missed > 0 && !line.starts_with(br#"{"type":"BOOKMARK""#) {
                    faults.missed -= 1;
                    this.world.hit(Fault::Missed);
                    return Vec::new();
                }
                faults.told.pass(&kind, line)
            }
        });
        Answer::Watch(lines.flat_map(stream::iter).boxed())
    }
}

fn is_of_type(line: &Bytes, event: &str) -> bool {
    line.starts_with(format!(r#"{{"type":"{event}""#).as_bytes())
}
