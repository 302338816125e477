//! The BMC against clients that none of us wrote, and against a client of the test's for what these do not show.

mod captures;
mod client;
mod judges;
mod login;
mod network;
mod nonsense;
mod power;

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use super::*;
use crate::bmc::Plug;

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e31";
const SOON: Duration = Duration::from_secs(5);

struct Bench {
    bmc: IpmiBmc,
    plug: Arc<Plug>,
}

fn bench() -> Bench {
    bench_with(Settings::default())
}

fn bench_with(settings: Settings) -> Bench {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let address: IpAddr = [127, 81, 0, NEXT.fetch_add(1, Ordering::Relaxed)].into();
    let plug = Arc::new(Plug::new("node-1", UUID));
    let bmc = IpmiBmc::start(address, plug.clone(), settings).expect("a BMC");
    Bench { bmc, plug }
}
