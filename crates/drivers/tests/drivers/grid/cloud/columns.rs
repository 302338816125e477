//! What is each provider's own: its settings, its Secret, and the faults that not every one has.

use super::{Column, Odd, settings};
use crate::grid::cell::Cell;
use crate::grid::rows::Fault;
use fencing_api::device::{
    HetznerCloudDriver, OpenstackDriver, ProxmoxDriver, VsphereDriver, WebhookDriver,
};
use fencing_testbed::cloud::Beside;
use fencing_testbed::cloud::hetzner::{self, Hetzner};
use fencing_testbed::cloud::openstack::{self, Openstack};
use fencing_testbed::cloud::proxmox::{self, Proxmox};
use fencing_testbed::cloud::vsphere::{self, Vsphere};
use fencing_testbed::cloud::webhook::{self as service, Webhook};

const NO_LINKS: &str = "its paths are built, and none is followed";

pub fn proxmox(fault: Fault) -> Cell {
    const COLUMN: Column<Proxmox> = Column {
        page: Proxmox::default,
        kind: settings::<ProxmoxDriver>,
        url: "address",
        secret: &[
            ("tokenID", proxmox::TOKEN[0]),
            ("tokenSecret", proxmox::TOKEN[1]),
        ],
        provider_id: |_| format!("proxmox://lab/{}", proxmox::VM),
        tells_uuid: true,
        tells_already: true,
        odd: |fault| match fault {
            Fault::Sleeping => Odd::Beside(Beside::Memory),
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::InterlockBit => Odd::Beside(Beside::CutOff),
            Fault::WrongSystem | Fault::ZeroUuid => Odd::Beside(Beside::Nothing),
            _ => Odd::Never(NO_LINKS),
        },
    };
    COLUMN.provoke(fault)
}

pub fn openstack(fault: Fault) -> Cell {
    const CALLS: &str = "crates/drivers/src/cloud/openstack/tests/calls.rs";
    const TESTS: &str = "crates/drivers/src/cloud/openstack/tests.rs";
    const COLUMN: Column<Openstack> = Column {
        page: Openstack::default,
        kind: settings::<OpenstackDriver>,
        url: "authURL",
        secret: &[
            ("applicationCredentialID", openstack::CREDENTIAL[0]),
            ("applicationCredentialSecret", openstack::CREDENTIAL[1]),
        ],
        provider_id: |uuid| format!("openstack:///{uuid}"),
        tells_uuid: true,
        tells_already: true,
        odd: |fault| match fault {
            Fault::Sleeping => {
                Odd::Elsewhere(TESTS, "an_instance_is_off_by_three_fields_and_its_status")
            }
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::WrongSystem | Fault::ZeroUuid => {
                Odd::Elsewhere(TESTS, "a_server_of_another_id_is_no_answer")
            }
            Fault::LinkElsewhere => Odd::Elsewhere(CALLS, "a_token_goes_to_no_other_host"),
            Fault::InterlockBit => Odd::Never("Nova answers for all of its hosts alike"),
            _ => Odd::Never("no next page is followed"),
        },
    };
    COLUMN.provoke(fault)
}

pub fn vsphere(fault: Fault) -> Cell {
    const TESTS: &str = "crates/drivers/src/cloud/vsphere/tests.rs";
    const COLUMN: Column<Vsphere> = Column {
        page: || Vsphere,
        kind: settings::<VsphereDriver>,
        url: "address",
        secret: &[
            ("username", vsphere::LOGIN[0]),
            ("password", vsphere::LOGIN[1]),
        ],
        provider_id: |uuid| format!("vsphere://{uuid}"),
        tells_uuid: true,
        tells_already: true,
        odd: |fault| match fault {
            Fault::Sleeping => {
                Odd::Elsewhere(TESTS, "only_a_connected_vm_of_a_connected_host_is_off")
            }
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::InterlockBit => Odd::Beside(Beside::CutOff),
            Fault::WrongSystem | Fault::ZeroUuid => Odd::Beside(Beside::Nothing),
            _ => Odd::Never(NO_LINKS),
        },
    };
    COLUMN.provoke(fault)
}

pub fn hetzner_cloud(fault: Fault) -> Cell {
    const CALLS: &str = "crates/drivers/src/cloud/hetzner/tests/calls.rs";
    const COLUMN: Column<Hetzner> = Column {
        page: Hetzner::default,
        kind: settings::<HetznerCloudDriver>,
        url: "address",
        secret: &[("token", hetzner::TOKEN)],
        provider_id: |_| format!("hcloud://{}", hetzner::SERVER),
        tells_uuid: false,
        tells_already: false,
        odd: |fault| match fault {
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::InterlockBit => Odd::Never("Hetzner answers for all of its hosts alike"),
            Fault::Sleeping => Odd::Never("no server keeps its memory while it is off"),
            Fault::WrongSystem => {
                Odd::Elsewhere(CALLS, "another_machine_is_no_reading_and_is_sent_nothing")
            }
            Fault::ZeroUuid => Odd::Never("it tells no UUID"),
            Fault::EndlessNextLink => Odd::Elsewhere(CALLS, "a_list_of_many_pages_ends"),
            _ => Odd::Never(NO_LINKS),
        },
    };
    COLUMN.provoke(fault)
}

/// A user's own service: it has the words of the contract for its faults, and one key in its Secret.
pub fn webhook(fault: Fault) -> Cell {
    const TESTS: &str = "crates/drivers/src/cloud/webhook/tests.rs";
    const COLUMN: Column<Webhook> = Column {
        page: || Webhook,
        kind: settings::<WebhookDriver>,
        url: "url",
        secret: &[("token", service::TOKEN)],
        provider_id: |uuid| format!("example://{uuid}"),
        tells_uuid: true,
        tells_already: true,
        odd: |fault| match fault {
            // Whatever is between, or sleeps, has a word that is not Off.
            Fault::Sleeping | Fault::ControlFaultBit => {
                Odd::Elsewhere(TESTS, "a_machine_is_off_by_one_word_alone")
            }
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::InterlockBit => Odd::Beside(Beside::CutOff),
            Fault::WrongSystem | Fault::ZeroUuid => Odd::Beside(Beside::Nothing),
            _ => Odd::Never(NO_LINKS),
        },
    };
    COLUMN.provoke(fault)
}
