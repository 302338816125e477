//! What EC2 and STS answer, as short documents of our own, and what is made of it.

mod calls;
mod login;

use super::*;
use crate::cloud::words::Said;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;

const ID: &str = "i-0a1b2c3d4e5f60718";
const ADDRESS: &str = "10.0.0.17";

/// An instance: its state and code, the reason for it, and whether hibernation is configured; empty: it is not shown.
#[derive(Clone, Copy)]
struct Shown<'a> {
    state: (&'a str, &'a str),
    reason: &'a str,
    hibernation: &'a str,
}

const STOPPED: Shown<'static> = Shown {
    state: ("stopped", "80"),
    reason: "Client.UserInitiatedShutdown",
    hibernation: "false",
};

const RUNNING: Shown<'static> = Shown {
    state: ("running", "16"),
    reason: "",
    hibernation: "false",
};

fn element(name: &str, value: &str) -> String {
    match value {
        "" => String::new(),
        value => format!("<{name}>{value}</{name}>"),
    }
}

fn item(id: &str, address: &str, shown: Shown<'_>) -> String {
    let (state, code) = shown.state;
    let state = element("code", code) + &element("name", state);
    let reason = element("code", shown.reason);
    let address = element("privateIpAddress", address);
    let interface = element(
        "item",
        &format!(
            "<privateIpAddressesSet>{}</privateIpAddressesSet><ipv6AddressesSet/>",
            element("item", &address)
        ),
    );
    format!(
        "<item><instanceId>{id}</instanceId><instanceType>m5.large</instanceType>{}{}{}{address}<networkInterfaceSet>{interface}</networkInterfaceSet></item>",
        element("instanceState", &state),
        element("stateReason", &reason),
        element(
            "hibernationOptions",
            &element("configured", shown.hibernation)
        ),
    )
}

fn response(action: &str, within: &str) -> String {
    format!(
        "<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>1</requestId>{within}</{action}Response>"
    )
}

fn described(items: &str) -> String {
    let set = format!(
        "<reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet>"
    );
    response("DescribeInstances", &set)
}

fn said(shown: Shown<'_>) -> Said {
    let answer = described(&item(ID, ADDRESS, shown));
    facts::instance(&answer, ID).expect("an instance").said
}

#[test]
fn an_instance_is_off_by_its_state_its_code_and_the_reason_of_the_stop() {
    let off = said(STOPPED);
    assert!(off.is_off(), "{off:?}");
    assert_eq!(off.raw, "stopped, Client.UserInitiatedShutdown");
    let with = |reason, hibernation| {
        said(Shown {
            reason,
            hibernation,
            ..STOPPED
        })
    };
    // It may have been ordered while the instance hibernated.
    for hibernation in ["true", "False"] {
        let kept = with(STOPPED.reason, hibernation);
        assert_eq!(
            kept.faults,
            ["hibernation is configured, which may keep its memory"]
        );
    }
    assert!(with(STOPPED.reason, "").is_off(), "{off:?}");
    for reason in ["Client.InstanceInitiatedShutdown", "Server.ScheduledStop"] {
        assert!(with(reason, "false").is_off(), "{reason}");
        for hibernation in ["true", "", "False"] {
            let kept = with(reason, hibernation);
            assert_eq!(
                kept.faults,
                ["hibernation is configured, which may keep its memory"]
            );
        }
    }
    for reason in [
        "Client.UserInitiatedHibernate",
        "Server.SpotInstanceShutdown",
        "Server.SpotInstanceTermination",
        "Server.InternalError",
        "client.userinitiatedshutdown",
        "Something.New",
        "",
    ] {
        let kept = with(reason, "false");
        assert_eq!(kept.state, PowerState::Off);
        assert!(kept.faults[0].starts_with("reason "), "{kept:?}");
    }
    for code in ["64", "16", "", "eighty", "-80"] {
        let odd = said(Shown {
            state: ("stopped", code),
            ..STOPPED
        });
        assert!(odd.faults[0].starts_with("state code"), "{odd:?}");
    }
    // The higher bits are EC2's own.
    assert!(
        said(Shown {
            state: ("stopped", "336"),
            ..STOPPED
        })
        .is_off()
    );
}

