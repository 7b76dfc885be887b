//! The flags about servers of Spark Connect.

use super::values::port_range;
use api::{ConnectAccess, names::label};
use clap::Args;
use connect::{Gateway, Policy};
use controller::{ConnectSetup, GatewaySetup};
use std::ops::RangeInclusive;

/// Whether and how SparkConnects are served.
#[derive(Clone, Debug, Args)]
pub struct ConnectSettings {
    /// Whether SparkConnects are served; without this nothing is done about them, and nothing is checked
    #[arg(long, default_value_t = true)]
    pub enable_spark_connect: bool,

    /// Whose pods may connect to a server whose spec does not say (server.access): `Namespace`, those of its namespace,
    /// or `Cluster`, all
    #[arg(long, value_name = "ACCESS", default_value = "Namespace", value_parser = access)]
    pub connect_default_access: ConnectAccess,

    /// Whether the installation has the gateway, without which sleepAfterIdleSeconds and ttlSecondsAfterIdle of SparkConnects
    /// have no effect
    #[arg(long)]
    pub connect_gateway: bool,

    /// The ports of the gateway (its --port-range), of which each SparkConnect that needs it gets one
    #[arg(long, value_name = "FIRST-LAST", default_value = "20000-29999", value_parser = port_range)]
    pub connect_gateway_port_range: RangeInclusive<u16>,

    /// The labels by which the gateway's pods are found in the operator's namespace: `app=gateway`, with commas between them
    /// [default: app.kubernetes.io/name=INSTALLATION-connect-gateway]
    #[arg(long, value_name = "LABEL=VALUE", value_delimiter = ',', value_parser = labelled)]
    pub connect_gateway_labels: Vec<(String, String)>,

    /// The gateway's service account, which the webhook allows only to record connections in an annotation [default:
    /// INSTALLATION-connect-gateway]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub connect_gateway_account: String,
}

/// The suffix of the names of the gateway's objects, after the name of the installation.
const GATEWAY: &str = "connect-gateway";

impl ConnectSettings {
    /// Returns what the controller of the `installation` in `namespace` needs; `None` if it does not serve
    /// SparkConnects.
    pub fn setup(&self, installation: &str, namespace: &str, policy: Policy) -> Option<ConnectSetup> {
        let (first, last) = self.connect_gateway_port_range.clone().into_inner();
        let gateway = || GatewaySetup {
            gateway: Gateway {
                namespace: namespace.to_owned(),
                labels: match &self.connect_gateway_labels[..] {
                    [] => [(label::PROGRAM.to_owned(), format!("{installation}-{GATEWAY}"))].into(),
                    labels => labels.iter().cloned().collect(),
                },
                addresses: Vec::new(),
            },
            ports: i32::from(first)..=i32::from(last),
            policy: format!("{installation}-connect-ports"),
        };
        let policy = Policy { default_access: self.connect_default_access, ..policy };
        let gateway = self.connect_gateway.then(gateway);
        self.enable_spark_connect.then_some(ConnectSetup { policy, gateway })
    }

    /// Returns whether there is a gateway of SparkConnects.
    pub fn has_gateway(&self) -> bool {
        self.enable_spark_connect && self.connect_gateway
    }

    /// Returns the user name of the gateway's account in `namespace`, if there is a gateway.
    pub fn gateway_user(&self, installation: &str, namespace: &str) -> Option<String> {
        let account = match &*self.connect_gateway_account {
            "" => format!("{installation}-{GATEWAY}"),
            account => account.to_owned(),
        };
        self.has_gateway().then(|| format!("system:serviceaccount:{namespace}:{account}"))
    }
}

fn access(text: &str) -> Result<ConnectAccess, String> {
    serde_json::from_value(text.into()).map_err(|_| "is neither `Namespace` nor `Cluster`".to_owned())
}

fn labelled(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("is no label and value (try `app=gateway`)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::run;

    #[test]
    fn the_gateway_has_the_names_of_its_installation_unless_flags_set_others() {
        let setup =
            |flags: &[&str]| run(flags).installation.connect.setup("team", "ours", Policy::new("k8s://api"));
        assert!(setup(&["--enable-spark-connect=false", "--connect-gateway"]).is_none());
        assert!(setup(&[]).unwrap().gateway.is_none());
        let gateway = setup(&["--connect-gateway"]).unwrap().gateway.unwrap();
        assert_eq!((gateway.ports, &*gateway.policy), (20_000..=29_999, "team-connect-ports"));
        let label = ("app.kubernetes.io/name".to_owned(), "team-connect-gateway".to_owned());
        assert_eq!(gateway.gateway.labels, [label].into());
        assert_eq!(gateway.gateway.namespace, "ours");
        let labels = ["--connect-gateway", "--connect-gateway-labels=a=b,c=d"];
        let gateway = setup(&labels).unwrap().gateway.unwrap();
        assert_eq!(gateway.gateway.labels.len(), 2);
        let user = |flags: &[&str]| run(flags).installation.connect.gateway_user("team", "ours");
        assert_eq!(user(&[]), None);
        assert_eq!(
            user(&["--connect-gateway"]).as_deref(),
            Some("system:serviceaccount:ours:team-connect-gateway")
        );
    }
}
