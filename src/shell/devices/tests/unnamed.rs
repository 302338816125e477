//! Machines that tell no system UUID.

use super::*;

fn instance(name: &str, id: &str, rack: &str) -> NodeView {
    NodeView {
        provider_id: format!("aws:///eu-central-1a/{id}"),
        labels: BTreeMap::from([("rack".to_owned(), rack.to_owned())]),
        ..node(name)
    }
}

/// S5: a kubelet may write the provider ID and the addresses of its Node, and lead a fence to a machine that no device serves.
#[tokio::test]
async fn a_node_that_names_the_machine_of_one_that_no_device_serves_is_refused() {
    let cluster = Cluster::new().await;
    let selector = json!({"matchLabels": {"rack": "7"}});
    let spec = json!({
        "nodeSelector": selector, "identityCheck": "BestEffort", "aws": {"region": "eu-central-1"},
    });
    let fleet = device("fleet", spec);
    let (own, other) = ("i-0a1b2c3d4e5f60718", "i-0a1b2c3d4e5f60719");
    let survey = |named: &str| {
        let nodes = [
            instance("w1", named, "7"),
            instance("control-plane", other, "1"),
        ];
        cluster.devices.survey(&[&fleet], &nodes.each_ref());
        cluster.devices.duplicate("fleet", "w1")
    };
    assert_eq!(survey(own), None);
    let why = survey(other).expect("refused");
    assert!(why.contains("control-plane"), "{why}");
    // What both report as their system UUID is compared with nothing.
    let twins = [instance("w1", own, "7"), instance("w2", other, "7")];
    cluster.devices.survey(&[&fleet], &twins.each_ref());
    assert_eq!(cluster.devices.duplicate("fleet", "w1"), None);
}
