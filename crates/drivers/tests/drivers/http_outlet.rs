//! Driver `httpOutlet` as its page shows it, each example against a fake that answers as the plug's own documentation says.

use crate::device::local_rules;
use fencing_api::device::{FenceDeviceSpec, HttpOutletDriver};
use fencing_core::reading::PowerState;
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::http_outlet::{Api, HttpOutlet, TOKEN};
use fencing_testbed::cloud::{Beside, Cloud};
use fencing_testbed::power::Power;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const PAGE: &str = include_str!("../../../../docs/how-to/http-outlet.md");

/// The FenceDevice of this name on the page.
fn example(name: &str) -> Value {
    let blocks = PAGE.split("```yaml\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let mut objects = blocks.flat_map(|block| {
        let objects: Vec<Value> = serde_saphyr::from_multiple(block).unwrap();
        objects
    });
    let found = objects.find(|it| it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("the page has no {name}"))
}

/// A plug with a machine on it, which runs, and what the page says of it.
struct Bench {
    machine: Arc<Plug>,
    cloud: Cloud<HttpOutlet>,
    settings: HttpOutletDriver,
}

impl Bench {
    fn start(api: Api, name: &str) -> Self {
        let uuid = "4c4c4544-0042-3510-8054-b4c04f4e4e02";
        let machine = Arc::new(Plug::new("node-1", uuid));
        let ca = BmcCa::new("plugs of a test").unwrap();
        let power: Arc<dyn Power> = machine.clone();
        let cloud = Cloud::start([127, 85, 3, 1].into(), power, HttpOutlet { api }, &ca).unwrap();
        let mut spec = example(name)["spec"].clone();
        spec["httpOutlet"]["url"] = cloud.url().into();
        let spec: FenceDeviceSpec = serde_json::from_value(spec).unwrap();
        let settings = spec.drivers.http_outlet.unwrap();
        assert_eq!(settings.needs_secret(), spec.credentials_ref.is_some());
        Self {
            machine,
            cloud,
            settings,
        }
    }

    fn driver(&self) -> Arc<dyn FenceDriver> {
        let all = [
            ("username", "fence"),
            ("password", "outlet-s3cret"),
            ("token", TOKEN),
        ];
        let all = all.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        let keys = self.settings.credential_keys();
        let credentials = match keys.is_empty() {
            true => Credentials::nobody(),
            false => Credentials::with_keys("plugs", keys, &all.into(), &BTreeMap::new()).unwrap(),
        };
        let parts = Parts {
            node: NodeFacts::named("worker-3"),
            address: Address::parse(&self.cloud.url()).unwrap(),
            secret: ("plugs".to_owned(), "1".to_owned()),
            credentials: Arc::new(credentials),
            verification: CertificateCheck::Full {
                ca_bundle_pem: Some(self.cloud.ca_pem().as_bytes().to_vec()),
            },
            rules: local_rules(),
            call_timeout: Duration::from_secs(60),
            command_timeout: Duration::from_secs(60),
            past: Default::default(),
            keyring: Arc::default(),
            accounts: Arc::default(),
            clock: Clock::SYSTEM,
        };
        self.settings.make(parts).unwrap()
    }
}

const EXAMPLES: [(Api, &str); 4] = [
    (Api::Shelly, "worker-3-shelly"),
    (Api::Tasmota, "worker-3-tasmota"),
    (Api::EspHome, "worker-3-esphome"),
    (Api::HomeAssistant, "worker-3-home-assistant"),
];

#[tokio::test]
async fn every_example_of_the_page_is_read_and_switched() {
    for (api, name) in EXAMPLES {
        let bench = Bench::start(api, name);
        let mut session = bench.driver().open();
        let probe = session.probe(Extent::Whole).await.unwrap();
        assert_eq!(probe.reading.state, PowerState::On, "{name}: {probe:?}");
        session.prepare_off().await.unwrap();
        let off = session.force_off().await;
        assert_eq!(off, Ok(OffOutcome::Accepted), "{name}");
        assert!(!bench.machine.is_on(), "{name}");
        let reading = bench.driver().open().observe().await.unwrap();
        assert!(reading.is_off(), "{name}: {reading:?}");
        session.prepare_on().await.unwrap();
        let on = session.power_on().await;
        assert_eq!(on, Ok(OnOutcome::Accepted), "{name}");
        assert!(bench.machine.is_on(), "{name}");
        assert_eq!(bench.cloud.commands(), [false, true], "{name}");
    }
}

/// Power that flows all the same, a meter that is not there, and a timer or a state that is only assumed.
#[tokio::test]
async fn no_example_believes_an_off_beside_what_speaks_against_it() {
    for (api, name) in EXAMPLES {
        let bench = Bench::start(api, name);
        bench.machine.set_power(false);
        for beside in [Beside::OldReport, Beside::CutOff, Beside::AtWork] {
            // Tasmota shows no timer.
            if api == Api::Tasmota && beside == Beside::AtWork {
                continue;
            }
            bench.cloud.faults(|faults| faults.beside = beside);
            let reading = bench.driver().open().observe().await.unwrap();
            assert_eq!(reading.state, PowerState::Off, "{name} {beside:?}");
            assert_eq!(reading.faults.len(), 1, "{name} {beside:?}: {reading:?}");
        }
    }
}

/// S5: where another plug has the address now, the name of the first is not found.
#[tokio::test]
async fn a_plug_that_was_replaced_is_no_reading() {
    for (api, name) in [EXAMPLES[0], EXAMPLES[1]] {
        let mut bench = Bench::start(api, name);
        let device = bench.settings.device_id.as_mut().unwrap();
        device.value = "000000000000".to_owned();
        let mut session = bench.driver().open();
        session.observe().await.unwrap_err();
        session.prepare_off().await.unwrap_err();
        session.force_off().await.unwrap_err();
        assert!(bench.cloud.commands().is_empty(), "{name}");
    }
}
