//! Which others could be at work in this cluster, as far as the APIs that it serves tell: asked at the beginning of a term and every few
//! minutes. What stands on Nodes and in VolumeAttachments is in the caches; [`fencing_core::assess::others`] puts both into words.
//!
//! The question is discovery, `GET /apis`: one list of names, which every account may read. Objects of others are not read: that would
//! need rights over their APIs, and a watch for each.

use fencing_cluster::client::{AskError, ask};
use fencing_core::assess::others::{Served, groups};
use kube::Client;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Time between two looks: nobody is in a hurry to hear that something was installed.
const LOOK_PERIOD: Duration = Duration::from_secs(300);
/// The same after a look without an answer.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Looks again and again.
pub async fn run(client: Client, found: watch::Sender<Served>) {
    loop {
        let looked = look(&client).await;
        let pause = match looked {
            Ok(_) => LOOK_PERIOD,
            Err(_) => FAILURE_PAUSE,
        };
        tell(&found, looked);
        sleep(pause).await;
    }
}

async fn look(client: &Client) -> Result<Served, AskError> {
    let served = ask(client.list_api_groups()).await?.groups;
    let is_served = |group: &&str| served.iter().any(|one| one.name == *group);
    Ok(Served::Known(groups().filter(is_served).collect()))
}

/// No answer leaves what was known.
fn tell(found: &watch::Sender<Served>, looked: Result<Served, AskError>) {
    found.send_if_modified(|known| {
        let seen = match looked {
            Ok(served) => served,
            Err(error) => {
                tracing::warn!(%error, "cannot list the APIs that the cluster serves, and so other fencers; trying again");
                match known {
                    Served::Known(_) => return false,
                    Served::NotAsked | Served::Unknown => Served::Unknown,
                }
            }
        };
        let is_news = *known != seen;
        *known = seen;
        is_news
    });
}

#[cfg(test)]
mod tests;
