//! Keeps the passwords of devices from the API server: whoever may write a FenceDevice could name its address there, and so have the operator
//! talk to it from the inside, with a password of a device in hand.
//!
//! Its address is known without any right: from the configuration, and in a pod from the environment, where it is the one of the Service
//! `kubernetes`. The networks of pods and services are another matter: nothing says what they are without a right of its own, but for
//! `spec.podCIDRs` of the Nodes, which a kubelet may write where nobody has; and a range that a compromised node chooses could keep the
//! operator from the devices of all others. They are named with `--deny-device-cidr`.

use fencing_cluster::stop::Stop;
use fencing_drivers::address::AddressRules;
use http::Uri;
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// What a pod is told of the Service `kubernetes`.
const SERVICE_HOST: &str = "KUBERNETES_SERVICE_HOST";
/// Pause between two looks at where the name of an API server leads: that may change.
const PERIOD: Duration = Duration::from_mins(1);
/// How long a name may take to be looked up.
const LOOKUP_TIME_MAX: Duration = Duration::from_secs(5);

/// Denies the addresses of the API server. Gives the host that is a name, which has to be looked up: [`follow`].
#[must_use]
pub fn deny(
    rules: &AddressRules,
    server: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(String, u16)> {
    if let Some(service) = variable(SERVICE_HOST).and_then(|host| literal(&host)) {
        rules.deny_api_server(service);
    }
    let server: Uri = server.parse().ok()?;
    let host = server.host()?;
    match literal(host) {
        Some(address) => {
            rules.deny_api_server(address);
            None
        }
        None => Some((host.to_owned(), server.port_u16().unwrap_or(443))),
    }
}

/// An IP address, in brackets or not.
fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

/// Denies whatever the API server's name leads to, now and later.
pub async fn follow(rules: AddressRules, (host, port): (String, u16), stop: Stop) {
    let mut is_told = false;
    loop {
        let found = timeout(LOOKUP_TIME_MAX, rules.lookup().of(&host, port)).await;
        match found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(found) => {
                let found = found.into_iter();
                found.for_each(|address| rules.deny_api_server(address.ip()));
            }
            Err(error) if !is_told => {
                is_told = true;
                tracing::warn!(
                    host,
                    %error,
                    "the API server's name cannot be resolved: a FenceDevice with its address is not refused until it can"
                );
            }
            Err(_) => {}
        }
        if stop.or(sleep(PERIOD)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_cluster::stop::Stopper;
    use fencing_drivers::address::Lookup;
    use futures::FutureExt;
    use std::net::SocketAddr;

    const DENIED: &str = "bmc is 192.0.2.7, and the API server may not be a fence device; correct the address, or allow it with --allow-device-cidr";

    fn judged(rules: &AddressRules, address: &str) -> Result<(), String> {
        let address = address.parse().expect("an address");
        rules
            .judge("bmc", address)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_api_server_is_no_device_by_whatever_address_it_is_known() {
        let nothing = |_: &str| None;
        for server in ["https://192.0.2.7:6443", "https://[::ffff:192.0.2.7]:6443"] {
            let rules = AddressRules::default();
            assert_eq!(deny(&rules, server, nothing), None, "{server}");
            assert_eq!(judged(&rules, "192.0.2.7").expect_err("denied"), DENIED);
            assert!(judged(&rules, "::ffff:192.0.2.7").is_err(), "{server}");
            assert_eq!(judged(&rules, "192.0.2.8"), Ok(()), "{server}");
        }
        let rules = AddressRules::default();
        let of_pod = |name: &str| (name == SERVICE_HOST).then(|| "192.0.2.7".to_owned());
        let server = "https://api.example.com:6443/path";
        let name = Some(("api.example.com".to_owned(), 6443));
        assert_eq!(deny(&rules, server, of_pod), name);
        assert_eq!(judged(&rules, "192.0.2.7").expect_err("denied"), DENIED);
    }

    /// Whose BMCs are behind the same address as the API server knows better.
    #[test]
    fn what_is_allowed_is_allowed() {
        let rules = AddressRules::new(vec!["192.0.2.0/24".parse().expect("a range")], Vec::new());
        assert_eq!(deny(&rules, "https://192.0.2.7", |_| None), None);
        assert_eq!(judged(&rules, "192.0.2.7"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_followed_wherever_it_leads_and_what_it_led_to_stays_denied() {
        let asked = std::sync::atomic::AtomicU8::new(0);
        let lookup = Lookup::new(move |_, port| {
            let turn = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async move {
                match turn {
                    0 => Err(io::ErrorKind::NotFound.into()),
                    turn => Ok(vec![SocketAddr::from(([192, 0, 2, turn], port))]),
                }
            }
            .boxed()
        });
        let rules = AddressRules::default().with_lookup(lookup);
        let (stopper, stop) = Stopper::new();
        let place = ("api.example.com".to_owned(), 6443);
        let following = tokio::spawn(follow(rules.clone(), place, stop));
        sleep(3 * PERIOD).await;
        for denied in ["192.0.2.1", "192.0.2.2"] {
            assert!(judged(&rules, denied).is_err(), "{denied}");
        }
        stopper.stop();
        following.await.expect("no panic");
    }
}
