//! The oracle on volumes written by hand: what it must find, and what it must let pass.

use jiff::Timestamp;

use super::*;

/// A moment, in milliseconds from an arbitrary start.
fn ms(ms: u64) -> Moment {
    let wall = Timestamp::from_millisecond(1_795_000_000_000 + ms as i64).expect("a time");
    Moment {
        monotonic_ns: ms * 1_000_000,
        wall,
    }
}

struct Scene {
    _directory: tempfile::TempDir,
    volumes: Arc<Volumes>,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let volumes = Volumes::new(directory.path()).expect("volumes");
        Self {
            _directory: directory,
            volumes,
        }
    }

    fn attached(self, at_ms: u64, node: &str) -> Self {
        let attached = Happening::Attached {
            volume: "vol".to_owned(),
            node: node.to_owned(),
        };
        self.volumes.journal().record(ms(at_ms), attached);
        self
    }

    /// `node` writes each 20 ms from `from_ms` until before `to_ms`.
    fn writes(self, node: &str, boot: &str, from_ms: u64, to_ms: u64) -> Self {
        use std::io::Write as _;
        let mut file = self.volumes.mount("vol").expect("a file");
        for (sequence, at_ms) in (from_ms..to_ms).step_by(20).enumerate() {
            let (node, boot, pod) = (node.to_owned(), boot.to_owned(), format!("pod-of-{boot}"));
            let write = Write {
                at: ms(at_ms),
                node,
                boot,
                pod,
                sequence: sequence as u64,
            };
            writeln!(file, "{write}").expect("written");
        }
        self
    }

    fn check(&self) -> Result<(), DataLoss> {
        VolumeOracle::new(&self.volumes).check()
    }

    fn losses(&self) -> Vec<(Write, Rule)> {
        match self.check() {
            Err(DataLoss::Writes(mut losses)) => losses.remove(0).wrong,
            other => panic!("{other:?} should be data loss"),
        }
    }
}

#[test]
fn a_clean_move_and_the_way_back_pass() {
    let scene = Scene::new()
        .attached(0, "a")
        .writes("a", "a-1", 100, 500)
        .attached(600, "b");
    let scene = scene
        .writes("b", "b-1", 700, 900)
        .attached(1000, "a")
        .writes("a", "a-2", 1100, 1300);
    scene.check().expect("one writer at a time");
}

#[test]
fn a_write_after_the_attach_elsewhere_is_found_and_told() {
    let scene = Scene::new()
        .attached(0, "a")
        .attached(400, "b")
        .writes("a", "a-1", 100, 500);
    let wrong = scene.losses();
    assert_eq!(wrong.len(), 4, "420 to 480, and 400 itself was in time");
    assert_eq!(
        wrong[0].1,
        Rule::AttachedElsewhere {
            node: "b".to_owned(),
            at: ms(400)
        }
    );
    let told = scene.check().expect_err("data loss").to_string();
    for part in [
        "DATA LOSS on volume vol: 4 writes by a",
        "attached it to b",
        "FIRST WRONG WRITE",
        "0.020 s after",
    ] {
        assert!(told.contains(part), "{part:?} is missing in\n{told}");
    }
}

#[test]
fn a_start_in_flight_that_came_up_after_the_attach_elsewhere_is_found() {
    let scene = Scene::new()
        .attached(0, "a")
        .attached(400, "b")
        .writes("a", "a-2", 600, 700);
    assert_eq!(scene.losses().len(), 5);
}

#[test]
fn the_old_container_writing_on_beside_the_new_one_is_found_without_an_attach_log() {
    let scene = Scene::new()
        .writes("a", "a-1", 0, 500)
        .writes("b", "b-1", 300, 600);
    let wrong = scene.losses();
    assert!(
        wrong.iter().all(|(write, _)| write.node == "a"),
        "the new one is in its right"
    );
    assert_eq!(
        wrong[0].1,
        Rule::TakenOver {
            node: "b".to_owned(),
            at: ms(300)
        }
    );
}

#[test]
fn a_fenced_boot_is_silent_after_the_proof_but_the_next_boot_may_write() {
    let scene = Scene::new()
        .attached(0, "a")
        .writes("a", "a-1", 100, 500)
        .writes("a", "a-2", 1000, 1100);
    let oracle = VolumeOracle::new(&scene.volumes);
    oracle.check_silent_since("a-1", ms(500)).expect("silent");
    oracle
        .check_silent_since("a-1", ms(450))
        .expect_err("wrote at 460 and 480");
}

#[test]
fn a_file_that_nobody_can_read_is_never_a_pass() {
    let scene = Scene::new().writes("a", "a-1", 0, 100);
    std::fs::write(scene.volumes.file("vol"), "garbage\n").expect("written");
    assert!(matches!(scene.check(), Err(DataLoss::Unreadable(_))));
}
