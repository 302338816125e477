//! The life of the operator: connect, check, serve, work, end.

use super::brakes::Brakes;
use super::cache::{Caches, Change};
use super::client::{self, Clients};
use super::context::{Board, Context, Delays};
use super::control;
use super::devices::Devices;
use super::events::Events;
use super::health::{Gate, Health};
use super::history;
use super::metrics::{self, Metrics, Snapshot};
use super::policy_status::PolicyStatuses;
use super::preflight;
use super::probe::Prober;
use super::revision::Revision;
use super::server::{self, Server, Site};
use super::stop::{PROCESS_END, Stop};
use crate::args::Settings;
use crate::clock::Clock;
use crate::words;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
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
    /// No metrics.
    #[error(transparent)]
    Metrics(#[from] metrics::Error),
    /// No port.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// No way to the API server.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// An API server that cannot be worked with.
    #[error(transparent)]
    Cluster(#[from] preflight::Error),
    /// The control loops have ended or panicked: a new process is better than one that does nothing.
    #[error(
        "the control loops have ended ({0}); the log above says why; the kubelet starts the operator again"
    )]
    Loops(String),
}

impl Error {
    /// Exit code: 2 for what only a human can mend (flags, kubeconfig, port, cluster version, missing CRDs), 1 for the rest.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Server(_) | Self::Client(_) | Self::Cluster(_) => 2,
            Self::Signals(_) | Self::Metrics(_) | Self::Loops(_) => 1,
        }
    }
}

/// Runs the operator until a signal or until it cannot go on.
///
/// # Errors
/// [`Error`]; none when a signal ended it.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let stop = Stop::on_signals().map_err(Error::Signals)?;
    let metrics = Arc::new(Metrics::new()?);
    let health = Health::default();
    let mut tasks = JoinSet::new();

    let clients = Clients::new(&settings).await?;
    let server = Server::bind(settings.http_bind).await?;
    tracing::info!(address = %server.address(), "serves /livez, /readyz and /metrics");
    let site = Site {
        health: health.clone(),
        metrics: Arc::clone(&metrics),
    };
    tasks.spawn(server.serve(site, stop.clone()));

    let Some(version) = stop.or(reach(&clients, &health)).await else {
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
        Arc::clone(&metrics),
    );
    tasks.spawn(publisher.run(stop.clone()));

    let loops = control(&settings, &clients, events, &metrics, &health, &stop);
    tokio::select! {
        // First: the loops end with it too.
        biased;
        () = stop.wait() => {}
        // They may hear of the signal a moment before this does.
        ended = loops => if !stop.requested() {
            let how = ended.map_or_else(|error| error.to_string(), |()| "without an error".to_owned());
            return Err(Error::Loops(how));
        }
    }
    let ended = timeout(PROCESS_END, async {
        while tasks.join_next().await.is_some() {}
    })
    .await;
    if ended.is_err() {
        tracing::warn!(
            "something still runs {} s after the signal; it is cut off",
            PROCESS_END.as_secs()
        );
    }
    Ok(())
}

/// Starts the caches and the control loops.
fn control(
    settings: &Settings,
    clients: &Clients,
    events: Events,
    metrics: &Arc<Metrics>,
    health: &Health,
    stop: &Stop,
) -> JoinHandle<()> {
    let (changes, changed) = mpsc::unbounded_channel();
    let (wake, woken) = mpsc::unbounded_channel();
    let mut watches = JoinSet::new();
    let caches = Caches::start(&clients.reads, &changes, &mut watches);
    let devices = Arc::new(Devices::new(
        clients.reads.clone(),
        settings.namespace.clone(),
        settings.addresses.clone(),
        Clock::SYSTEM,
    ));
    let prober = Arc::new(Prober::new(
        caches.clone(),
        Arc::clone(&devices),
        clients.writes.clone(),
        Clock::SYSTEM,
        events.clone(),
        Arc::clone(metrics),
    ));
    let delays = Delays::default();
    let policies = Arc::new(PolicyStatuses::new(
        caches.clone(),
        Arc::clone(&prober),
        clients.writes.clone(),
        Clock::SYSTEM,
        events.clone(),
        delays.clone(),
    ));
    let (to_prober, of_devices) = mpsc::unbounded_channel();
    let (to_policies, of_policies) = mpsc::unbounded_channel();
    let context = Arc::new(Context {
        reads: clients.reads.clone(),
        writes: clients.writes.clone(),
        caches,
        devices,
        events,
        metrics: Arc::clone(metrics),
        board: Board::default(),
        delays,
        own_node: settings.node_name.clone(),
        wake,
        brakes: Brakes::default(),
        revision: Revision::default(),
        health: health.clone(),
    });
    gauges(&context, &prober, &policies, metrics);
    let peace = [
        prober.run(of_devices, stop.clone()).boxed(),
        policies.run(of_policies, stop.clone()).boxed(),
    ];
    let ways = Ways {
        changed,
        woken,
        others: [to_prober, to_policies],
    };
    let (loops, stop) = (loops(context, ways, peace), stop.clone());
    tokio::spawn(async move {
        // The watches end with this task.
        let _watches = watches;
        // Cut off in the middle of whatever they do: every step is safe to lose its process at.
        let _ = stop.or(loops).await;
    })
}

