//! The operator's process: arguments, telemetry, run.

#![forbid(unsafe_code)]

use node_fencing_operator::args::check::Checking;
use node_fencing_operator::args::{Error, Order, Settings};
use node_fencing_operator::{probe_file, shell, telemetry};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Order::read(std::env::args_os()) {
        Ok(Order::Probe(probing)) => of_file(probe_file::run(&probing)),
        Ok(Order::Conformance(trial)) => of_file(probe_file::contract::run(&trial)),
        Ok(Order::Check(checking)) => check(&checking).unwrap_or_else(|error| {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }),
        Ok(Order::Run(settings)) => start(*settings).unwrap_or_else(|error| {
            telemetry::last_words(error.as_ref());
            let of_run = error.downcast_ref::<shell::run::Error>();
            ExitCode::from(of_run.map_or(1, shell::run::Error::exit_code))
        }),
        Err(Error::Shown(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// A look at the device of a file. Nothing but the result is printed.
fn of_file(look: impl Future<Output = Result<ExitCode, probe_file::BadInput>>) -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let result = tokio::runtime::Runtime::new().map(|runtime| {
        let result = runtime.block_on(look);
        // A session that is being closed gets its time; whatever else still runs must not hold the process.
        runtime.shutdown_timeout(std::time::Duration::from_secs(2));
        result
    });
    let error = match result {
        Ok(Ok(code)) => return code,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    eprintln!("error: {error}");
    ExitCode::from(2)
}

/// A line for each thing that was looked at.
fn check(checking: &Checking) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let findings = runtime.block_on(shell::check::run(checking))?;
    runtime.shutdown_background();
    for finding in &findings {
        println!("{finding}");
    }
    let has_failed = findings.iter().any(shell::check::Finding::has_failed);
    Ok(ExitCode::from(u8::from(has_failed)))
}

fn start(settings: Settings) -> Result<ExitCode, Box<dyn std::error::Error>> {
    telemetry::start(settings.log_format, &settings.log_filter)?;
    // One TLS provider for the API server and the devices. It fails only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // One thread for all tasks: they wait for devices and the API server nearly all of their time, and of two threads each would wake
    // the other for every answer.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(shell::run::run(settings));
    // Whatever still runs, a name lookup for instance, must not hold the process.
    runtime.shutdown_background();
    result?;
    Ok(ExitCode::SUCCESS)
}
