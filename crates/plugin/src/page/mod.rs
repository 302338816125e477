//! Pages for a browser: what `history -o html`, `explain -o html` and `dashboard` have in common.
//!
//! A page is one file: its look, and its script if it has one, stand in it, and its Content-Security-Policy lets nothing else in, by their hashes.
//! It reads the same in light and dark, on paper, by keyboard and to a screen reader: what a colour says, a word says too.

mod chart;
pub(super) mod html;
mod incident;
mod incidents;
mod parts;
mod spans;

pub use html::Html;
pub use incident::{article, glimpse};
pub use incidents::{Origin, incidents};
pub use parts::{ago, table, utc};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The look.
const STYLE: &str = include_str!("page.css");

/// What stands around a page's content.
pub struct Page<'a> {
    /// In the tab and as the one heading of the first level.
    pub title: &'a str,
    /// Under it: where this comes from, and of when it is.
    pub origin: Html,
    /// Links to other parts, if there are any.
    pub navigation: Option<Html>,
    /// The content.
    pub main: Html,
    /// Runs in it; of a page that has one the content changes, and without scripts it is loaded anew now and then.
    pub script: Option<&'static str>,
}

impl Page<'_> {
    /// The whole document.
    pub fn document(&self) -> String {
        let title = Html::text(self.title);
        let policy = content_security_policy(self.script);
        let (refresh, script) = match self.script {
            Some(script) => (
                "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n",
                format!("<script>{script}</script>\n"),
            ),
            None => ("", String::new()),
        };
        let navigation = self.navigation.clone();
        let navigation =
            navigation.map(|it| Html::element("nav", &[("aria-label", &"On this page")], it));
        let (navigation, origin, main) = (navigation.unwrap_or_default(), &self.origin, &self.main);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n{refresh}<style>{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
             <header><h1>{title}</h1>{origin}</header>\n{navigation}\n\
             <main id=\"main\" tabindex=\"-1\">{main}</main>\n\
             <footer><p>kubectl fence {version}</p></footer>\n{script}</body>\n</html>\n",
            version = env!("CARGO_PKG_VERSION"),
        )
    }
}

/// Lets in the look and this script, by their hashes, and requests to where the page comes from, if there is a script to make them.
pub fn content_security_policy(script: Option<&str>) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let own = script.map(|it| format!("script-src 'sha256-{}'; connect-src 'self'; ", hash(it)));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; {}base-uri 'none'; form-action 'none'",
        hash(STYLE),
        own.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests;
