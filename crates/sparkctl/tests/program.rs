//! Tests the help of the program `sparkctl`. Its commands are tested in `tests/it`; cargo builds the program for those
//! tests because this test uses it.

use clap::CommandFactory;
use std::process::Command;

#[test]
fn the_help_of_every_command_has_an_example_of_it() {
    for command in spark_operator_sparkctl::Flags::command().get_subcommands() {
        let name = command.get_name();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains(&format!("sparkctl {name} ")), "{name}: {help}");
    }
}

#[test]
fn the_program_lists_every_command_in_its_help() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_sparkctl")).arg("--help").output().expect("it can be started");
    assert!(output.status.success(), "{output:?}");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    for command in
        spark_operator_sparkctl::Flags::command().get_subcommands().filter(|command| !command.is_hide_set())
    {
        assert!(help.contains(&format!("  {} ", command.get_name())), "{}: {help}", command.get_name());
    }
}
