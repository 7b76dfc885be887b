//! The extensions that the operator is built with: the only place that names each of them. Each is behind a Cargo feature.

#[cfg(feature = "batch-schedulers")]
mod batch_scheduler;

#[cfg(feature = "batch-schedulers")]
pub use batch_scheduler::BatchSchedulerSettings;
use clap::Args;
use plan::extension::{Extension, Extensions};
use std::sync::Arc;

/// The flags of all extensions.
#[derive(Clone, Debug, Args)]
pub struct ExtensionSettings {
    #[cfg(feature = "batch-schedulers")]
    #[command(flatten)]
    pub batch_scheduler: BatchSchedulerSettings,
}

/// The flags of one extension.
trait ExtensionFlags {
    /// Returns the extension, also if it is turned off.
    ///
    /// # Errors
    ///
    /// When the flags contradict each other: the reason.
    fn extension(&self) -> anyhow::Result<Arc<dyn Extension>>;

    /// Whether the extension is turned on.
    fn is_on(&self) -> bool;

    /// Returns the manifests of the roles that it needs; empty if it is turned off.
    fn roles(&self) -> Vec<&'static str>;
}

impl ExtensionSettings {
    fn all(&self) -> Vec<&dyn ExtensionFlags> {
        let all: &[&dyn ExtensionFlags] = &[
            #[cfg(feature = "batch-schedulers")]
            &self.batch_scheduler,
        ];
        all.to_vec()
    }

    /// Returns the extensions, also those that are turned off.
    ///
    /// # Errors
    ///
    /// When the flags of one contradict each other: the reason.
    pub fn extensions(&self) -> anyhow::Result<Extensions> {
        self.all().into_iter().map(ExtensionFlags::extension).collect()
    }

    /// Returns whether one of them is turned on.
    pub fn has_any(&self) -> bool {
        self.all().into_iter().any(ExtensionFlags::is_on)
    }

    /// Returns the manifests of the roles that those need which are turned on.
    pub fn roles(&self) -> impl Iterator<Item = &'static str> {
        self.all().into_iter().flat_map(ExtensionFlags::roles)
    }
}
