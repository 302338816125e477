//! `kubectl fence pause` and `resume`: a policy starts no new fence while somebody asks for a pause.
//!
//! Each who asks has an entry of their own in `spec.pauseRequests`, so that none takes back another's; the API server takes no other `user` in it
//! than the one who writes it. An entry that is taken back leaves nothing there: who has done that and why stands in annotations of the policy.

use super::cluster::{Cluster, Error as ClusterError};
use super::dry_run::DryRun;
use super::output::complain;
use super::time::time;
use super::trail::{RESUME, reason};
use super::{Done, Error};
use fencing_api::policy::NodeFencingPolicy;
use fencing_api::window::PauseRequest;
use fencing_core::exclusions;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
      kubectl fence pause workers --for 2h --reason \"switches of rack 7\"
      kubectl fence resume workers --reason \"the switches are up again\"

A fence that has claimed its node continues to its release.";

/// So that a slip of the hand does not leave nodes without a fence for years.
const LONGEST: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Begins the labels of what a Kustomization of Flux has applied.
const FLUX: &str = "kustomize.toolkit.fluxcd.io/";

/// Pause a policy: it starts no new fence
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The policy
    #[arg(value_parser = super::name::policy)]
    policy: String,

    /// How long, such as 90s, 30m, 2h, 1d; at most 30d
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    time: SignedDuration,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,

    /// Name of the pause [default: your user]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    dry_run: DryRun,
}

/// Resume a policy: remove a pause
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ResumeArgs {
    /// The policy
    #[arg(value_parser = super::name::policy)]
    policy: String,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,

    /// Name of the pause [default: your user]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    dry_run: DryRun,
}

/// How long a pause may be.
///
/// # Errors
/// The rule, in words.
fn span(text: &str) -> Result<SignedDuration, String> {
    let span = time(text)?;
    match span <= LONGEST {
        true => Ok(span),
        false => Err("must be at most 30d; for longer, edit `spec.pauseRequests` (kubectl edit nodefencingpolicy POLICY)"
            .to_owned()),
    }
}

/// Pauses.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let policy = find(cluster, &args.policy).await?;
    let asker = cluster.asker().await?;
    let request = PauseRequest {
        reason: Some(args.reason),
        name: args.name.unwrap_or_else(|| asker.name.clone()),
        user: Some(asker.name),
        expire_time: Some(whole_seconds(asker.at + args.time)),
    };
    let kept = policy.spec.pause_requests.iter().cloned();
    let (replaced, mut requests): (Vec<_>, Vec<_>) = kept.partition(|it| it.name == request.name);
    let standing = exclusions::active_requests(&policy, asker.at);
    let replaced = standing.into_iter().find(|it| replaced.contains(it));
    let verbed = paused(&request, replaced);
    requests.push(request.clone());
    // Who took another pause back is not who takes back this one.
    let none = RESUME.none();
    let done = write(cluster, &policy, &requests, &none, &args.dry_run, &verbed).await?;
    if !args.dry_run.is_on() {
        stands(&find(cluster, &args.policy).await?, &request).map_err(Error::No)?;
    }
    if let Some(words) = of_flux(&policy) {
        complain(&words);
    }
    Ok(done)
}

/// What others have made of the pause by now.
///
/// # Errors
/// It is gone, in words.
fn stands(policy: &NodeFencingPolicy, request: &PauseRequest) -> Result<(), String> {
    match policy.spec.pause_requests.contains(request) {
        true => Ok(()),
        false => Err(format!(
            "NodeFencingPolicy {} is no longer paused by `{}`: `spec.pauseRequests` was overwritten; see kubectl get nodefencingpolicy -o yaml --show-managed-fields",
            policy.name_any(),
            request.name
        )),
    }
}

