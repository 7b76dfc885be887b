//! `sparkctl`: reads the flags, runs the command, returns an exit code.

use spark_operator::ctl;
use std::{io::Write, process::ExitCode};

/// Lists of applications are trees of small objects.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before there are threads: a shell that asks what may come next tells it by the environment.
    match ctl::complete() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => run(),
        Err(error) => failed(&error),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run() -> ExitCode {
    match ctl::run(ctl::Flags::of_process()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    // Where stderr is closed nobody wants to know.
    writeln!(std::io::stderr(), "sparkctl: {error:#}").ok();
    ctl::exit_code(error).into()
}
