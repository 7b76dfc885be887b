//! What can be set of the webhook and its certificates?

use super::duration;
use crate::{plan::renewal::Waits, webhook::Places};
use clap::Args;
use std::time::Duration;

/// The webhook, its certificates and who trusts them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Webhook")]
pub struct WebhookSettings {
    /// The port of the admission webhook
    #[arg(long, env = "SPARK_OPERATOR_WEBHOOK_PORT", value_name = "PORT", default_value_t = 9443)]
    pub webhook_port: u16,

    #[command(flatten)]
    pub objects: WebhookObjects,

    /// The webhook's Service
    #[arg(
        long,
        env = "SPARK_OPERATOR_WEBHOOK_SVC_NAME",
        value_name = "NAME",
        default_value = "spark-operator-webhook-svc"
    )]
    pub webhook_svc_name: String,

    /// The namespace of that Service [default: that of the Secret]
    #[arg(long, env = "SPARK_OPERATOR_WEBHOOK_SVC_NAMESPACE", value_name = "NAMESPACE")]
    pub webhook_svc_namespace: Option<String>,

    /// How long a new CA stands in the webhook configurations before a certificate is signed by it: until
    /// every API server has read them
    #[arg(long, env = "SPARK_OPERATOR_WEBHOOK_CA_SETTLE_TIME", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub webhook_ca_settle_time: Duration,

    /// How long an old CA is still trusted when its last certificate has been replaced: until every replica
    /// has noticed
    #[arg(long, env = "SPARK_OPERATOR_WEBHOOK_CA_OVERLAP", value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub webhook_ca_overlap: Duration,
}

/// The objects in which the certificates are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Webhook")]
pub struct WebhookObjects {
    /// The Secret that holds the webhook's CA and certificate; made if it does not exist
    #[arg(
        long,
        env = "SPARK_OPERATOR_WEBHOOK_SECRET_NAME",
        value_name = "NAME",
        default_value = "spark-operator-webhook-certs"
    )]
    pub webhook_secret_name: String,

    /// The namespace of that Secret
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "spark-operator")]
    pub webhook_secret_namespace: String,

    /// The MutatingWebhookConfiguration whose caBundle the operator keeps
    #[arg(
        long,
        env = "SPARK_OPERATOR_MUTATING_WEBHOOK_NAME",
        value_name = "NAME",
        default_value = "spark-operator-webhook"
    )]
    pub mutating_webhook_name: String,

    /// The ValidatingWebhookConfiguration whose caBundle the operator keeps, if there is one
    #[arg(
        long,
        env = "SPARK_OPERATOR_VALIDATING_WEBHOOK_NAME",
        value_name = "NAME",
        default_value = "spark-operator-webhook"
    )]
    pub validating_webhook_name: String,
}

impl WebhookSettings {
    /// Where the webhook's certificates go.
    #[must_use]
    pub fn places(&self) -> Places {
        let objects = &self.objects;
        let namespace = &objects.webhook_secret_namespace;
        Places {
            secret_namespace: namespace.clone(),
            secret: objects.webhook_secret_name.clone(),
            service_namespace: self.webhook_svc_namespace.as_ref().unwrap_or(namespace).clone(),
            service: self.webhook_svc_name.clone(),
            mutating_configuration: objects.mutating_webhook_name.clone(),
            validating_configuration: objects.validating_webhook_name.clone(),
        }
    }

    /// How long to wait between the steps of a CA's renewal.
    #[must_use]
    pub fn waits(&self) -> Waits {
        Waits { settle: self.webhook_ca_settle_time, overlap: self.webhook_ca_overlap }
    }
}
