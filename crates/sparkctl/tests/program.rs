//! Tests the help of the program `sparkctl`. Its commands are tested in `tests/it`; cargo builds the program for those
//! tests because its package has a test here.

use clap::CommandFactory;

#[test]
fn the_help_of_every_command_has_an_example_of_it() {
    for command in spark_operator_sparkctl::Flags::command().get_subcommands() {
        let name = command.get_name();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains(&format!("sparkctl {name} ")), "{name}: {help}");
    }
}
