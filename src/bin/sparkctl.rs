//! `sparkctl`: the command line.

fn main() {}
