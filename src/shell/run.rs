//! The life of the operator: connect, check, serve, work, end.

use super::alive::{Alive, Apart};
use super::api_address;
use super::events::Events;
use super::health::{Gate, Health};
use super::knock;
use super::lease::Elector;
use super::metrics::{self, Metrics};
use super::outside::Outside;
use super::own_cluster::OwnApiServer;
use super::server::tls::{self, Certificate};
use super::server::{self, Server, Site};
use super::term::Replica;
use crate::args::Settings;
use fencing_cluster::client::{self, AskError, Clients};
use fencing_cluster::preflight;
use fencing_cluster::schema;
use fencing_cluster::stop::{PROCESS_END, Stop};
use fencing_cluster::text;
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::surroundings::{InCluster, Surroundings};
use kube::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Pause between two tries to reach the API server, and between two looks at missing rights.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// How long the API server may take to answer a check.
const CHECK_TIME_MAX: Duration = Duration::from_secs(10);

/// Why the operator ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No signals.
    #[error("failed to listen for signals")]
    Signals(#[source] std::io::Error),
    /// No thread for what keeps it alive.
    #[error("failed to start a thread")]
    Thread(#[source] std::io::Error),
    /// No metrics.
    #[error(transparent)]
    Metrics(#[from] metrics::Error),
    /// No port.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// No certificate.
    #[error(transparent)]
    Certificate(#[from] tls::Error),
    /// No way to the API server.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// An API server that cannot be worked with.
    #[error(transparent)]
    Cluster(#[from] preflight::Error),
    /// No random bytes.
    #[error("the system returns no random bytes, which identify this process among replicas")]
    Randomness,
    /// The control loops have ended or panicked: a new process is better than one that does nothing.
    #[error("the control loops ended ({0}); see the log above, the kubelet restarts the operator")]
    Loops(String),
}

impl Error {
    /// Exit code: 2 for what only a human can mend (flags, kubeconfig, port, cluster version, missing CRDs), 1 for the rest.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Server(_) | Self::Certificate(_) | Self::Client(_) | Self::Cluster(_) => 2,
            Self::Signals(_)
            | Self::Thread(_)
            | Self::Metrics(_)
            | Self::Randomness
            | Self::Loops(_) => 1,
        }
    }
}

/// What the operator works with, and what it shows of itself.
#[derive(Clone)]
pub struct Equipment {
    /// The way to the API server.
    pub clients: Clients,
    /// The ways to everything else.
    pub outside: Outside,
    /// For whoever scrapes them.
    pub metrics: Arc<Metrics>,
    /// For the probes of the kubelet.
    pub health: Health,
    /// For the Lease.
    pub alive: Alive,
}

/// As many open files as this process may have: a rack that is down holds a connection for each of its devices, and the runtime's soft limit
/// is 1024 as a rule. Without files /livez fails too, and the kubelet ends the leader.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit = ?limit.current, "the limit of open files stays low; set it where the container runtime is configured");
    }
}

