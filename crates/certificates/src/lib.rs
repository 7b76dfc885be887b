//! The certificates of the webhook: when they are renewed, how they are created, where they are stored, and how the API
//! server comes to trust them.
//!
//! [`renewal`] decides from values, without a client or a clock. The other modules carry out its decisions: replicas
//! share the certificates in a [`SharedSecret`], [`Trust`] brings them to the listener ([`ServingCertificate`]) and to
//! the webhook configurations ([`Configurations`]), and reports until when they are valid. Certificates that the
//! operator has not created ([`Source`]) are checked, served and watched in the same way.

mod error;
mod expiry;
mod generated;
mod object_names;
mod registration;
pub mod renewal;
mod secret;
mod serving;
mod source;
mod trust;
mod webhook_configurations;
pub mod x509;

pub use error::Error;
pub use generated::Certificates;
pub use object_names::Places;
pub use secret::{Memory, SharedSecret};
pub use serving::ServingCertificate;
pub use source::{Files, Source};
pub use trust::Trust;
pub use webhook_configurations::{Configurations, Hook};
