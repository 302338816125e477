//! `kubectl fence dashboard`: the fleet and its incidents in a browser, live, with the rights of whoever asks.
//!
//! It reads and never writes. It listens on loopback only, answers nobody who does not know this run's address, and what it may not read it says in
//! the place where it would stand. Four watches keep the [`board`]; a browser is sent the pieces of it that have changed.

mod board;
mod feed;
mod fleet;
mod pieces;
mod server;
mod view;

use super::cluster::{Cluster, wall};
use super::output::print;
use super::watched::Trouble;
use super::{Done, Error};
use board::Board;
use feed::Feed;
use fleet::{World, cells};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::signal::ctrl_c;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Changes within this time go to browsers together.
const PAUSE: Duration = Duration::from_millis(200);
/// What the time of day changes (a policy's window) is seen after this time at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Between two questions for the API server's time: this machine may sleep, and its clock be set.
const ASK_TIME_AGAIN: Duration = Duration::from_mins(1);

const EXAMPLES: &str = "\
Examples:
  Prints an address to open in a browser on this machine:
      kubectl fence dashboard

  On a host that you reach by ssh: a port that you know, forwarded:
      ssh -L 8090:127.0.0.1:8090 HOST kubectl fence dashboard --port 8090

It reads with your own rights and writes nothing. The address is good until the
command ends; everyone who has it, on this machine, sees what you see.";

/// Show the fleet and its incidents in a browser, live and read-only
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Port to listen on [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,

    /// Loopback address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = loopback)]
    address: IpAddr,
}

fn loopback(text: &str) -> Result<IpAddr, String> {
    let address: Result<IpAddr, _> = text.parse();
    let address = address.map_err(|_| "must be an IP address, such as 127.0.0.1".to_owned())?;
    match address.is_loopback() {
        true => Ok(address),
        false => Err(
            "must be a loopback address (127.0.0.1 or ::1), for the page has your rights; use a tunnel: ssh -L 8090:127.0.0.1:8090 HOST".to_owned(),
        ),
    }
}

/// What is shown, and what it is made of.
struct Live {
    board: Mutex<Board>,
    version: watch::Sender<u64>,
    feed: Feed,
    server: String,
    /// How far the API server's clock is ahead of this machine's, as it has said last.
    ahead: Mutex<SignedDuration>,
}

impl Live {
    /// What time it is, by the API server's clock.
    fn now(&self) -> Timestamp {
        wall(*self.ahead())
    }

    fn ahead(&self) -> MutexGuard<'_, SignedDuration> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What does not work, dated by the API server's clock.
    fn troubles(&self) -> Vec<(&'static str, Option<Trouble>)> {
        let ahead = *self.ahead();
        let troubles = self.feed.troubles().into_iter();
        let dated = |trouble: Trouble| Trouble {
            since: trouble
                .since
                .map(|it| it.saturating_add(ahead).unwrap_or(it)),
            ..trouble
        };
        let dated = troubles.map(|(what, trouble)| (what, trouble.map(dated)));
        dated.collect()
    }

    /// Brings the board up to date.
    fn look(&self, stages: &mut Option<BTreeMap<String, String>>) {
        let (world, now) = (self.feed.world(), self.now());
        let cells = cells(&world, now);
        let pieces = pieces::pieces(&world, &cells, &self.troubles(), now);
        let said = match (&world.fences, stages.as_ref()) {
            (Ok(_), Some(before)) => pieces::said(before, &pieces::stages(&world)),
            // What was there when the page came up is nothing new.
            _ => Vec::new(),
        };
        if world.fences.is_ok() {
            *stages = Some(pieces::stages(&world));
        }
        let mut board = self.board();
        if board.update(pieces, said) {
            let version = board.version();
            drop(board);
            // Nobody may be looking.
            self.version.send_replace(version);
        }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn world(&self) -> World {
        self.feed.world()
    }
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: Cluster, args: Args) -> Done {
    let asked = SocketAddr::new(args.address, args.port);
    let listener = server::bind(asked).await.map_err(Error::No)?;
    let address = listener.local_addr()?;
    let token = token().map_err(Error::No)?;
    let changed = Arc::new(Notify::new());
    // They end with it.
    let mut tasks = JoinSet::new();
    let live = Arc::new(Live {
        board: Mutex::default(),
        version: watch::Sender::new(0),
        feed: Feed::start(&cluster, &changed, &mut tasks),
        server: cluster.clients.server.clone(),
        ahead: Mutex::default(),
    });
    let site = server::Site::new(address, &token, Arc::clone(&live));
    tasks.spawn(server::serve(listener, site));
    tasks.spawn(keep_time(cluster, Arc::clone(&live), Arc::clone(&changed)));
    let mut stages = None;
    live.look(&mut stages);
    print(&format!("http://{address}/{token}/\n"))?;
    eprintln!("Read-only, for a browser on this machine, until Ctrl-C ends it.");
    let keep = async {
        loop {
            // Whether something has changed or it is time to look makes no difference.
            let _ = timeout(LOOK_AGAIN, changed.notified()).await;
            live.look(&mut stages);
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = keep => {}
        interrupted = ctrl_c() => interrupted?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks for the API server's time again and again. While it does not say, what it has said last holds.
async fn keep_time(cluster: Cluster, live: Arc<Live>, changed: Arc<Notify>) {
    loop {
        let asked = timeout(ASK_TIME_AGAIN, cluster.says_ahead()).await;
        if let Ok(Some(ahead)) = asked {
            *live.ahead() = ahead;
            changed.notify_one();
        }
        sleep(ASK_TIME_AGAIN).await;
    }
}

/// Nobody guesses it: 128 bits, in hexadecimal digits.
fn token() -> Result<String, String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        format!("this machine returns no random bytes for the page's address: {error}; try again")
    })?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_listens_on_loopback_only_and_says_why() {
        for address in ["127.0.0.1", "::1", "127.1.2.3"] {
            assert!(loopback(address).is_ok(), "{address}");
        }
        for address in ["0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "localhost"] {
            let error = loopback(address).expect_err(address);
            assert!(error.contains("127.0.0.1"), "{error}");
        }
    }

    #[test]
    fn each_run_has_an_address_of_its_own() {
        let (one, other) = (token().expect("bytes"), token().expect("bytes"));
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
    }
}
