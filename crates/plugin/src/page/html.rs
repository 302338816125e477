//! HTML that nothing from the cluster can break out of.
//!
//! Markup is written in this program, as literals; whatever comes from elsewhere goes in by [`Html::text`] or as the value of an attribute, and
//! both escape it. What one does not see, or what turns the writing around it, is shown by its number: a name that reads `worker-1` is `worker-1`.

use serde::Serialize;
use std::fmt::{self, Display, Write as _};

/// Markup that is safe to put into a page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Html(String);

impl Html {
    /// Markup of our own. It is a literal, so nothing from the cluster can be in it.
    pub fn ours(markup: &'static str) -> Self {
        Self(markup.to_owned())
    }

    /// Words from anywhere, escaped.
    pub fn text(words: impl Display) -> Self {
        Self(escaped(&words.to_string()))
    }

    /// An element with its attributes, of which the values are escaped, around its content.
    pub fn element(
        name: &'static str,
        attributes: &[(&'static str, &dyn Display)],
        content: impl Into<Self>,
    ) -> Self {
        let mut text = format!("<{name}");
        for (key, value) in attributes {
            let _ = write!(text, " {key}=\"{}\"", escaped(&value.to_string()));
        }
        let Self(content) = content.into();
        let _ = write!(text, ">{content}</{name}>");
        Self(text)
    }

    /// This, and then that.
    #[must_use]
    pub fn and(mut self, next: impl Into<Self>) -> Self {
        self.0 += &next.into().0;
        self
    }
}

impl Display for Html {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Text between tags is most of what elements hold.
impl From<&str> for Html {
    fn from(words: &str) -> Self {
        Self::text(words)
    }
}

impl From<String> for Html {
    fn from(words: String) -> Self {
        Self::text(words)
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<T: IntoIterator<Item = Html>>(parts: T) -> Self {
        Self(parts.into_iter().map(|it| it.0).collect())
    }
}

fn escaped(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for sign in words.chars() {
        match sign {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            '\n' | '\t' => text.push(sign),
            sign if is_unseen(sign) => {
                let _ = write!(text, "[U+{:04X}]", u32::from(sign));
            }
            sign => text.push(sign),
        }
    }
    text
}

/// Controls, and Unicode's characters without a shape of their own: joiners, marks and overrides of direction (UAX #9), tags.
pub fn is_unseen(sign: char) -> bool {
    sign.is_control()
        || matches!(
            sign,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_the_cluster_opens_a_tag_or_leaves_an_attribute() {
        let hostile = "</td><script>alert(1)</script>\"' onload='x' &amp;";
        let text = Html::text(hostile).to_string();
        assert_eq!(
            text,
            "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39; onload=&#39;x&#39; &amp;amp;"
        );
        let element = Html::element("b", &[("title", &hostile)], hostile);
        assert_eq!(
            element.to_string(),
            format!("<b title=\"{text}\">{text}</b>")
        );
    }

    #[test]
    fn what_turns_the_writing_around_or_is_not_seen_is_shown_by_its_number() {
        for (hostile, shown) in [
            ("a\u{202e}b", "a[U+202E]b"),
            ("a\u{2066}b\u{2069}", "a[U+2066]b[U+2069]"),
            ("work\u{200b}er", "work[U+200B]er"),
            ("\u{1b}[2J", "[U+001B][2J"),
            ("\0", "[U+0000]"),
            ("\u{e0041}", "[U+E0041]"),
            ("caf\u{e9} \u{5d0}\n", "caf\u{e9} \u{5d0}\n"),
        ] {
            assert_eq!(Html::text(hostile).to_string(), shown);
        }
    }
}
