//! The command line as it was given.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// All flags of a command, with their values as texts. It must be the first field of a struct of flags, because each
/// other field removes its values from what clap has parsed.
#[derive(Clone, Debug)]
pub(super) struct Given(pub(super) ArgMatches);

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0 = matches.clone();
        Ok(())
    }
}