#[test]
fn no_other_state_is_off() {
    for (state, code, meaning) in [
        ("pending", "0", PowerState::Transitional),
        ("running", "16", PowerState::On),
        ("shutting-down", "32", PowerState::Transitional),
        ("stopping", "64", PowerState::Transitional),
        ("Stopped", "80", PowerState::Unknown),
        ("", "80", PowerState::Unknown),
    ] {
        let shown = said(Shown {
            state: (state, code),
            ..STOPPED
        });
        assert_eq!((shown.state, shown.is_off()), (meaning, false), "{state}");
    }
    let terminated = Shown {
        state: ("terminated", "48"),
        reason: "Client.UserInitiatedShutdown",
        hibernation: "",
    };
    assert!(said(terminated).is_off(), "what is gone for good");
    let hibernating = said(Shown {
        state: ("stopping", "64"),
        reason: "Client.UserInitiatedHibernate",
        ..STOPPED
    });
    assert_ne!(hibernating.raw, facts::STOPPING_BY_ORDER);
    let ordered = said(Shown {
        state: ("stopping", "64"),
        ..STOPPED
    });
    assert_eq!(ordered.raw, facts::STOPPING_BY_ORDER);
}

#[test]
fn an_answer_for_another_instance_or_for_two_is_none() {
    let other = described(&item("i-0000000000000000f", ADDRESS, STOPPED));
    let two = described(&item(ID, ADDRESS, STOPPED).repeat(2));
    for answer in [&other, &two, &described(""), &response("StopInstances", "")] {
        facts::instance(answer, ID).expect_err("no instance");
    }
    let twice = described(&item(ID, ADDRESS, STOPPED))
        .replace("<instanceState>", "<instanceState><name>running</name>");
    let said = facts::instance(&twice, ID).expect("an instance").said;
    assert_eq!(said.state, PowerState::Unknown, "it is there twice");
}

#[test]
fn an_instance_is_the_nodes_by_a_private_address() {
    let of = |address: &str, shown, own: &[&str]| {
        let node = NodeFacts {
            addresses: own.iter().map(|it| (*it).to_owned()).collect(),
            ..NodeFacts::named("worker-1")
        };
        let answer = described(&item(ID, address, shown));
        let found = facts::instance(&answer, ID).expect("an instance");
        found.check(&MachineId::of(&node, ID.to_owned())).is_ok()
    };
    assert!(of(ADDRESS, STOPPED, &["2001:db8::1", ADDRESS]));
    for own in [&["10.0.0.18"][..], &["node-1"], &[]] {
        assert!(!of(ADDRESS, STOPPED, own), "{own:?}");
    }
    assert!(!of("", STOPPED, &[ADDRESS]));
    let terminated = Shown {
        state: ("terminated", "48"),
        ..STOPPED
    };
    assert!(of("", terminated, &[ADDRESS]), "it has no address any more");
    assert!(!of(ADDRESS, terminated, &["10.0.0.18"]));
    let six = described(&item(ID, ADDRESS, STOPPED)).replace(
        "<ipv6AddressesSet/>",
        "<ipv6AddressesSet><item><ipv6Address>2001:db8:0::1</ipv6Address></item></ipv6AddressesSet>",
    );
    let node = NodeFacts {
        addresses: vec!["2001:db8::1".to_owned()],
        ..NodeFacts::named("worker-1")
    };
    let found = facts::instance(&six, ID).expect("an instance");
    found
        .check(&MachineId::of(&node, ID.to_owned()))
        .expect("its own");
}

#[test]
fn what_replaces_an_instance_is_named() {
    let with = |more: &str| {
        let answer = described(&item(ID, ADDRESS, RUNNING))
            .replace("<instanceType>", &format!("{more}<instanceType>"));
        facts::instance(&answer, ID).expect("an instance").restarter
    };
    assert_eq!(with(""), None);
    let tag =
        |key: &str| format!("<tagSet><item><key>{key}</key><value>workers</value></item></tagSet>");
    assert_eq!(with(&tag("Name")), None);
    assert_eq!(
        with(&tag("aws:autoscaling:groupName")).as_deref(),
        Some("Auto Scaling group workers")
    );
    let operator =
        "<operator><managed>true</managed><principal>eks.amazonaws.com</principal></operator>";
    assert_eq!(with(operator).as_deref(), Some("eks.amazonaws.com"));
    assert_eq!(with(&operator.replace("true", "false")), None);
}