/// Flux writes the policy anew from its repository.
fn of_flux(policy: &NodeFencingPolicy) -> Option<String> {
    let name = policy.labels().get(&format!("{FLUX}name"))?;
    Some(format!(
        "warning: NodeFencingPolicy {} is applied by Kustomization {name} of Flux; if its file has `spec.pauseRequests`, pause it there",
        policy.name_any()
    ))
}

/// Until when, and which pause of the same name that takes the place of.
fn paused(request: &PauseRequest, replaced: Option<&PauseRequest>) -> String {
    let until = |it: &PauseRequest| match it.expire_time {
        Some(time) => format!("until {time}"),
        None => "without an end".to_owned(),
    };
    let replaces = replaced.map(|it| {
        let shortens = match (request.expire_time, it.expire_time) {
            (Some(new), Some(old)) => new < old,
            (new, old) => new.is_some() && old.is_none(),
        };
        let why = it.reason.as_ref().map(|why| format!(": {why}"));
        format!(
            ", which {} the pause of {} {}{}",
            if shortens { "shortens" } else { "replaces" },
            it.name,
            until(it),
            why.unwrap_or_default()
        )
    });
    format!("paused {}{}", until(request), replaces.unwrap_or_default())
}

/// Takes the pause back.
///
/// # Errors
/// [`Error`].
pub async fn resume(cluster: &Cluster, args: ResumeArgs) -> Done {
    let policy = find(cluster, &args.policy).await?;
    let asker = cluster.asker().await?;
    let name = args.name.unwrap_or_else(|| asker.name.clone());
    let requests = policy.spec.pause_requests.iter().cloned();
    let (own, others): (Vec<PauseRequest>, Vec<PauseRequest>) =
        requests.partition(|it| it.name == name);
    let standing = exclusions::active_requests(&policy, asker.at);
    let standing = standing.into_iter().filter(|it| it.name != name);
    let standing: Vec<&PauseRequest> = standing.collect();
    if own.is_empty() {
        return Err(Error::No(match standing.as_slice() {
            [] => format!("NodeFencingPolicy {} is not paused", args.policy),
            all => format!(
                "NodeFencingPolicy {} is not paused by `{name}` but by {}; to remove that pause, add --name",
                args.policy,
                exclusions::named(all)
            ),
        }));
    }
    let reason = match name == asker.name {
        true => args.reason,
        false => format!("{} (the pause of {name})", args.reason),
    };
    let trail = RESUME.of(&asker, &reason);
    let verbed = match standing.as_slice() {
        [] => "resumed".to_owned(),
        all => format!("resumed, and still paused by {}", exclusions::named(all)),
    };
    write(cluster, &policy, &others, &trail, &args.dry_run, &verbed).await
}

async fn find(cluster: &Cluster, name: &str) -> Result<NodeFencingPolicy, ClusterError> {
    let found = cluster.find_ours(name).await?;
    found.ok_or_else(|| ClusterError::Absent {
        kind: "NodeFencingPolicy".to_owned(),
        name: name.to_owned(),
        way_out: "`kubectl get nodefencingpolicies` lists the existing ones".to_owned(),
    })
}

/// Has the policy keep these requests and annotations, and tells it.
async fn write(
    cluster: &Cluster,
    policy: &NodeFencingPolicy,
    requests: &[PauseRequest],
    annotations: &Value,
    dry_run: &DryRun,
    verbed: &str,
) -> Done {
    let write = dry_run.write("node-fencing-pauser");
    let name = policy.name_any();
    let again = async || Ok(find(cluster, &name).await?);
    let decide = |now: &NodeFencingPolicy| {
        // The list is merged as a whole: one that somebody has changed meanwhile is refused. The operator's status is no other list.
        if now.spec.pause_requests != policy.spec.pause_requests {
            let (kind, name) = ("NodeFencingPolicy".to_owned(), name.clone());
            return Err(Error::from(ClusterError::Changed { kind, name }));
        }
        Ok(json!({
            "metadata": {"annotations": annotations},
            "spec": {"pauseRequests": requests},
        }))
    };
    let policy = cluster.change(policy, &write, again, decide).await?;
    dry_run.told(&policy, verbed, [])
}

