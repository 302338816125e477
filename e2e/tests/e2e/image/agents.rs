//! The image with the operator on a Debian with fence agents, which the operator cannot call yet.

use std::fs;

use anyhow::{Result, ensure};
use e2e::image::{self, Image};

use super::{a_fence_goes_through, it_is_an_image_of_the_operator};

/// Every agent describes itself, for which Python finds all that it imports; and which of the programs that it calls by their paths are missing.
const EVERY_AGENT: &str = r#"
for agent in /usr/sbin/fence_*; do
    name=${agent##*/}
    if said=$("$agent" -o metadata 2>&1); then echo "$name describes itself"; else echo "$name fails: $said"; fi
    for program in $(echo "$said" | grep -oE 'default="/(usr/)?s?bin/[^" ]+' | cut -d '"' -f 2); do
        [ -x "$program" ] || echo "$name lacks $program"
    done
done
"#;
/// Those that the driver runs.
const AGENTS: usize = 8;
/// What an agent would call as another user, which none is asked to.
const LEFT_OUT: [&str; 1] = ["/usr/bin/sudo"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an image: make image-test TARGET=agents"]
async fn a_fence_goes_through_from_inside_the_image() -> Result<()> {
    if !image::available_to_test("a_fence_goes_through_from_inside_the_image")? {
        return Ok(());
    }
    a_fence_goes_through("image-agents").await
}

#[test]
#[ignore = "needs an image: make image-test TARGET=agents"]
fn the_image_holds_the_operator_and_agents_that_run() -> Result<()> {
    if !image::available_to_test("the_image_holds_the_operator_and_agents_that_run")? {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let image = Image::unpack(directory.path())?;
    eprintln!("{} bytes, compressed", image.compressed_bytes());
    it_is_an_image_of_the_operator(&image)?;
    no_authority_is_of_the_builder_s_own(&image)?;

    let version = image.say(&["/node-fencing-operator", "--version"])?;
    ensure!(
        version.contains(
            image
                .label("org.opencontainers.image.version")
                .unwrap_or("?")
        ),
        "{version}"
    );
    let user = image.say(&[
        "python3",
        "-c",
        "import os, pwd; print(pwd.getpwuid(os.getuid()).pw_uid)",
    ])?;
    ensure!(user.trim() == "65532", "{user}");
    every_agent_runs(&image)
}

/// In the surroundings that the operator has, its user and read-only root.
fn every_agent_runs(image: &Image) -> Result<()> {
    let said = image.say(&["/bin/sh", "-c", EVERY_AGENT])?;
    let (good, bad): (Vec<&str>, Vec<&str>) = said
        .lines()
        .filter(|line| {
            let program = line.split_once(" lacks ").map(|(_, program)| program);
            !program.is_some_and(|it| LEFT_OUT.contains(&it))
        })
        .partition(|line| line.ends_with(" describes itself"));
    ensure!(bad.is_empty(), "{bad:#?}");
    ensure!(good.len() == AGENTS, "{good:?}");
    eprintln!("{} agents describe themselves", good.len());
    Ok(())
}

/// Where a proxy looks into TLS, the builder knows its authority; whoever runs the image shall not trust it.
fn no_authority_is_of_the_builder_s_own(image: &Image) -> Result<()> {
    let local = image.root().join("usr/local/share/ca-certificates");
    let local = fs::read_dir(local).map_or(0, Iterator::count);
    ensure!(local == 0, "{local} authorities of the builder's own");
    let public = image.root().join("etc/ssl/certs/ca-certificates.crt");
    let public = fs::read_to_string(public)?;
    let public = public.matches("BEGIN CERTIFICATE").count();
    ensure!(public > 100, "only {public} authorities");
    Ok(())
}
