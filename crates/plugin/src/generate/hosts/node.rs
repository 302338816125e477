//! Which Node runs on a BareMetalHost. What is surest comes first: what names the host itself, what uses it, its system UUID, and last the name that
//! its operating system had when Metal3 looked at it.

use super::{Host, Surroundings};
use fencing_cluster::slim::SlimNode;
use fencing_core::reading::same_system;

/// The Node that runs on a host, and how that is known.
///
/// # Errors
/// What is missing, in words.
pub fn node_of(host: &Host, around: &Surroundings) -> Result<(String, &'static str), Vec<String>> {
    let nodes = match &around.nodes {
        Ok(nodes) => nodes.as_slice(),
        Err(words) => return Err(vec![format!("Nodes could not be read: {words}")]),
    };
    let name = |node: &SlimNode| node.metadata.name.clone().unwrap_or_default();
    let the_one = |is_it: &dyn Fn(&SlimNode) -> bool| {
        let mut found = nodes.iter().filter(|it| is_it(it));
        let first = found.next()?;
        found.next().is_none().then(|| name(first))
    };
    if let Some(node) = the_one(&|it| is_provider(host, it.spec.provider_id.as_deref())) {
        return Ok((node, "its providerID"));
    }
    let mut missing = vec![format!(
        "no Node has a providerID with {}/{}",
        host.namespace(),
        host.name()
    )];
    match host.consumer() {
        None => missing.push("`spec.consumerRef` is not set".to_owned()),
        Some(reference) => match around.consumers.node(&reference, host.namespace()) {
            Ok(node) if nodes.iter().any(|it| name(it) == node) => {
                return Ok((node, "the Machine of its consumerRef"));
            }
            Ok(node) => missing.push(format!(
                "its Machine is Node {node}, which this cluster does not have"
            )),
            Err(words) => missing.push(words),
        },
    }
    // Of a virtual BMC (sushy-tools) the path has it.
    let address = host.text("/spec/bmc/address");
    let uuid = address.rsplit('/').next().unwrap_or_default();
    if let Some(node) = the_one(&|it| same_system(uuid, &it.status.node_info.system_uuid)) {
        return Ok((node, "the system UUID in the BMC's address"));
    }
    let hostname = host.text("/status/hardware/hostname");
    if hostname.is_empty() {
        missing.push("`status.hardware.hostname` is not set".to_owned());
        return Err(missing);
    }
    match the_one(&|it| is_called(it, hostname)) {
        Some(node) => Ok((node, "status.hardware.hostname")),
        None => {
            missing.push(format!(
                "no Node is called `{hostname}` (`status.hardware.hostname`)"
            ));
            Err(missing)
        }
    }
}

/// `metal3://NAMESPACE/HOST/MACHINE`, or `metal3://UID` of the host (cluster-api-provider-metal3, `ProviderIDPrefix`);
/// `baremetalhost:///NAMESPACE/HOST/UID` (OpenShift).
fn is_provider(host: &Host, id: Option<&str>) -> bool {
    let Some((scheme, rest)) = id.and_then(|it| it.split_once("://")) else {
        return false;
    };
    if !matches!(scheme, "metal3" | "baremetalhost") {
        return false;
    }
    let mut parts = rest.trim_start_matches('/').split('/');
    match (parts.next(), parts.next()) {
        (Some(uid), None) => !uid.is_empty() && host.text("/metadata/uid") == uid,
        (Some(namespace), Some(name)) => namespace == host.namespace() && name == host.name(),
        (None, _) => false,
    }
}

fn is_called(node: &SlimNode, hostname: &str) -> bool {
    let addresses = node.status.addresses.iter().flatten();
    let mut hostnames = addresses
        .filter(|it| it.type_ == "Hostname")
        .map(|it| it.address.as_str())
        .chain(node.metadata.name.as_deref());
    hostnames.any(|it| it.eq_ignore_ascii_case(hostname))
}
