//! The lab's control plane itself: it is real, it is alone, and nothing of it stays behind.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use e2e::{
    control_plane::{Component, ControlPlane, Options},
    lab::LIMIT,
    toolchain::{Programs, Toolchain, kubernetes_version},
};
use fencing_testbed::{
    eventually::eventually,
    process::{Guard, Spec},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::PostParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn comes_up_with_kubectl_and_helm() -> Result<()> {
    let control_plane = ControlPlane::start(Options::named("comes-up")).await?;
    eprintln!("up in {:?}", control_plane.startup());
    assert_eq!(
        control_plane.admin().apiserver_version().await?.git_version,
        kubernetes_version()
    );

    let answer = control_plane
        .kubectl_text(&["version", "--output=json"])
        .await?;
    let versions: serde_json::Value = serde_json::from_str(&answer)?;
    assert_eq!(
        versions["clientVersion"]["gitVersion"],
        kubernetes_version()
    );
    assert_eq!(
        versions["serverVersion"]["gitVersion"],
        kubernetes_version()
    );
    let releases = control_plane.helm(&["list", "--all-namespaces"]).await?;
    ensure!(
        releases.status.success(),
        "helm: {}",
        String::from_utf8_lossy(&releases.stderr)
    );
    control_plane.check()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_run_side_by_side() -> Result<()> {
    let (first, second) = tokio::try_join!(
        ControlPlane::start(Options::named("first")),
        ControlPlane::start(Options::named("second"))
    )?;
    let namespace = serde_json::from_value(json!({"metadata": {"name": "only-in-the-first"}}))?;
    Api::<Namespace>::all(first.admin())
        .create(&PostParams::default(), &namespace)
        .await?;
    let found = Api::<Namespace>::all(second.admin())
        .get_opt("only-in-the-first")
        .await?;
    assert!(found.is_none(), "the two labs share a store");

    // The first lab's administrator at the second lab's door, even if it believed the address.
    let mut config = first
        .client_config(&fencing_testbed::pki::User::admin())
        .await?;
    config.cluster_url = second.url().parse()?;
    let error = Client::try_from(config)?
        .apiserver_version()
        .await
        .expect_err("the other lab's server was trusted");
    eprintln!("as it should be: {error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn goes_on_after_the_death_of_any_component() -> Result<()> {
    let control_plane = ControlPlane::start(Options::named("restarts")).await?;
    let all = [
        Component::Etcd,
        Component::ApiServer,
        Component::ControllerManager,
        Component::Scheduler,
        Component::CsiController,
        Component::CsiAttacher,
    ];
    let namespaces: Api<Namespace> = Api::all(control_plane.admin());
    for component in all {
        let name = format!("before-{}", component.name());
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        control_plane.stop_component(component)?;
        control_plane.start_component(component).await?;
        // The API server may need a moment for its connection to a new etcd.
        eventually("the namespace is still there", LIMIT, async || {
            namespaces.get(&name).await?;
            Ok(())
        })
        .await?;
    }
    // Made by the controller-manager, for a namespace from after its restart.
    let namespace = serde_json::from_value(json!({"metadata": {"name": "after"}}))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    control_plane
        .wait_for_service_account("after", "default")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_a_store_that_is_not_its_own() -> Result<()> {
    let directory = tempfile::tempdir()?;
    // Relative, because the names of sockets are; and so short that TMPDIR does not matter.
    let store_directory = Some(directory.path().join("store"));
    let first = Options {
        store_directory: store_directory.clone(),
        ..Options::named("owner")
    };
    drop(ControlPlane::start(first).await?);

    let second = Options {
        store_directory,
        ..Options::named("stranger")
    };
    let error = ControlPlane::start(second)
        .await
        .expect_err("the second lab took the first one's store");
    assert!(format!("{error:#}").contains("another lab"), "{error:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_a_store_with_data_of_an_unknown_origin() -> Result<()> {
    let directory = tempfile::tempdir()?;
    fill_a_store(directory.path())?;
    let options = Options {
        store_directory: Some(directory.path().join("store")),
        ..Options::named("stranger")
    };
    let error = ControlPlane::start(options)
        .await
        .expect_err("the lab took a store with somebody's data");
    assert!(format!("{error:#}").contains("holds 1 keys"), "{error:#}");
    Ok(())
}

/// An etcd that is not the lab's writes a key and ends.
fn fill_a_store(directory: &Path) -> Result<()> {
    let guard = Guard::start()?;
    let etcd = Spec::new(
        "etcd",
        Toolchain::build(Programs::All)?.program("control-plane"),
        &directory.join("etcd.log"),
    )
    .args(["etcd", "--data-dir=store", "--name=lab", "--log-level=warn"])
    .args([
        "--listen-client-urls=unix://e.sock:0",
        "--advertise-client-urls=http://etcd.invalid:1",
    ])
    .args([
        "--listen-peer-urls=unix://p.sock:0",
        "--initial-advertise-peer-urls=http://peer.invalid:1",
    ])
    .args(["--initial-cluster=lab=http://peer.invalid:1"])
    .directory(directory)
    .spawn(&guard)?;
    let socket = directory.join("e.sock:0");
    let put = json!({"key": "L3JlZ2lzdHJ5L3g=", "value": "eA=="});
    let end = Instant::now() + Duration::from_secs(20);
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        loop {
            let call = e2e::plain_http::call(&socket, http::Method::POST, "/v3/kv/put", &put);
            match runtime.block_on(call) {
                Ok(_) => return etcd.kill(),
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    })
}

#[test]
fn leaves_nothing_behind_when_it_is_killed() -> Result<()> {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"))
        .arg("up")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = lab.stdout.take().context("no output")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let is_up = lines.any(|line| line.starts_with("export KUBECONFIG="));
    ensure!(is_up, "the lab ended before it was up");

    let children = descendants(lab.id())?;
    let scratch = children
        .iter()
        .find_map(|pid| scratch_of(*pid))
        .context("no process runs in the lab's directory")?;
    assert!(children.len() >= 6, "only {} processes", children.len());
    assert!(scratch.is_dir());
    lab.kill()?;
    lab.wait()?;

    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let alive: Vec<_> = children.iter().filter(|pid| is_alive(**pid)).collect();
        if alive.is_empty() && !scratch.exists() {
            return Ok(());
        }
        ensure!(
            Instant::now() < end,
            "still there: {alive:?}, {}",
            scratch.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The working directory of a process of the lab, if it is the lab's scratch directory.
fn scratch_of(pid: u32) -> Option<PathBuf> {
    let directory = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    directory
        .file_name()?
        .to_str()?
        .starts_with("nodefencing-lab-")
        .then_some(directory)
}

/// All processes below that one.
pub(crate) fn descendants(of: u32) -> Result<BTreeSet<u32>> {
    let mut found = BTreeSet::from([of]);
    loop {
        let before = found.len();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            if parent(pid).is_some_and(|parent| found.contains(&parent)) {
                found.insert(pid);
            }
        }
        if found.len() == before {
            found.remove(&of);
            return Ok(found);
        }
    }
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// A zombie counts as gone: whoever inherited it reaps it in its own time.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z"))
}

/// The fields of /proc/PID/stat after the name, which may hold spaces.
pub(crate) fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}
