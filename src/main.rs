//! `spark-operator`: flags, then what they ask for, then an exit code.

use spark_operator::api::crds;
use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(crds::yaml().as_bytes())
}
