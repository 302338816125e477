//! Judges the records of a run of the lab: what was written, commanded, read and attached, against the rules of the protocol.
//!
//! Prints a line for each rule that was broken, and how much there was to be judged. Exits with 1 if a rule was broken, with 2 if
//! there is nothing to be judged or the records cannot be read.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use e2e::judge::{self, rules, run::Texts};

/// Judge the records of a run: its directory, below target/lab/run.
#[derive(Parser)]
struct Arguments {
    /// The directory of the run.
    #[arg(required_unless_present = "rules")]
    directory: Option<PathBuf>,
    /// Print the rules and where each comes from, and end.
    #[arg(long)]
    rules: bool,
    /// Copy what the judge reads to this directory, as a history for tests, with a few of the lines of volumes.
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.rules {
        for rule in rules::ALL {
            println!(
                "{}: {} (docs/protocol.md: {})",
                rule.name, rule.words, rule.source
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let directory = arguments.directory.context("no directory is given")?;
    let texts = match Texts::read(&directory) {
        Ok(texts) => texts,
        Err(error) => {
            eprintln!("the records cannot be read: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    if let Some(keep) = arguments.keep {
        texts.thinned()?.write(&keep)?;
        return Ok(ExitCode::SUCCESS);
    }
    let judgement = match texts.parse() {
        Ok(run) => judge::judge_run(&run),
        Err(error) => {
            eprintln!("the records cannot be read: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    for violation in &judgement.violations {
        println!("{violation}");
    }
    println!(
        "{} violations in {}",
        judgement.violations.len(),
        judgement.counts
    );
    Ok(if !judgement.violations.is_empty() {
        ExitCode::from(1)
    } else if judgement.counts.of_the_operator == 0 {
        eprintln!("there is nothing to be judged");
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    })
}
