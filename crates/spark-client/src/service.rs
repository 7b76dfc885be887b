//! Builds the driver's Service: the name and the ports at which the executors connect to the driver.

use super::{
    Context, Line,
    driver_in_progress::{Driver, extend},
    not_native::NotNative,
    submit_conf,
};
use api::names::{conf, label};
use serde_json::json;

const RPC: &str = "driver-rpc-port";
pub(super) const BLOCK_MANAGER: &str = "blockmanager";
/// The block manager's default port.
pub(super) const BLOCK_MANAGER_PORT: i32 = 7079;
const UI: &str = "spark-ui";
const CONNECT: &str = "spark-connect";

/// The object for which ports are determined: the ports of the container and of the Service can differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Container,
    Service,
}

/// Returns the driver's ports by name. For the block manager's port, Spark uses the common property
/// `spark.blockManager.port` only for the container, not for the Service, so both can differ.
pub(super) fn ports(context: &Context, side: Side) -> Result<Vec<(&'static str, i32)>, NotNative> {
    let conf = &context.conf;
    let block_manager = match side {
        Side::Container => {
            [submit_conf::DRIVER_BLOCK_MANAGER_PORT, submit_conf::BLOCK_MANAGER_PORT].as_slice()
        }
        Side::Service => &[submit_conf::DRIVER_BLOCK_MANAGER_PORT],
    };
    let block_manager = conf.first_set(block_manager).map(|key| conf.raw_int(key)).transpose()?.flatten();
    let mut ports = vec![
        (RPC, conf.raw_int(submit_conf::DRIVER_PORT)?.unwrap_or(7078)),
        (BLOCK_MANAGER, block_manager.unwrap_or(BLOCK_MANAGER_PORT)),
        (UI, conf.int(conf::UI_PORT)?.unwrap_or(4040)),
    ];
    if context.line >= Line::V4_1 {
        ports.push((CONNECT, conf.raw_int(submit_conf::CONNECT_PORT)?.unwrap_or(15002)));
    }
    Ok(ports)
}

pub(super) fn service(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let conf = &context.conf;
    if conf.has(submit_conf::BIND_ADDRESS) {
        let problem = "is not supported in Kubernetes mode, as the driver's bind address is managed and set to the driver pod's IP address: take it out";
        return Err(NotNative::refused(submit_conf::BIND_ADDRESS, problem));
    }
    let policies = ["SingleStack", "PreferDualStack", "RequireDualStack"];
    let families = ["IPv4", "IPv6", "IPv4,IPv6", "IPv6,IPv4"];
    let policy = conf.option(submit_conf::IP_FAMILY_POLICY, &policies)?;
    let family = conf.option(submit_conf::IP_FAMILIES, &families)?;
    let family = family.as_deref().unwrap_or(families[0]);
    let ports = ports(context, Side::Service)?;

    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": context.names.service,
            "labels": {label::SPARK_APP_SELECTOR: context.submission.ids.application},
        },
        "spec": {
            "clusterIP": "None",
            "ipFamilyPolicy": policy.as_deref().unwrap_or(policies[0]),
            "ipFamilies": family.split(',').collect::<Vec<_>>(),
            "selector": context.labels,
        },
    });
    for (field, prefix) in [
        ("labels", conf::DRIVER_SERVICE_LABEL_PREFIX),
        ("annotations", conf::DRIVER_SERVICE_ANNOTATION_PREFIX),
    ] {
        extend(&mut service["metadata"], field, conf.prefixed(prefix));
    }
    if context.line >= Line::V4_3 {
        let published = conf.boolean(submit_conf::PUBLISH_NOT_READY)?.unwrap_or(false);
        service["spec"]["publishNotReadyAddresses"] = published.into();
    }
    let host = format!("{}.{}.svc", context.names.service, context.namespace);
    driver.set_property(submit_conf::DRIVER_HOST, host);
    let keys = [(RPC, submit_conf::DRIVER_PORT), (BLOCK_MANAGER, submit_conf::DRIVER_BLOCK_MANAGER_PORT)];
    for (name, port) in &ports {
        if let Some((_, key)) = keys.iter().find(|(of, _)| of == name) {
            driver.set_property(key, port.to_string());
        }
    }
    let port = |(name, port): (&str, i32)| {
        let mut entry = json!({"name": name, "port": port, "targetPort": port});
        if name == CONNECT && context.line >= Line::V4_2 {
            entry["appProtocol"] = "grpc".into();
        }
        entry
    };
    service["spec"]["ports"] = ports.into_iter().map(port).collect();
    driver.children.push(service);
    Ok(())
}
