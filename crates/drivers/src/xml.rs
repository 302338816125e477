//! XML of services: read within limits, and written with every character escaped that means something.
//!
//! A document type is refused, so that no entity is ever expanded; the reader is `roxmltree`, which keeps a document in one list and calls itself for no
//! depth of it. What is nested deeper than any answer is refused all the same, as in JSON.

use roxmltree::{Document, Node, ParsingOptions};
use std::borrow::Cow;

/// Elements, attributes and texts of one document.
const NODES_MAX: u32 = 100_000;

/// Elements within elements.
const DEPTH_MAX: usize = 64;

/// Attributes of one element, each of which the reader compares with every other one, and of one document.
const ATTRIBUTES_MAX: usize = 64;
const ALL_ATTRIBUTES_MAX: usize = 50_000;

/// Reads a document.
///
/// # Errors
/// It is none, or goes beyond the limits, in words that show nothing of it.
pub fn document(text: &str) -> Result<Document<'_>, String> {
    // The reader makes room for as many nodes and attributes as there are such marks, whatever its limits.
    let count = |mark: u8| text.bytes().filter(|byte| *byte == mark).count();
    let has_too_many_marks =
        count(b'<') > 2 * NODES_MAX as usize || count(b'=') > 2 * ALL_ATTRIBUTES_MAX;
    if has_too_many_marks || has_too_many_attributes(text) {
        return Err("not XML that is understood: too many elements or attributes".to_owned());
    }
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let at = error.pos();
        format!(
            "not XML that is understood (line {}, column {})",
            at.row, at.col
        )
    })?;
    let mut level = vec![document.root()];
    for _ in 0..=DEPTH_MAX {
        let within = level.iter().flat_map(|node| node.children());
        level = within.filter(Node::is_element).collect();
    }
    match level.is_empty() {
        true => Ok(document),
        false => Err(format!(
            "not XML that is understood: nested more than {DEPTH_MAX} deep"
        )),
    }
}

/// By the equals signs between the brackets of a tag, outside of quotation marks.
fn has_too_many_attributes(text: &str) -> bool {
    let (mut is_tag, mut quote) = (false, None);
    let (mut of_tag, mut of_all) = (0_usize, 0_usize);
    for byte in text.bytes() {
        match (byte, quote) {
            (_, Some(mark)) => quote = Some(mark).filter(|mark| byte != *mark),
            (b'<', None) => (is_tag, of_tag) = (true, 0),
            (b'>', None) => is_tag = false,
            (b'"' | b'\'', None) if is_tag => quote = Some(byte),
            (b'=', None) if is_tag => {
                of_tag += 1;
                of_all += 1;
            }
            _ => {}
        }
        if of_tag > ATTRIBUTES_MAX || of_all > ALL_ATTRIBUTES_MAX {
            return true;
        }
    }
    false
}

/// The child of this name, whatever its namespace. Of two neither is it.
pub fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    let mut found = children(node, name);
    found.next().filter(|_| found.next().is_none())
}

/// The children of this name.
pub fn children<'a, 'input>(
    node: Node<'a, 'input>,
    name: &str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    let is_it = move |child: &Node<'_, '_>| child.is_element() && child.tag_name().name() == name;
    let found: Vec<_> = node.children().filter(is_it).collect();
    found.into_iter()
}

/// The text of the child of this name, if it has nothing else in it.
pub fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let child = child(node, name)?;
    let is_plain = child.children().all(|it| it.is_text()) && child.children().count() <= 1;
    child.text().filter(|_| is_plain).map(str::trim)
}

/// A text as it stands between two tags, or in an attribute.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            other => escaped.push(other),
        }
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures::cases;
    use proptest::prelude::*;

    #[test]
    fn a_document_type_is_refused_and_depth_is_no_danger() {
        let bomb = "<!DOCTYPE a [<!ENTITY b \"cc\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>";
        assert!(document(bomb).is_err());
        let deep = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(document(&deep(DEPTH_MAX)).is_ok());
        assert!(document(&deep(DEPTH_MAX + 1)).is_err());
        assert!(document(&deep(50_000)).is_err());
        let many = format!("<a>{}</a>", "<b/>".repeat(300_000));
        assert!(document(&many).is_err());
        assert!(document("<a><b></a>").is_err());
    }

    /// The reader compares each attribute of an element with every other one, and four megabytes took it minutes.
    #[test]
    fn an_element_has_few_attributes() {
        let element = |count: usize| {
            let attributes: String = (0..count).map(|it| format!(" a{it}='=='")).collect();
            format!("<a{attributes}>a = b</a>")
        };
        assert!(document(&element(ATTRIBUTES_MAX)).is_ok());
        assert!(document(&element(ATTRIBUTES_MAX + 1)).is_err());
        let many = format!("<a>{}</a>", "<b c=''/>".repeat(ALL_ATTRIBUTES_MAX));
        assert!(document(&many).is_ok());
        let more = format!("<a>{}</a>", "<b c=''/>".repeat(ALL_ATTRIBUTES_MAX + 1));
        assert!(document(&more).is_err());
    }

    #[test]
    fn of_two_children_of_one_name_neither_is_it() {
        let one = document("<a xmlns='urn:x'><b> on </b><c><d/></c></a>").expect("a document");
        assert_eq!(text(one.root_element(), "b"), Some("on"));
        assert_eq!(text(one.root_element(), "c"), None, "not a text alone");
        let two = document("<a><b>on</b><b>off</b></a>").expect("a document");
        assert_eq!(text(two.root_element(), "b"), None);
        let split = document("<a><b>o<!-- n -->ff</b></a>").expect("a document");
        assert_eq!(text(split.root_element(), "b"), None);
    }

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn what_is_escaped_is_read_as_it_was(text in "[ -~]{0,40}") {
            let written = format!("<a><b>{}</b></a>", escape(&text));
            let document = document(&written).expect("a document");
            let read = child(document.root_element(), "b").and_then(|it| it.text().map(str::to_owned));
            prop_assert_eq!(read.unwrap_or_default(), text);
        }

        #[test]
        fn no_text_panics(text in "(<|>|/|a|&|;|\"|'|=|!|\\[|DOCTYPE|CDATA| |-|\\?){0,60}") {
            let _ = document(&text);
        }
    }
}