/// Who is told of what.
struct Ways {
    changed: mpsc::UnboundedReceiver<Change>,
    woken: mpsc::UnboundedReceiver<String>,
    others: [mpsc::UnboundedSender<Change>; 2],
}

/// The loops of the incidents and the detector, and beside them `peace`: what is no hurry.
async fn loops(context: Arc<Context>, ways: Ways, peace: [BoxFuture<'static, ()>; 2]) {
    // Asked by one task only: of several that wait for one kube store, only the last is woken.
    if context.caches.ready().await.is_err() {
        return;
    }
    context.health.open(Gate::Caches);
    let names = futures::stream::unfold(ways.woken, |mut woken| async {
        Some((woken.recv().await?, woken))
    });
    let incidents = control::run_incidents(Arc::clone(&context), Arc::default(), names);
    let detector = control::run_detector(Arc::clone(&context), ways.changed, ways.others);
    // On tasks of their own: a look at thousands of devices never delays an incident.
    let mut peace: JoinSet<()> = peace.into_iter().collect();
    peace.spawn(history::run(context));
    tokio::select! {
        _ = futures::future::join(incidents, detector) => {}
        Some(ended) = peace.join_next() => {
            tracing::error!(?ended, "the probes, or the statuses of the policies, have ended");
        }
    }
}

/// The gauges show what the caches and the incidents are at the moment of a scrape.
fn gauges(
    context: &Arc<Context>,
    prober: &Arc<Prober>,
    policies: &Arc<PolicyStatuses>,
    metrics: &Metrics,
) {
    let (board, caches) = (context.board.clone(), context.caches.clone());
    let (prober, policies) = (Arc::clone(prober), Arc::clone(policies));
    metrics.gauges_from(move || {
        let (policies, protected) = policies.snapshot();
        Snapshot {
            incidents: board.rows(),
            devices: prober.snapshot(),
            policies,
            protected,
            watches: caches.ages(),
        }
    });
}

/// Tries until the API server answers and can be worked with. A cluster that has just lost a node may well have lost its API
/// server with it: to end here would only add the kubelet's restart delay to the outage.
async fn reach(clients: &Clients, health: &Health) -> Result<String, Error> {
    loop {
        let words = match timeout(CHECK_TIME_MAX, preflight::cluster(&clients.reads)).await {
            Ok(Ok(version)) => {
                health.open(Gate::Cluster);
                return Ok(version);
            }
            Ok(Err(error)) if !error.is_transient() => return Err(error.into()),
            Ok(Err(error)) => words::chain(&error),
            Err(_) => client::no_answer(CHECK_TIME_MAX),
        };
        tracing::warn!("{words}; tries again in {} s", RETRY_PAUSE.as_secs());
        health.close(Gate::Cluster, vec![words]);
        sleep(RETRY_PAUSE).await;
    }
}

/// Keeps as many connections open as a round of an incident uses at once: one that has to be opened first costs a TLS handshake
/// between a policy's deadline and its taint. Idle ones are closed after 90 s (hyper-util's default).
async fn keep_warm(clients: Clients, stop: Stop) {
    const PERIOD: Duration = Duration::from_secs(30);
    let Clients { reads, writes } = &clients;
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
        let look = preflight::missing_rights(&clients.reads, &namespace);
        let reasons = match stop.or(timeout(CHECK_TIME_MAX, look)).await {
            None => return,
            Some(Ok(Ok(missing))) if missing.is_empty() => return health.open(Gate::Rights),
            Some(Ok(Ok(missing))) => missing
                .iter()
                .map(|it| format!("RBAC does not grant: {it} (see deploy/rbac.yaml)"))
                .collect(),
            Some(Ok(Err(error))) => vec![words::chain(&error)],
            Some(Err(_)) => vec![client::no_answer(CHECK_TIME_MAX)],
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
