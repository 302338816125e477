//! The names that an installation goes by, and what Kubernetes takes for a name.

/// The namespace of the operator, where an installation says nothing else.
pub const NAMESPACE: &str = "node-fencing-system";
/// The Lease in that namespace by which its replicas agree who works.
pub const LEASE: &str = "node-fencing-operator";

/// Is this a DNS subdomain (RFC 1123), as Kubernetes wants it for the name of an object?
#[must_use]
pub fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
