//! The pieces of the page: what stands in it of the fleet, the incidents, the policies and of what does not work.

use super::board::{Piece, Pieces};
use super::fleet::{Cell, State, World};
use crate::fences;
use crate::page::{Html, glimpse, table, utc};
use crate::watched::Trouble;
use fencing_api::conditions::{READY, find};
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_core::window;
use jiff::Timestamp;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Ended incidents that are listed, the newest.
const ENDED_MAX: usize = 20;
/// Lists of the page beside those of [`State`].
pub(super) const OPEN: &str = "open";
pub(super) const ENDED: &str = "ended";

/// All pieces.
pub(super) fn pieces(
    world: &World,
    cells: &[Cell],
    troubles: &[(&'static str, Option<Trouble>)],
    now: Timestamp,
) -> Pieces {
    let mut pieces = Pieces::new();
    for (what, trouble) in troubles {
        let content = trouble_of(what, unread(world, what), trouble.as_ref());
        own(&mut pieces, format!("trouble-{what}"), content);
    }
    own(&mut pieces, "none".to_owned(), none(world));
    own(&mut pieces, "summary".to_owned(), summary(cells));
    own(&mut pieces, "policies".to_owned(), policies(world, now));
    for cell in cells {
        let piece = Piece {
            list: Some(cell.state.id()),
            key: cell.name.clone(),
            stamp: format!("{:?} {}", cell.state, cell.why),
            html: node(cell),
        };
        pieces.insert(format!("node-{}", cell.name), piece);
    }
    let mut fences: Vec<&NodeFence> = world.fences.iter().flatten().collect();
    fences.sort_by_key(|it| std::cmp::Reverse(fences::created(it)));
    let (ended, open): (Vec<_>, Vec<_>) = fences.into_iter().partition(|it| it.is_ended());
    for fence in open {
        incident(&mut pieces, OPEN, fence, card(fence, now));
    }
    for fence in ended.into_iter().take(ENDED_MAX) {
        incident(&mut pieces, ENDED, fence, line(fence));
    }
    pieces
}

/// What is to be said aloud: incidents that have begun, ended or gone on to another stage.
pub(super) fn said(
    before: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Vec<String> {
    let changed = now
        .iter()
        .filter(|(name, words)| before.get(*name) != Some(words));
    changed.map(|(_, words)| words.clone()).collect()
}

/// In a sentence, how each incident stands.
pub(super) fn stages(world: &World) -> BTreeMap<String, String> {
    let fences = world.fences.iter().flatten();
    fences
        .map(|it| {
            let words = format!("Node {}: {}", it.spec.node_name, fences::stage(it));
            (it.name_any(), words)
        })
        .collect()
}

/// A piece that has its own place, and has changed when its text has.
fn own(pieces: &mut Pieces, id: String, content: Html) {
    let html = Html::element("div", &[("id", &id)], content);
    let piece = Piece {
        list: None,
        key: String::new(),
        stamp: html.to_string(),
        html,
    };
    pieces.insert(id, piece);
}

/// Why nothing of a kind is known.
fn unread<'a>(world: &'a World, what: &str) -> Option<&'a str> {
    let words = match what {
        "nodes" => world.nodes.as_ref().err(),
        "policies" => world.policies.as_ref().err(),
        "devices" => world.devices.as_ref().err(),
        "fences" => world.fences.as_ref().err(),
        _ => None,
    };
    words.map(String::as_str)
}

fn trouble_of(what: &str, unread: Option<&str>, trouble: Option<&Trouble>) -> Html {
    let (title, words) = match (unread, trouble) {
        (Some(words), _) => (Html::text("Not shown"), words),
        (None, Some(Trouble { since: None, words })) => (Html::text("Not shown"), &**words),
        (
            None,
            Some(Trouble {
                since: Some(since),
                words,
            }),
        ) => {
            let title = match what {
                "connection" => "This page is stale: no connection to the API server since ",
                _ => "This page is stale: not up to date since ",
            };
            (Html::text(title).and(utc(*since)), &**words)
        }
        (None, None) => return Html::default(),
    };
    let words = Html::element("strong", &[], title).and(": ").and(words);
    Html::element("p", &[("class", &"problem")], words)
}

fn none(world: &World) -> Html {
    let Ok(fences) = &world.fences else {
        return Html::default();
    };
    match fences.iter().any(|it| !it.is_ended()) {
        true => Html::default(),
        false => Html::element("p", &[], "No incident is open."),
    }
}

fn summary(cells: &[Cell]) -> Html {
    let count = |state: State| cells.iter().filter(|it| it.state == state).count();
    let shown = State::ALL.map(|state| {
        let number = Html::element("strong", &[], count(state).to_string());
        let words = Html::text(format!(" {}", state.words().to_lowercase()));
        // The blank keeps words apart where there is no style.
        Html::element("span", &[("class", &"count")], number.and(words)).and(" ")
    });
    Html::element("p", &[], shown.into_iter().collect::<Html>())
}

fn policies(world: &World, now: Timestamp) -> Html {
    let policies = match &world.policies {
        Ok(policies) if policies.is_empty() => {
            return Html::element(
                "p",
                &[],
                "No NodeFencingPolicy exists, so nothing is fenced.",
            );
        }
        Ok(policies) => policies,
        // Said above it.
        Err(_) => return Html::default(),
    };
    let row = |policy: &NodeFencingPolicy| {
        let status = policy.status.clone().unwrap_or_default();
        let ready = find(&status.conditions, READY);
        let nodes = status.nodes.as_ref();
        let number = |it: Option<u32>| it.map_or_else(|| Html::text("not known"), Html::text);
        vec![
            Html::text(policy.name_any()),
            Html::text(format!("{:?}", window::mode(policy, now))),
            Html::text(ready.map_or("Unknown", |it| &it.status)),
            number(nodes.map(|it| it.selected)),
            number(nodes.map(|it| it.protected)),
            number(status.open_incidents),
            Html::text(ready.map_or("", |it| &it.message)),
        ]
    };
    let titles = [
        "Policy",
        "Mode now",
        "Ready",
        "Nodes",
        "Protected",
        "Open",
        "Message of the operator",
    ];
    table("Policies", &titles, policies.iter().map(row).collect())
}

/// A link to a page of its own, relative to the page of the whole.
fn link(folder: &str, name: &str, words: &str) -> Html {
    Html::element(
        "a",
        &[("href", &format!("{folder}/{}", encoded(name)))],
        words,
    )
}

/// Percent-encoded, but for what may stand anywhere in a path.
pub(super) fn encoded(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

fn node(cell: &Cell) -> Html {
    let (id, class) = (format!("node-{}", cell.name), cell.state.id());
    let content = link("node", &cell.name, &cell.name).and(Html::element("small", &[], &*cell.why));
    let attributes: [(_, &dyn std::fmt::Display); 3] =
        [("id", &id), ("data-key", &cell.name), ("class", &class)];
    Html::element("li", &attributes, content)
}

fn incident(pieces: &mut Pieces, list: &'static str, fence: &NodeFence, content: Html) {
    let (id, key) = (format!("incident-{}", fence.name_any()), key(list, fence));
    let html = Html::element("li", &[("id", &id), ("data-key", &key)], content);
    let version = fence.resource_version().unwrap_or_default();
    let piece = Piece {
        list: Some(list),
        key,
        stamp: format!("{} {version}", fence.uid().unwrap_or_default()),
        html,
    };
    pieces.insert(id, piece);
}

/// The oldest first of those that are open, the newest first of those that have ended.
fn key(list: &str, fence: &NodeFence) -> String {
    let made = fences::created(fence).map_or(0, Timestamp::as_second);
    let at = match list {
        OPEN => made,
        _ => i64::MAX - made,
    };
    format!("{at:020} {}", fence.name_any())
}

fn card(fence: &NodeFence, now: Timestamp) -> Html {
    let node = &fence.spec.node_name;
    let name = fence.name_any();
    let heading = Html::element("h3", &[], link("node", node, &format!("Node {node}")));
    let record = Html::text("Record: ").and(link("incident", &name, &name));
    heading
        .and(glimpse(fence, now))
        .and(Html::element("p", &[], record))
}

fn line(fence: &NodeFence) -> Html {
    let ended = fence.status.as_ref().and_then(|it| it.completion_time);
    let ended = ended.map(|at| Html::text(", ").and(utc(at)));
    let words = format!(": {} ({})", fences::stage(fence), fences::message(fence));
    let name = format!("Node {}", fence.spec.node_name);
    link("incident", &fence.name_any(), &name)
        .and(words)
        .and(ended.unwrap_or_default())
}

#[cfg(test)]
mod tests;
