//! `sparkctl`: flags, then what they ask for, then an exit code.

use clap::Parser;
use spark_operator::ctl;
use std::{io::Write, process::ExitCode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match ctl::run(ctl::Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where stderr is closed nobody wants to know.
            writeln!(std::io::stderr(), "sparkctl: {error:#}").ok();
            ctl::exit_code(&error).into()
        }
    }
}
