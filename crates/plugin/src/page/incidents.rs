//! `-o html`: incidents on one page that needs nothing beside itself, for a post-mortem.

use super::html::Html;
use super::parts::{columns, took, utc, utc_or_none};
use super::{Page, incident};
use crate::fences;
use fencing_api::fence::NodeFence;
use jiff::Timestamp;
use kube::ResourceExt;

/// Where it was read from, and when.
pub struct Origin<'a> {
    /// URL of the API server, without what may be a secret.
    pub server: &'a str,
    /// Wall clock.
    pub now: Timestamp,
}

/// The whole page, the incidents in the order given.
pub fn incidents(title: &str, fences: &[&NodeFence], origin: &Origin<'_>) -> String {
    let now = origin.now;
    let read = Html::text(format!("Read from {} at ", origin.server))
        .and(utc(now))
        .and(". All times are in UTC, and as the records (NodeFences) have them.");
    let articles: Html = fences.iter().map(|it| incident::article(it, now)).collect();
    let main = match fences.is_empty() {
        true => Html::element("p", &[], "No incident is on record."),
        false => overview(fences).and(articles),
    };
    let links: Html = fences.iter().map(|it| link(it)).collect();
    let page = Page {
        title,
        origin: Html::element("p", &[], read),
        navigation: (fences.len() > 1).then(|| Html::element("ul", &[], links)),
        main,
        script: None,
    };
    page.document()
}

fn anchor(fence: &NodeFence) -> Html {
    let target = format!("#{}", incident::id(fence));
    Html::element("a", &[("href", &target)], fence.name_any())
}

fn link(fence: &NodeFence) -> Html {
    let stage = format!(": {}", fences::stage(fence));
    Html::element("li", &[], anchor(fence).and(stage))
}

fn overview(fences: &[&NodeFence]) -> Html {
    let rows = fences.iter().map(|fence| {
        let began = fences::began(fence);
        let ended = fence.status.as_ref().and_then(|it| it.completion_time);
        let lasted = ended.zip(began);
        let lasted = lasted.map(|(end, begin)| took(end.duration_since(begin)));
        vec![
            ("Incident", anchor(fence)),
            ("Node", Html::text(&fence.spec.node_name)),
            ("Stage", Html::text(fences::stage(fence))),
            ("Began", utc_or_none(began)),
            (
                "Took",
                Html::text(lasted.unwrap_or_else(|| "it goes on".to_owned())),
            ),
        ]
    });
    columns("Incidents", rows)
}
