//! Links of a service, each of which is followed with the password: only to the service itself.

use super::ROOT;
use crate::address::Address;
use crate::error::printable;
use serde_json::Value;

/// Longest path in bytes that is asked for.
const PATH_BYTES_MAX: usize = 512;

/// The document, with each link that is written as a URL of this address as the path that it stands for. Some services write all of theirs so.
#[must_use]
pub fn with_paths(mut document: Value, address: &Address) -> Value {
    shorten(&mut document, address);
    document
}

fn shorten(value: &mut Value, address: &Address) {
    match value {
        Value::String(text) => {
            if let Some(path) = own_path(text, address) {
                *text = path.to_owned();
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| shorten(one, address)),
        Value::Object(all) => all.values_mut().for_each(|one| shorten(one, address)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The path of a URL of the same scheme, host and port.
fn own_path<'a>(url: &'a str, address: &Address) -> Option<&'a str> {
    let (_, rest) = url.split_once("://").filter(|_| url.starts_with("http"))?;
    let path = rest.get(rest.find('/')?..)?;
    let origin = url.strip_suffix(path)?;
    let is_own = Address::parse(origin).is_ok_and(|named| named == *address);
    (is_own && path.starts_with(ROOT)).then_some(path)
}

/// A path of the same service: absolute, below [`ROOT`], of plain characters. What leads elsewhere is refused, because
/// the request that follows carries the password.
///
/// # Errors
/// It leads elsewhere.
pub fn local_path(path: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:@".contains(&b);
    let inside = path.starts_with(ROOT) && path.len() <= PATH_BYTES_MAX && path.bytes().all(plain);
    // Only of a path whose length is known to be bounded: each segment is copied.
    let climbs = || {
        path.split('/').any(|segment| {
            matches!(
                segment.to_ascii_lowercase().replace("%2e", ".").as_str(),
                "." | ".."
            )
        })
    };
    if inside && !climbs() && !path.contains("//") {
        return Ok(path.to_owned());
    }
    let link = printable(path, 120);
    Err(match path.contains("://") {
        true => format!(
            "the link \"{link}\" leads to another host or port than `redfish.address`, and is not followed; write that host and port there if it is this device"
        ),
        false => format!("the link \"{link}\" leads out of {ROOT}, and is not followed"),
    })
}

/// The first resource that a system links to by this name, if its path is one of the same service.
pub(super) fn linked(document: &Value, name: &str) -> Option<String> {
    let first = document.get("Links")?.get(name)?.get(0)?;
    // Cisco IMC 3.0 names the path alone.
    local_path(first.get("@odata.id").unwrap_or(first).as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_url_of_the_same_origin_is_its_path_and_another_stays_what_it_is() {
        let of = |address: &str, url: &str| {
            let address = Address::parse(address).unwrap();
            let document = with_paths(json!({"Members": [{"@odata.id": url}]}), &address);
            document["Members"][0]["@odata.id"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let path = "/redfish/v1/Systems/1";
        for (address, origin) in [
            ("https://10.0.0.1", "https://10.0.0.1"),
            ("https://10.0.0.1", "https://10.0.0.1:443"),
            ("https://BMC-1.example:8443", "https://bmc-1.Example:8443"),
            ("https://[fd00::1]", "https://[FD00::1]"),
        ] {
            assert_eq!(of(address, &format!("{origin}{path}")), path, "{origin}");
        }
        for url in [
            "http://10.0.0.1/redfish/v1/Systems/1",
            "https://10.0.0.1:8443/redfish/v1/Systems/1",
            "https://10.0.0.2/redfish/v1/Systems/1",
            "https://root@10.0.0.1/redfish/v1/Systems/1",
            "https://10.0.0.1/elsewhere",
            "//10.0.0.1/redfish/v1/Systems/1",
        ] {
            assert_eq!(of("https://10.0.0.1", url), url);
            assert!(local_path(url).is_err(), "{url}");
        }
    }
}
