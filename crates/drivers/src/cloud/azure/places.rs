//! Where machines of Azure stand: in provider IDs, in paths, and in the links that Azure hands out.

use super::super::kind::split;
use crate::address::Address;
use crate::error::printable;

/// Longest link that is followed: that of an operation has a certificate in it.
const LINK_BYTES_MAX: usize = 16 << 10;
const PROVIDER: &str = "microsoft.compute";
const MACHINES: &str = "virtualmachines";
pub(super) const SCALE_SETS: &str = "virtualmachinescalesets";

/// Where a machine stands, by a provider ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    /// Its ID in lower case, without a slash before it.
    pub(super) id: String,
    pub(super) subscription: String,
    pub(super) group: String,
}

/// The machine of `azure:///subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/` and `virtualMachines/N`, or
/// `virtualMachineScaleSets/SET/virtualMachines/NUMBER`. Azure tells no upper case from lower case.
pub(super) fn resource(provider_id: &str) -> Option<Resource> {
    let id = provider_id.strip_prefix("azure:///")?.to_ascii_lowercase();
    let parts: Vec<&str> = id.split('/').collect();
    let (subscription, group, names) = match *parts.as_slice() {
        [
            "subscriptions",
            subscription,
            "resourcegroups",
            group,
            "providers",
            PROVIDER,
            MACHINES,
            name,
        ] => (subscription, group, [group, name]),
        [
            "subscriptions",
            subscription,
            "resourcegroups",
            group,
            "providers",
            PROVIDER,
            SCALE_SETS,
            set,
            MACHINES,
            number,
        ] if is_number(number) => (subscription, group, [group, set]),
        _ => return None,
    };
    let is_right = is_guid(subscription) && names.into_iter().all(is_name);
    let (subscription, group) = (subscription.to_owned(), group.to_owned());
    is_right.then_some(Resource {
        id,
        subscription,
        group,
    })
}

fn is_guid(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

fn is_number(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// May it be put into a path as it is? None ends with a dot or has two of them, so that none leads upward.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.()".contains(&byte);
    let leads_upward = text.ends_with('.') || text.contains("..");
    (1..=90).contains(&text.len()) && text.bytes().all(is_plain) && !leads_upward
}

/// The list that has this machine with its power: its path, and what is asked for there. That of virtual machines has all of a subscription, and
/// none of a scale set whose instances have numbers.
pub(super) fn list_of(id: &str) -> Option<(String, &'static str)> {
    match id.split_once(&format!("/{SCALE_SETS}/")) {
        Some((group, rest)) => {
            let set = rest.split('/').next()?;
            let path = format!("/{group}/{SCALE_SETS}/{set}/{MACHINES}");
            Some((path, "$expand=instanceView"))
        }
        None => {
            let subscription = subscription_of(id)?;
            let path = format!("/subscriptions/{subscription}/providers/{PROVIDER}/{MACHINES}");
            Some((path, "statusOnly=true"))
        }
    }
}

/// Below it lie the operations of a machine.
pub(super) fn operations_of(id: &str) -> Option<String> {
    let subscription = subscription_of(id)?;
    Some(format!(
        "/subscriptions/{subscription}/providers/{PROVIDER}/locations/"
    ))
}

/// The right to power this machine off.
pub(super) fn power_off_of(id: &str) -> &'static str {
    match id.contains(&format!("/{SCALE_SETS}/")) {
        true => "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/powerOff/action",
        false => "Microsoft.Compute/virtualMachines/powerOff/action",
    }
}

fn subscription_of(id: &str) -> Option<&str> {
    let rest = id.trim_start_matches('/').strip_prefix("subscriptions/")?;
    rest.split('/').next()
}

/// The path of a link that the other side gives: it is followed at this address and below this path alone, so that a token goes nowhere else.
///
/// # Errors
/// It leads elsewhere, in words.
pub(super) fn path_of(link: &str, own: &Address, below: &str) -> Result<String, String> {
    let (origin, path) = split(link);
    let is_own = Address::parse(origin).is_ok_and(|it| it == *own);
    let start = path.get(..below.len());
    let is_below = start.is_some_and(|it| it.eq_ignore_ascii_case(below));
    let is_plain = path.len() <= LINK_BYTES_MAX
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && !path.contains("..");
    match is_own && is_below && is_plain {
        true => Ok(path.to_owned()),
        false => Err(format!(
            "it leads to {}, which is not followed",
            printable(link, 100)
        )),
    }
}