/// Runs the operator until a signal or until it cannot go on.
///
/// # Errors
/// [`Error`]; none when a signal ended it.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let stop = Stop::on_signals().map_err(Error::Signals)?;
    raise_open_files();
    let metrics = Arc::new(Metrics::new()?);
    let health = Health::default();
    let mut tasks = JoinSet::new();

    let apart = Apart::thread().map_err(Error::Thread)?;
    let (kubeconfig, observer) = (settings.kubeconfig.clone(), metrics.observer());
    let for_lease =
        apart.run(async move { Clients::observed(kubeconfig.as_deref(), observer).await });
    let alive = Alive {
        client: for_lease.await?.writes,
        apart: apart.clone(),
    };
    let clients = Clients::observed(settings.kubeconfig.as_deref(), metrics.observer()).await?;
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(name) = api_address::deny(&settings.addresses, &clients.server, variable) {
        let rules = settings.addresses.clone();
        tasks.spawn(api_address::follow(rules, name, stop.clone()));
    }
    tasks.spawn(schema::watch(clients.clone(), stop.clone()));
    let tls = settings.http_tls_dir.as_deref();
    let tls = tls.map(Certificate::read).transpose()?;
    let server = apart.run(Server::bind(settings.http_bind)).await?;
    tracing::info!(address = %server.address(), "serves /livez, /readyz and /metrics");
    let site = Site {
        health: health.clone(),
        metrics: Arc::clone(&metrics),
    };
    tasks.spawn_on(server.serve(site, tls, stop.clone()), apart.handle());
    let own_cluster = Arc::new(OwnApiServer::new(&clients));
    let outside = Outside {
        surroundings: Surroundings {
            own_cluster: InCluster(Some(own_cluster)),
            ..Surroundings::of(variable)
        },
        ..Outside::network(&settings.addresses)
    };
    let kubelet = Arc::clone(&outside.kubelet);
    let rules = settings.addresses.clone();
    tasks.spawn(knock::look(clients.clone(), rules, kubelet, stop.clone()));
    let equipment = Equipment {
        clients,
        outside,
        metrics,
        health,
        alive,
    };
    work(&settings, equipment, &stop, tasks).await
}

/// All that the operator does once it can reach the API server and is listened to; `tasks` end with it. A simulation runs this.
///
/// # Errors
/// [`Error`]; none when `stop` ended it.
pub async fn work(
    settings: &Settings,
    equipment: Equipment,
    stop: &Stop,
    mut tasks: JoinSet<()>,
) -> Result<(), Error> {
    let Equipment {
        clients, health, ..
    } = &equipment;
    let Some(version) = stop.or(reach(clients, health)).await else {
        return Ok(());
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        kubernetes = version?,
        namespace = settings.namespace,
        node = settings.node_name,
        "node-fencing-operator"
    );
    if settings.node_name.is_none() {
        tracing::warn!(
            "NODE_NAME is not set: if this process runs on a node of the cluster, that node may be fenced too"
        );
    }
    tasks.spawn(watch_rights(
        clients.clone(),
        settings.namespace.clone(),
        health.clone(),
        stop.clone(),
    ));
    tasks.spawn(keep_warm(clients.clone(), stop.clone()));
    let (events, publisher) = Events::new(
        clients.reads.clone(),
        settings.pod_name.as_deref(),
        Arc::clone(&equipment.metrics),
    );
    tasks.spawn(publisher.run(stop.clone()));

    let elector = elector(settings, &equipment.alive.client)?;
    let (replica, changed) = Replica::start(settings, equipment, events);
    let mut loops = tokio::spawn(replica.run(changed, elector, stop.clone()));
    tokio::select! {
        // First: the loops end with it too.
        biased;
        () = stop.wait() => {}
        // They may hear of the signal a moment before this does.
        ended = &mut loops => if !stop.requested() {
            let how = ended.map_or_else(|error| error.to_string(), |()| "without an error".to_owned());
            return Err(Error::Loops(how));
        }
    }
    let ended = timeout(PROCESS_END, async {
        // The Lease is given back at its end.
        let _ = loops.await;
        while tasks.join_next().await.is_some() {}
    })
    .await;
    if ended.is_err() {
        tracing::warn!(
            "tasks still run {} s after the signal and are aborted",
            PROCESS_END.as_secs()
        );
    }
    Ok(())
}

/// This process as a candidate. A container that starts again in its pod is who it was, and need not wait for the end of its own Lease;
/// whoever runs outside of a cluster is told apart from all others.
fn elector(settings: &Settings, client: &Client) -> Result<Elector, Error> {
    let name = match &settings.pod_name {
        Some(pod) => pod.clone(),
        None => {
            let mut bytes = [0; 4];
            getrandom::fill(&mut bytes).map_err(|_| Error::Randomness)?;
            let host = rustix::system::uname();
            let host = host.nodename().to_string_lossy();
            format!("{host}_{:08x}", u32::from_be_bytes(bytes))
        }
    };
    Ok(Elector::new(
        client.clone(),
        &settings.namespace,
        name,
        settings.election,
        Clock::SYSTEM,
    ))
}

