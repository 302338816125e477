//! A cluster of a thousand pods more: bound to nodes that are names only, most of them with a claim, a volume and a VolumeAttachment. It is what the
//! API server has to list and the plugin to read; that nobody runs the pods changes nothing of that.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::lab::Lab;
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use serde_json::{Value, json};

use super::{asked, ids};
use crate::plugin::scene::{NAMESPACE, pod, spec, volume};

const PODS: usize = 1000;
/// Those with a claim, a volume and a VolumeAttachment.
const CLAIMED: usize = 600;
const NODES: usize = 20;
/// What the plugin calls itself.
const USER_AGENT: &str = "kubectl-fence/";
/// Requests at a time.
const AT_ONCE: usize = 16;
/// Nothing attaches for it: neither attach/detach nor external-attacher looks at what is made here.
const ELSEWHERE: &str = "csi.elsewhere.example";
/// What is wanted of a laptop, in seconds; the figure is printed.
const TARGET: f64 = 3.0;
/// And what nothing may take, on whatever machine.
const DEADLINE: f64 = 60.0;
/// Kinds that are listed, and reasons of Events that are.
const LISTS: usize = 12 + 3;
/// Objects on a page of a list, as kubectl has it.
const PAGE: usize = 500;

/// The path under which an object is created.
fn path_of(object: &Value) -> Result<String> {
    let namespaced = format!("/api/v1/namespaces/{NAMESPACE}");
    Ok(match object["kind"].as_str().context("it has a kind")? {
        "Node" => "/api/v1/nodes".to_owned(),
        "PersistentVolume" => "/api/v1/persistentvolumes".to_owned(),
        "PersistentVolumeClaim" => format!("{namespaced}/persistentvolumeclaims"),
        "Pod" => format!("{namespaced}/pods"),
        "CSIDriver" => "/apis/storage.k8s.io/v1/csidrivers".to_owned(),
        _ => "/apis/storage.k8s.io/v1/volumeattachments".to_owned(),
    })
}

async fn create(lab: &Lab, objects: Vec<Value>) -> Result<()> {
    let client = lab.control_plane.admin();
    let made = stream::iter(objects).map(|object| {
        let client = client.clone();
        async move {
            let request =
                Request::post(path_of(&object)?).header("content-type", "application/json");
            let request = request.body(object.to_string().into_bytes())?;
            client.request_text(request).await?;
            anyhow::Ok(())
        }
    });
    made.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

/// Creates them.
pub(super) async fn fill(lab: &Lab) -> Result<()> {
    let storage = "storage.k8s.io/v1";
    let node = |number: usize| format!("shelf-{}", number % NODES);
    let mut first = vec![json!({
        "apiVersion": storage, "kind": "CSIDriver", "metadata": {"name": ELSEWHERE},
        "spec": {"attachRequired": false},
    })];
    first.extend(
        (0..NODES)
            .map(|it| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node(it)}})),
    );
    for number in 0..CLAIMED {
        let name = format!("filler-{number}");
        let source = json!({"csi": {"driver": ELSEWHERE, "volumeHandle": name}});
        first.extend(volume(&name, "ReadWriteOnce", source));
        let spec = json!({"attacher": ELSEWHERE, "nodeName": node(number), "source": {"persistentVolumeName": name}});
        first.push(json!({"apiVersion": storage, "kind": "VolumeAttachment", "metadata": {"name": name}, "spec": spec}));
    }
    create(lab, first).await?;
    let pods = (0..PODS).map(|number| {
        let name = format!("filler-{number}");
        let claim = (number < CLAIMED).then_some(name.as_str());
        pod(&name, &spec(claim, json!({"nodeName": node(number)})))
    });
    create(lab, pods.collect()).await
}

/// What is found in all of the cluster: how long that takes is printed, and what it asks of the API server is bounded.
pub(super) async fn measured(lab: &Lab) -> Result<String> {
    let audit = lab.control_plane.audit();
    audit.settled().await?;
    let is_list = |request: &e2e::audit::Request| {
        request.verb == "list" && request.user_agent.starts_with(USER_AGENT)
    };
    let before = audit.requests(is_list)?.len();
    let begun = Instant::now();
    let (_, answer) = asked(lab, "-A").await?;
    let took = begun.elapsed().as_secs_f64();
    audit.settled().await?;
    let lists = audit.requests(is_list)?.len() - before;
    // Each kind takes a page more for each so many of its objects: pods, claims, volumes and VolumeAttachments are more than one page.
    let pages = PODS.div_ceil(PAGE) + 3 * CLAIMED.div_ceil(PAGE);
    println!(
        "diagnose -A among {PODS} pods, {CLAIMED} of them with claims: {took:.2} s (target {TARGET} s), {lists} LIST requests of at most {}",
        LISTS + pages
    );
    ensure!(took < DEADLINE, "it took {took} s");
    ensure!((LISTS..=LISTS + pages).contains(&lists), "{lists} LISTs");
    Ok(ids(&answer).join(" "))
}
