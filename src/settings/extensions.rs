//! The extensions that the operator is built with: the only place that names each of them.

use super::BatchSchedulerSettings;
use clap::Args;
use plan::extension::Extensions;

/// The flags of all extensions.
#[derive(Clone, Debug, Args)]
pub struct ExtensionSettings {
    #[command(flatten)]
    pub batch_scheduler: BatchSchedulerSettings,
}

impl ExtensionSettings {
    /// Returns the extensions, also those that are turned off.
    ///
    /// # Errors
    ///
    /// When the flags of one contradict each other: the reason.
    pub fn extensions(&self) -> Result<Extensions, String> {
        self.batch_scheduler.batch_schedulers().map(Extensions::of)
    }

    /// Returns whether one of them is turned on.
    #[must_use]
    pub const fn has_any(&self) -> bool {
        self.batch_scheduler.enable_batch_scheduler
    }

    /// Returns the manifests of the roles that those need which are turned on.
    pub fn roles(&self) -> impl Iterator<Item = &'static str> {
        self.batch_scheduler.roles()
    }

    /// Returns the flags that produce these settings, without those that have their default.
    pub(super) fn arguments(&self) -> impl Iterator<Item = String> {
        self.batch_scheduler.arguments()
    }
}