#[test]
fn the_machine_follows_from_the_provider_id_alone() {
    let settings: AwsDriver =
        serde_json::from_value(serde_json::json!({"region": "eu-central-1"})).expect("settings");
    let of = |provider_id: &str| {
        let node = NodeFacts {
            provider_id: provider_id.to_owned(),
            ..NodeFacts::named("worker-1")
        };
        settings.provider().machine(&node).map(|id| id.id).ok()
    };
    for known in [
        "aws:///eu-central-1a/",
        "aws:////",
        "aws:///eu-central-1-ham-1a/",
        "",
    ] {
        assert_eq!(of(&format!("{known}{ID}")).as_deref(), Some(ID), "{known}");
    }
    assert_eq!(of("i-0a1b2c3d").as_deref(), Some("i-0a1b2c3d"));
    for other in [
        "",
        "aws:///eu-west-1a/i-0a1b2c3d4e5f60718",
        "aws:///eu-central-1a/fargate-ip-10-0-0-1.eu-central-1.compute.internal",
        "aws:///eu-central-1a/4fd2b1/fargate-10.0.0.1",
        "aws://eu-central-1a/i-0a1b2c3d4e5f60718",
        "aws:///eu-central-1a/i-0a1b2c3d4e5f6071G",
        "aws:///eu-central-1a/i-0a1b",
        "gce://p/z/i-0a1b2c3d4e5f60718",
        "eks-hybrid:///eu-central-1/c/mi-0a1b2c3d",
    ] {
        assert_eq!(of(other), None, "{other}");
    }
    for (zone, region) in [
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
        ("us-gov-west-1b", "us-gov-west-1"),
        ("eusc-de-east-1a", "eusc-de-east-1"),
        ("ap-southeast-12c", "ap-southeast-12"),
        ("nowhere", "nowhere"),
    ] {
        assert_eq!(region::of_zone(zone), region);
    }
}

#[test]
fn the_address_follows_from_the_region() {
    let of = |settings: serde_json::Value| {
        let settings: AwsDriver = serde_json::from_value(settings).expect("settings");
        settings.address().map(|it| it.to_string()).ok()
    };
    for (region, host) in [
        ("eu-central-1", "ec2.eu-central-1.amazonaws.com:443"),
        ("us-gov-west-1", "ec2.us-gov-west-1.amazonaws.com:443"),
        ("cn-north-1", "ec2.cn-north-1.amazonaws.com.cn:443"),
        ("eusc-de-east-1", "ec2.eusc-de-east-1.amazonaws.eu:443"),
    ] {
        assert_eq!(
            of(serde_json::json!({"region": region})).as_deref(),
            Some(host)
        );
    }
    let own = serde_json::json!({"region": "eu-central-1", "endpoint": "https://vpce.example.com"});
    assert_eq!(of(own).as_deref(), Some("vpce.example.com:443"));
    assert_eq!(of(serde_json::json!({"region": "x/../y@z"})), None);
}

#[test]
fn an_error_is_read_in_either_form_and_without_what_is_encoded() {
    let ec2 = "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You may not. Encoded authorization failure message: abc</Message></Error></Errors></Response>";
    let sts = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>No</Message></Error></ErrorResponse>";
    let of = |text: &str| facts::error(text);
    assert_eq!(
        of(ec2),
        Some((
            "UnauthorizedOperation".to_owned(),
            "You may not.".to_owned()
        ))
    );
    assert_eq!(of(sts), Some(("AccessDenied".to_owned(), "No".to_owned())));
    assert_eq!(of("{}"), None);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_answer_panics_and_none_without_all_conditions_is_off(
        cut in 0_usize..2000,
        junk in "[<>/a-z\"= ]{0,12}",
        removed in prop::sample::select(&["stopped", "80", "Client.UserInitiatedShutdown", "instanceState", "stateReason", "instanceId", "reservationSet", "DescribeInstancesResponse"][..]),
        put in "[a-zA-Z.-]{0,10}",
    ) {
        let whole = described(&item(ID, ADDRESS, STOPPED));
        let cut = cut.min(whole.len());
        let text = format!("{}{junk}{}", &whole[..cut], &whole[cut..]);
        let _ = facts::instance(&text, ID);
        let _ = facts::keys(&text);
        let _ = facts::change(&text, "StopInstances", ID);
        if let Ok(instance) = facts::instance(&whole[..cut], ID) {
            prop_assert!(!instance.said.is_off() || cut == whole.len(), "cut at {}", cut);
        }
        let changed = whole.replace(removed, &put);
        if let Ok(instance) = facts::instance(&changed, ID) {
            prop_assert!(!instance.said.is_off() || put == removed, "{} -> {}", removed, put);
        }
    }
}
