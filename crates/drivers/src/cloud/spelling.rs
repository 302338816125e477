//! How names of machines are written for a provider.

use fencing_core::reading::{smbios_order, usable_uuid};
use std::fmt::Write;

/// The UUID in text form, in lower case and with hyphens: as it was written, then in the other byte order, since firmware and operating systems
/// disagree over that one (SMBIOS 7.2.1).
pub(super) fn spellings(uuid: &str) -> Vec<String> {
    let Some(bytes) = usable_uuid(uuid) else {
        return Vec::new();
    };
    let text = |it: [u8; 16]| {
        let digits: String = it.iter().map(|byte| format!("{byte:02x}")).collect();
        let (a, rest) = digits.split_at(8);
        let (b, rest) = rest.split_at(4);
        let (c, rest) = rest.split_at(4);
        let (d, e) = rest.split_at(4);
        format!("{a}-{b}-{c}-{d}-{e}")
    };
    let mut both = vec![text(bytes), text(smbios_order(bytes))];
    both.dedup();
    both
}

/// Is the Node called like its machine, with the domain behind it or without, in whatever case? A kubelet can write another UUID, and not the name of another Node.
pub(super) fn is_called(node: &str, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let rest = node.strip_prefix(name.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Each byte but the unreserved ones of RFC 3986 as `%XX`.
pub(super) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut text, byte| {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let _ = match is_plain {
            true => write!(text, "{}", char::from(byte)),
            false => write!(text, "%{byte:02X}"),
        };
        text
    })
}
