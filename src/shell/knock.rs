//! Does this node's kubelet answer? Knocks at its port, and is not taken in by who answers for everybody.
//!
//! Whatever takes a connection there counts as life (S22), a kernel whose kubelet hangs too: a doubtful answer makes no fence come sooner. Two
//! answers say nothing of this node: the certificate of another node's kubelet, which has the address by now; and a connection without a
//! certificate where an address that no machine has connects as well, as through the proxy of a service mesh. That one would hold each fence for ever.

use super::outside::Knock;
use fencing_cluster::client::{Clients, ask};
use fencing_cluster::slim::Kubelet;
use fencing_cluster::slim::SlimNode;
use fencing_cluster::stop::Stop;
use fencing_core::observed::Ready;
use fencing_drivers::address::AddressRules;
use fencing_drivers::tls::{CertificateCheck, client_config};
use futures::future::join_all;
use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// How long the kubelet's port is given to answer.
const KUBELET_TIMEOUT: Duration = Duration::from_millis(300);
/// How long who has answered is given to say who it is.
const CERTIFICATE_TIMEOUT: Duration = Duration::from_millis(700);
/// Of TEST-NET-1 (RFC 5737): no machine has it.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// A kubelet's serving certificate names it so (signer kubernetes.io/kubelet-serving); one that it has signed itself does not.
const NODE_USER: &[u8] = b"system:node:";
/// Nodes that are looked at when the operator starts.
const NODES_MAX: u32 = 50;
/// Pause after a list that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// An address that no machine has, as seen from a kubelet's. There is none on loopback, nor where `--deny-device-cidr` denies it, as in a lab.
pub(super) fn nobody_beside(rules: &AddressRules, kubelet: IpAddr) -> Option<IpAddr> {
    let is_allowed = !kubelet.is_loopback() && rules.judge("", NOBODY).is_ok();
    is_allowed.then_some(NOBODY)
}

/// What became of a knock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knocked {
    /// Something answers.
    Answers,
    /// The connection was refused: a machine has that address, and runs; or what stands before it refuses.
    Refused,
    /// Nothing answers: not in time, or the network knows of no machine at that address.
    Silent,
    /// Nothing is known of this node: somebody else answers there, or it could not be tried.
    Unclear,
}

/// The address is the Node's choice: no name is looked up for it, and no service of this host or of a cloud is opened (S16).
pub(super) async fn knock(
    rules: &AddressRules,
    kubelet: &Kubelet,
    nobody_beside: fn(&AddressRules, IpAddr) -> Option<IpAddr>,
) -> Knocked {
    let Some(address) = kubelet
        .address
        .parse()
        .ok()
        .filter(|it| rules.allow_kubelet(*it))
    else {
        return Knocked::Unclear;
    };
    let stream = match connect(address, kubelet.port).await {
        Ok(stream) => stream,
        Err(error) => {
            return match error.kind() {
                ErrorKind::ConnectionRefused => Knocked::Refused,
                ErrorKind::TimedOut | ErrorKind::HostUnreachable => Knocked::Silent,
                _ => Knocked::Unclear,
            };
        }
    };
    let is_of_node = match certificate(stream, address).await {
        Some(certificate) => node_of(&certificate).is_none_or(|it| it == kubelet.node.as_bytes()),
        None => match nobody_beside(rules, address) {
            Some(nobody) => connect(nobody, kubelet.port).await.is_err(),
            None => true,
        },
    };
    match is_of_node {
        true => Knocked::Answers,
        false => Knocked::Unclear,
    }
}

async fn connect(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let connected = TcpStream::connect(SocketAddr::new(address, port));
    timeout(KUBELET_TIMEOUT, connected).await?
}

/// What it presents, and has shown to hold the key of; its signature is nobody's that is known here.
async fn certificate(stream: TcpStream, address: IpAddr) -> Option<Vec<u8>> {
    let config = client_config(&CertificateCheck::None, Timestamp::UNIX_EPOCH).ok()?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::from(address), stream);
    let stream = timeout(CERTIFICATE_TIMEOUT, stream).await.ok()?.ok()?;
    let chain = stream.get_ref().1.peer_certificates()?;
    Some(chain.first()?.to_vec())
}

