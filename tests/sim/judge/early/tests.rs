//! Reports that the judge has to flag, and one that it has not.

use crate::judge::tests::{OPERATOR, Scene, simulated};
use crate::objects::{POWERED_OFF, condition};
use serde_json::{Value, json};

/// A bad history: what happens, and how.
type Bad = (&'static str, fn(&Scene));

/// The kubelet says Ready, and its machine loses its power.
fn dies(scene: &Scene) {
    scene.node("kubelet", |node| {
        node["status"]["conditions"] = json!([condition("True")]);
    });
}

fn report(scene: &Scene, change: impl FnOnce(&mut Value)) {
    scene.node(OPERATOR, |node| {
        let ready = &mut node["status"]["conditions"][0];
        ready["status"] = json!("Unknown");
        ready["reason"] = json!(POWERED_OFF);
        ready["message"] = json!("FenceDevice bmc-a reads Off");
        ready["lastTransitionTime"] = json!("2026-01-01T00:01:00Z");
        change(node);
    });
}

const BAD: [Bad; 10] = [
    ("it is turned to False", |it| {
        report(it, |node| {
            node["status"]["conditions"][0]["status"] = json!("False");
        });
    }),
    ("the reason is another", |it| {
        report(it, |node| {
            node["status"]["conditions"][0]["reason"] = json!("NodeStatusUnknown");
        });
    }),
    ("the heartbeat is another", |it| {
        report(it, |node| {
            node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-01-01T00:01:00Z");
        });
    }),
    ("a condition more", |it| {
        report(it, |node| {
            let more = json!({"type": "MemoryPressure", "status": "Unknown"});
            node["status"]["conditions"]
                .as_array_mut()
                .expect("conditions")
                .push(more);
        });
    }),
    ("a volume less", |it| {
        report(it, |node| node["status"]["volumesAttached"] = json!([]));
    }),
    ("a label", |it| {
        report(it, |node| node["metadata"]["labels"]["a"] = json!("b"));
    }),
    ("of the control plane", |it| {
        it.node("human", |node| {
            node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = json!("");
        });
        report(it, |_| {});
    }),
    ("twice in one boot", |it| {
        report(it, |_| {});
        it.node("human", |node| {
            node["status"]["conditions"][0]["status"] = json!("Unset");
        });
        it.node("human", |node| {
            node["status"]["conditions"][0]["status"] = json!("Unknown");
        });
        dies(it);
        report(it, |_| {});
    }),
    ("of a machine that runs", |it| {
        it.world.with("a", |machine| machine.on = true);
        report(it, |_| {});
    }),
    ("of one that is back in its boot", |it| {
        report(it, |_| {});
        dies(it);
    }),
];

#[test]
fn a_report_that_is_not_as_it_must_be_is_flagged() {
    simulated(async {
        for (what, happens) in BAD {
            let scene = Scene::new();
            dies(&scene);
            happens(&scene);
            let found = scene.world.broken();
            assert!(
                found.iter().any(|it| it.starts_with("S24:")),
                "{what}: {found:?}"
            );
        }
    });
}

#[test]
fn a_report_of_the_operators_own_node_and_one_that_nobody_wants_are_flagged() {
    simulated(async {
        let own = Scene::on("a", true);
        dies(&own);
        report(&own, |_| {});
        assert_eq!(
            own.world.broken(),
            [format!("S24: a: the operator runs on it ({OPERATOR})")]
        );
        let unwanted = Scene::on("b", false);
        dies(&unwanted);
        report(&unwanted, |_| {});
        let words = format!("S24: a: no policy wants it to be reported ({OPERATOR})");
        assert_eq!(unwanted.world.broken(), [words]);
    });
}

/// And the next boot is another matter.
#[test]
fn a_report_of_a_machine_that_is_off_is_a_good_one() {
    simulated(async {
        let scene = Scene::new();
        dies(&scene);
        report(&scene, |_| {});
        scene.node("kubelet", |node| {
            node["status"]["conditions"] = json!([condition("True")]);
            node["status"]["nodeInfo"]["bootID"] = json!("a-boot-2");
        });
        report(&scene, |_| {});
        assert_eq!(scene.world.broken(), Vec::<String>::new());
    });
}
