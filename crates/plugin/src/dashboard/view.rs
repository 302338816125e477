//! The pages that are served: the fleet, a node, an incident.

use super::board::Board;
use super::fleet::{Cell, State, World};
use super::pieces::{ENDED, OPEN};
use crate::fences;
use crate::page::{Html, Origin, Page, article, table, utc};
use fencing_api::fence::NodeFence;
use jiff::Timestamp;
use kube::ResourceExt;

/// Patches the pages.
pub(super) const SCRIPT: &str = include_str!("dashboard.js");

/// Where a page is from, and by whose rights.
fn read_from(origin: &Origin<'_>) -> Html {
    let words = Html::text(format!("Read from {} with your rights, at ", origin.server));
    let words = words.and(utc(origin.now));
    let note = "Scripts are off: the page reloads every five seconds.";
    let note = Html::element("noscript", &[], Html::element("p", &[], note));
    Html::element("p", &[], words).and(note)
}

/// What the script needs, and what it says. Of a part of the fleet: the pieces that it is about, by their ids, between blanks.
fn live(events: &str, version: u64, part: &str, now: Timestamp) -> Html {
    let milliseconds = now.as_millisecond();
    let data: [(_, &dyn std::fmt::Display); 5] = [
        ("id", &"live"),
        ("data-events", &events),
        ("data-version", &version),
        ("data-part", &part),
        ("data-now", &milliseconds),
    ];
    Html::element("div", &data, "")
        .and(Html::ours(
            "<p id=\"said\" class=\"hidden\" role=\"status\" aria-live=\"polite\"></p>",
        ))
        .and(Html::ours(
            "<p id=\"lost\" class=\"problem\" role=\"alert\" hidden></p>",
        ))
}

/// The whole fleet.
pub(super) fn fleet(board: &Board, origin: &Origin<'_>) -> String {
    let piece = |id: &str| board.piece(id);
    let list = |id: &'static str, class: &str| {
        let content = board.list(id);
        Html::element("ul", &[("id", &id), ("class", &class)], content)
    };
    let section = |id: &'static str, title: &str, content: Html| {
        let heading = Html::element("h2", &[("id", &id)], title);
        Html::element("section", &[("aria-labelledby", &id)], heading.and(content))
    };
    let open = piece("trouble-fences")
        .and(piece("none"))
        .and(list(OPEN, "cards"));
    let grid: Html = State::ALL
        .into_iter()
        .map(|state| {
            let class = match state {
                State::Protected | State::NotSelected => "cells",
                _ => "cells wide",
            };
            let heading = Html::element("h3", &[], state.words());
            let cells = list(state.id(), class);
            Html::element("div", &[("class", &"group")], heading.and(cells))
        })
        .collect();
    let grid = piece("trouble-nodes")
        .and(piece("trouble-devices"))
        .and(grid);
    let policies = piece("trouble-policies").and(piece("policies"));
    let main = live("events", board.version(), "", origin.now)
        .and(piece("trouble-connection"))
        .and(piece("summary"))
        .and(section("incidents", "Open incidents", open))
        .and(section("fleet", "Fleet", grid))
        .and(section("governing", "Policies", policies))
        .and(section(
            "past",
            "Incidents that have ended",
            list(ENDED, ""),
        ));
    let navigation = Html::ours(
        "<ul><li><a href=\"#incidents\">Open incidents</a></li><li><a href=\"#fleet\">Fleet</a></li>\
         <li><a href=\"#governing\">Policies</a></li><li><a href=\"#past\">Ended</a></li></ul>",
    );
    document("Node fencing", origin, navigation, main)
}

/// One node: how it stands, its devices and its incidents.
pub(super) fn node(world: &World, cell: &Cell, version: u64, origin: &Origin<'_>) -> String {
    let name = &cell.name;
    let state = Html::element("strong", &[], cell.state.words()).and(format!(": {}", cell.why));
    let devices = world.devices.iter().flatten();
    let own = devices.filter(|it| it.spec.node_name.as_ref() == Some(name));
    let rows = own.map(|device| {
        let status = device.status.clone().unwrap_or_default();
        let power = status.power_state;
        let read = status.last_success_time;
        vec![
            Html::text(device.name_any()),
            Html::text(power.map_or_else(|| "not known".to_owned(), |it| format!("{it:?}"))),
            read.map_or_else(|| Html::text("never"), utc),
        ]
    });
    let titles = ["FenceDevice", "Power", "Last read"];
    let mut of_node: Vec<&NodeFence> = world.fences.iter().flatten().collect();
    of_node.retain(|it| it.spec.node_name == *name);
    of_node.sort_by_key(|it| std::cmp::Reverse(fences::created(it)));
    let records: Html = of_node.iter().map(|it| article(it, origin.now)).collect();
    let records = match of_node.is_empty() {
        true => Html::element("p", &[], "No incident of it is on record."),
        false => records,
    };
    let open = of_node.iter().filter(|it| !it.is_ended());
    let part: String = open
        .map(|it| format!("incident-{} ", it.name_any()))
        .chain([format!("node-{name}")])
        .collect();
    let main = live("../events", version, &part, origin.now)
        .and(Html::element("p", &[], state))
        .and(table("Devices of this node alone", &titles, rows.collect()))
        .and(records);
    document(&format!("Node {name}"), origin, back(), main)
}

/// One incident.
pub(super) fn incident(fence: &NodeFence, version: u64, origin: &Origin<'_>) -> String {
    let part = format!("incident-{}", fence.name_any());
    let main = live("../events", version, &part, origin.now).and(article(fence, origin.now));
    let title = format!("Incident of node {}", fence.spec.node_name);
    document(&title, origin, back(), main)
}

fn back() -> Html {
    Html::ours("<p><a href=\"../\">The whole fleet</a></p>")
}

fn document(title: &str, origin: &Origin<'_>, navigation: Html, main: Html) -> String {
    let page = Page {
        title,
        origin: read_from(origin),
        navigation: Some(navigation),
        main,
        script: Some(SCRIPT),
    };
    page.document()
}