/// The node that a certificate in DER names, in the one text that begins so; its length stands before it.
fn node_of(certificate: &[u8]) -> Option<&[u8]> {
    let mut windows = certificate.windows(NODE_USER.len());
    let at = windows.position(|it| it == NODE_USER)?;
    let length = usize::from(*certificate.get(at.checked_sub(1)?)?);
    certificate.get(at..at + length)?.strip_prefix(NODE_USER)
}

/// Says once, when the operator starts, whether the knock is blind or deaf from here.
pub async fn look(clients: Clients, rules: AddressRules, kubelet: Arc<Knock>, stop: Stop) {
    let api = Api::<SlimNode>::all(clients.reads);
    let some = ListParams::default().limit(NODES_MAX);
    let nodes = loop {
        match stop.or(ask(api.list(&some))).await {
            None => return,
            Some(Ok(nodes)) => break nodes.items,
            Some(Err(_)) => {}
        }
        if stop.or(sleep(RETRY_PAUSE)).await.is_none() {
            return;
        }
    };
    let nobody = |kubelet| nobody_beside(&rules, kubelet);
    if let Some(words) = finding(&nodes, &kubelet, nobody).await {
        tracing::warn!("{words}");
    }
}

/// What is wrong with the knock, if anything is, and the way out.
async fn finding(
    nodes: &[SlimNode],
    knock: &Arc<Knock>,
    nobody_beside: impl Fn(IpAddr) -> Option<IpAddr>,
) -> Option<String> {
    let ready = nodes.iter().filter(|it| it.view().ready() == Ready::True);
    let ready: Vec<Kubelet> = ready.filter_map(SlimNode::kubelet).collect();
    let first = ready.first()?;
    let nobody = first.address.parse().ok().and_then(nobody_beside);
    if let Some(nobody) = nobody
        && connect(nobody, first.port).await.is_ok()
    {
        return Some(format!(
            "{nobody}:{} accepts connections, and no machine has that address; take the operator out of the service mesh (sidecar.istio.io/inject: \"false\", linkerd.io/inject: disabled)",
            first.port
        ));
    }
    let answers = join_all(ready.iter().map(|it| knock(it.clone()))).await;
    (!answers.contains(&Knocked::Answers)).then(|| {
        format!(
            "none of {} Ready nodes answers at its kubelet's port ({} at {}:{}), so a fence detects no live kubelet; allow that port (NetworkPolicy, firewall)",
            ready.len(),
            first.node,
            first.address,
            first.port
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake;
    use futures::FutureExt;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tokio_rustls::TlsAcceptor;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

    fn lab() -> AddressRules {
        AddressRules::new(vec!["127.0.0.0/8".parse().expect("a range")], Vec::new())
    }

    fn kubelet(port: u16) -> Kubelet {
        Kubelet {
            node: "worker-1".to_owned(),
            address: HERE.to_string(),
            port,
        }
    }

    /// Takes connections, and presents a certificate of this name; none: says nothing.
    async fn listens(tasks: &mut JoinSet<()>, name: Option<&str>) -> u16 {
        let listener = TcpListener::bind((HERE, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let acceptor = name.map(|name| {
            let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
            parameters
                .distinguished_name
                .push(DnType::OrganizationName, "system:nodes");
            parameters.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().expect("a key");
            let certificate = parameters.self_signed(&key).expect("a certificate");
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(
                    vec![certificate.der().clone()],
                    PrivateKeyDer::Pkcs8(key.serialize_der().into()),
                );
            TlsAcceptor::from(Arc::new(config.expect("a server")))
        });
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Some(acceptor) = &acceptor {
                    let _ = acceptor.accept(stream).await;
                }
            }
        });
        port
    }

    fn is_answer(knocked: Knocked) -> bool {
        knocked == Knocked::Answers
    }

    /// S24: a machine that refuses runs.
    #[tokio::test]
    async fn a_port_that_refuses_is_told_from_one_that_is_silent_or_not_tried() {
        let port = listens(&mut JoinSet::new(), None).await;
        let ask = async |kubelet: &Kubelet| knock(&lab(), kubelet, nobody_beside).await;
        // The listener is gone with its task.
        let mut refused = ask(&kubelet(port)).await;
        for _ in 0..20 {
            refused = match refused {
                Knocked::Refused => break,
                _ => ask(&kubelet(port)).await,
            };
        }
        assert_eq!(refused, Knocked::Refused);
        let mut named = kubelet(port);
        named.address = "localhost".to_owned();
        assert_eq!(ask(&named).await, Knocked::Unclear);
    }

    #[tokio::test]
    async fn the_certificate_of_another_nodes_kubelet_is_no_life_of_this_one() {
        let mut tasks = JoinSet::new();
        for (name, lives) in [
            ("system:node:worker-1", true),
            ("system:node:worker-10", false),
            // One that the kubelet has signed itself.
            ("worker-2@1700000000", true),
        ] {
            let port = listens(&mut tasks, Some(name)).await;
            let ask = async || is_answer(knock(&lab(), &kubelet(port), nobody_beside).await);
            assert!(is_in_the_end(lives, ask).await, "{name}");
        }
    }

    /// On a busy machine a handshake may take longer than it may, and then says nothing: it is asked again.
    async fn is_in_the_end(lives: bool, ask: impl AsyncFn() -> bool) -> bool {
        for _ in 0..20 {
            if ask().await == lives {
                return true;
            }
        }
        false
    }

    /// A kernel takes connections though its kubelet hangs; a proxy takes them for whatever address.
    #[tokio::test]
    async fn a_connection_without_a_certificate_is_life_unless_nobody_answers_too() {
        let mut tasks = JoinSet::new();
        let port = listens(&mut tasks, None).await;
        let ask = async || is_answer(knock(&lab(), &kubelet(port), |_, _| Some(ELSEWHERE)).await);
        assert!(ask().await);
        let _proxy = TcpListener::bind((ELSEWHERE, port)).await.expect("a port");
        assert!(!ask().await);
        // Who presents a certificate is somebody, also behind a proxy.
        let port = listens(&mut tasks, Some("system:node:worker-1")).await;
        let _proxy = TcpListener::bind((ELSEWHERE, port)).await.expect("a port");
        let ask = async || is_answer(knock(&lab(), &kubelet(port), |_, _| Some(ELSEWHERE)).await);
        assert!(is_in_the_end(true, ask).await);
    }

    #[test]
    fn nobody_is_asked_where_no_device_may_be() {
        let worker = IpAddr::from([10, 0, 0, 1]);
        let rules = AddressRules::default();
        assert_eq!(nobody_beside(&rules, worker), Some(NOBODY));
        assert_eq!(nobody_beside(&rules, HERE), None);
        let range = "192.0.2.0/24".parse().expect("a range");
        let denies = AddressRules::new(Vec::new(), vec![(range, "denied".to_owned())]);
        assert_eq!(nobody_beside(&denies, worker), None);
    }

    #[tokio::test]
    async fn a_knock_that_is_deaf_or_blind_is_told_with_the_way_out() {
        let mut tasks = JoinSet::new();
        let port = listens(&mut tasks, None).await;
        let node = |name: &str, ready: &str| {
            let mut node = fake::node();
            node["metadata"]["name"] = json!(name);
            node["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
            node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
            node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": port}});
            serde_json::from_value::<SlimNode>(node).expect("a Node")
        };
        let nodes = [node("a", "True"), node("b", "True"), node("c", "False")];
        let answered_by = |name: &'static str| -> Arc<Knock> {
            Arc::new(move |it: Kubelet| {
                let answer = match it.node == name {
                    true => Knocked::Answers,
                    false => Knocked::Silent,
                };
                async move { answer }.boxed()
            })
        };
        let said = async |nodes: &[SlimNode], by| {
            finding(nodes, &answered_by(by), |_| Some(ELSEWHERE)).await
        };
        assert_eq!(said(&nodes, "b").await, None);
        assert_eq!(said(&nodes[2..], "a").await, None, "no node is Ready");
        // One that is not Ready says nothing of the way to the others.
        let deaf = said(&nodes, "c").await.expect("deaf");
        assert!(deaf.starts_with("none of 2 Ready nodes answers"), "{deaf}");
        let _proxy = TcpListener::bind((ELSEWHERE, port)).await.expect("a port");
        let blind = said(&nodes, "b").await.expect("blind");
        assert!(blind.starts_with("127.0.0.2:"), "{blind}");
    }
}