/// The API keeps whole seconds; never one too early.
fn whole_seconds(at: Timestamp) -> Timestamp {
    let up = i64::from(at.subsec_nanosecond() > 0);
    Timestamp::from_second(at.as_second() + up).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_tells_its_end_and_what_it_takes_the_place_of() {
        let pause = |until: Option<&str>| PauseRequest {
            user: None,
            name: "ann".to_owned(),
            reason: Some("switches".to_owned()),
            expire_time: until.map(|it| it.parse().expect("a time")),
        };
        let [six, eight] = ["2027-01-02T18:00:00Z", "2027-01-02T20:00:00Z"].map(Some);
        for (new, old, words) in [
            (six, None, "paused until 2027-01-02T18:00:00Z"),
            (
                six,
                Some(eight),
                "paused until 2027-01-02T18:00:00Z, which shortens the pause of ann until 2027-01-02T20:00:00Z: switches",
            ),
            (
                eight,
                Some(six),
                "paused until 2027-01-02T20:00:00Z, which replaces the pause of ann until 2027-01-02T18:00:00Z: switches",
            ),
            (
                six,
                Some(None),
                "paused until 2027-01-02T18:00:00Z, which shortens the pause of ann without an end: switches",
            ),
        ] {
            let old = old.map(pause);
            assert_eq!(paused(&pause(new), old.as_ref()), words);
        }
    }

    /// Flux hands `kubectl` to fluxcd/pkg/ssa, which takes away the fields of each manager whose name begins so.
    #[test]
    fn the_name_under_which_people_write_is_none_that_flux_undoes() {
        assert!(!crate::cluster::MANAGER.starts_with("kubectl"));
    }

    #[test]
    fn a_pause_that_something_has_taken_away_or_may_is_told() {
        let request = PauseRequest {
            user: None,
            name: "ann".to_owned(),
            reason: Some("switches".to_owned()),
            expire_time: None,
        };
        let policy = |labels: Value, requests: &[PauseRequest]| -> NodeFencingPolicy {
            let policy = json!({
                "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": "workers", "labels": labels},
                "spec": {"nodeSelector": {}, "pauseRequests": requests},
            });
            serde_json::from_value(policy).expect("a policy")
        };
        let paused = policy(json!({}), std::slice::from_ref(&request));
        assert_eq!(stands(&paused, &request), Ok(()));
        assert_eq!(of_flux(&paused), None);
        let flux = json!({"kustomize.toolkit.fluxcd.io/name": "node-fencing", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
        let gone = policy(flux, &[]);
        let words = stands(&gone, &request).expect_err("gone");
        assert!(
            words.starts_with("NodeFencingPolicy workers is no longer paused by `ann`"),
            "{words}"
        );
        let words = of_flux(&gone).expect("a warning");
        assert!(
            words.contains("Kustomization node-fencing of Flux"),
            "{words}"
        );
    }

    #[test]
    fn a_pause_that_is_longer_than_anybody_means_is_refused_with_the_way_out() {
        assert_eq!(span("30d"), Ok(LONGEST));
        for text in ["9999d", "30d1s"] {
            let refused = span(text).expect_err(text);
            assert!(refused.contains("at most 30d"), "{refused}");
            assert!(refused.contains("`spec.pauseRequests`"), "{refused}");
        }
    }

    #[test]
    fn a_pause_ends_on_a_whole_second_and_never_too_early() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        for (given, kept) in [
            ("2027-01-02T18:00:00Z", "2027-01-02T18:00:00Z"),
            ("2027-01-02T18:00:00.000000001Z", "2027-01-02T18:00:01Z"),
        ] {
            assert_eq!(whole_seconds(at(given)), at(kept));
        }
    }
}
