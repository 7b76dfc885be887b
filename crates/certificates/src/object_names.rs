//! Where the certificates are stored and registered.

/// The names of the objects that contain, serve or trust the webhook's certificates.
#[derive(Clone, Debug)]
pub struct Places {
    pub secret_namespace: String,
    pub secret: String,
    pub service_namespace: String,
    /// The webhook's Service.
    pub service: String,
    /// The MutatingWebhookConfiguration whose `caBundle` is kept up to date.
    pub mutating_configuration: String,
    /// The ValidatingWebhookConfiguration whose `caBundle` is kept up to date, if it is installed.
    pub validating_configuration: String,
}
