//! `sparkctl`: flags, then what they ask for, then an exit code.

use clap::Parser;
use spark_operator::ctl;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    ctl::run(ctl::Flags::parse()).await
}