/// Tries until the API server answers and can be worked with. A cluster that has just lost a node may well have lost its API
/// server with it: to end here would only add the kubelet's restart delay to the outage.
async fn reach(clients: &Clients, health: &Health) -> Result<String, Error> {
    loop {
        let words = match timeout(CHECK_TIME_MAX, preflight::cluster(clients)).await {
            Ok(Ok(version)) => {
                health.open(Gate::Cluster);
                if preflight::is_untried(&version) {
                    tracing::warn!(
                        version,
                        "this version of Kubernetes has not been tested with the operator; upgrade it, or try a fence on a node without workload"
                    );
                }
                return Ok(version);
            }
            Ok(Err(error)) if !error.is_transient() => return Err(error.into()),
            Ok(Err(error)) => text::chain(&error),
            Err(_) => late(clients, "for its version and what it serves"),
        };
        tracing::warn!("{words}, trying again in {} s", RETRY_PAUSE.as_secs());
        health.close(Gate::Cluster, vec![words]);
        sleep(RETRY_PAUSE).await;
    }
}

/// That the API server took too long to answer a check.
fn late(clients: &Clients, what: &'static str) -> String {
    let timeout = AskError::Timeout(CHECK_TIME_MAX);
    preflight::unanswered(clients, what, timeout).to_string()
}

/// Keeps as many connections open as a round of an incident uses at once: one that has to be opened first costs a TLS handshake
/// between a policy's deadline and its taint. Idle ones are closed after 90 s (hyper-util's default).
async fn keep_warm(clients: Clients, stop: Stop) {
    const PERIOD: Duration = Duration::from_secs(30);
    let Clients { reads, writes, .. } = &clients;
    loop {
        let requests = [reads, reads, reads, writes].map(|client| client.apiserver_version());
        // How it goes is no matter here: whoever needs an answer asks for one.
        let asked = timeout(CHECK_TIME_MAX, futures::future::join_all(requests));
        if stop.or(asked).await.is_none() || stop.or(sleep(PERIOD)).await.is_none() {
            return;
        }
    }
}

/// Looks until no right is missing. One that is taken away later is noticed when the write is refused.
async fn watch_rights(clients: Clients, namespace: String, health: Health, stop: Stop) {
    let mut told = vec![];
    loop {
        let look = preflight::missing_rights(&clients, &namespace);
        let reasons = match stop.or(timeout(CHECK_TIME_MAX, look)).await {
            None => return,
            Some(Ok(Ok(missing))) if missing.is_empty() => return health.open(Gate::Rights),
            Some(Ok(Ok(missing))) => missing
                .iter()
                .map(|it| format!("RBAC does not grant: {it} (see deploy/rbac.yaml)"))
                .collect(),
            Some(Ok(Err(error))) => vec![text::chain(&error)],
            Some(Err(_)) => vec![late(&clients, preflight::RIGHTS_ASKED)],
        };
        if reasons != told {
            reasons
                .iter()
                .for_each(|reason| tracing::error!("not ready: {reason}"));
            told.clone_from(&reasons);
        }
        health.close(Gate::Rights, reasons);
        if stop.or(sleep(RETRY_PAUSE)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_of_open_files_is_raised_to_the_hard_one() {
        let limit = getrlimit(Resource::Nofile);
        let lowered = Rlimit {
            current: Some(limit.maximum.map_or(1 << 20, |most| most - 1)),
            ..limit
        };
        setrlimit(Resource::Nofile, lowered).expect("a lower limit");
        assert_ne!(getrlimit(Resource::Nofile).current, limit.maximum);
        raise_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    }
}
