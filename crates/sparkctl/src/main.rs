//! The program `sparkctl`: parses the command line, runs the command and exits with its exit code.

use std::{io::Write, process::ExitCode};

/// mimalloc is used because lists of applications are trees of small objects.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Completion comes first, before any thread is started: a shell requests it by an environment variable.
    match spark_operator_sparkctl::complete() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => run(),
        Err(error) => failed(&error),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run() -> ExitCode {
    match spark_operator_sparkctl::run(spark_operator_sparkctl::Flags::of_process()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    // If stderr is closed, the message has no reader, so the failure to write it is ignored.
    writeln!(std::io::stderr(), "sparkctl: {error:#}").ok();
    spark_operator_sparkctl::exit_code(error).into()
}
