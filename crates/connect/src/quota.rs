//! Checks whether the ResourceQuotas of a namespace have room for a server and its executors. The sums are calculated
//! as for applications.

use crate::{Policy, application::as_application, checks::of_server, server_hash, server_pod::server_pod};
use api::{Role, SparkConnect, names::conf};
use k8s_openapi::api::core::v1::ResourceQuota;
use plan::{
    pod_requests::{PodRequests, no_pod},
    quota::{ASKER, Claim, exceeded_by},
};
use pods::PodClaim;
use validation::{Invalid, Refusal, validate};

/// Spark's default of `spark.executor.instances`.
const DEFAULT_INSTANCES: u32 = 2;

/// Whether a change starts a server, new or in place of the old one, so that the quotas must have room for it.
pub fn needs_room(old: Option<&SparkConnect>, new: &SparkConnect) -> bool {
    let goes_on = |old: &SparkConnect| !old.spec.suspend && server_hash(&old.spec) == server_hash(&new.spec);
    new.metadata.deletion_timestamp.is_none() && !new.spec.suspend && !old.is_some_and(goes_on)
}

/// Returns one finding for each resource of each quota that `new` would exceed. The pods of `old` do not count, as they
/// are replaced: see [`plan::quota::exceeded`]. The messages contain amounts if `says_numbers`.
pub fn exceeded(
    old: Option<&SparkConnect>,
    new: &SparkConnect,
    quotas: &[ResourceQuota],
    says_numbers: bool,
) -> Vec<Invalid> {
    let own = || {
        let status = old?.status.as_ref()?;
        let live = ["pending", "running"].iter().filter_map(|phase| status.executors.get(*phase));
        let executors = live.filter_map(|number| u32::try_from(*number).ok()).fold(0, u32::saturating_add);
        Some(claim(old?).ok()?.at_present(status.server.pod_name.is_some(), executors))
    };
    let found = exceeded_by(quotas, || claim(new), own, says_numbers);
    found
        .into_iter()
        .map(|found| Invalid { field: of_server(found.field), why: of_server(found.why) })
        .collect()
}

fn claim(connect: &SparkConnect) -> Result<Claim, Refusal> {
    let mut requests = PodRequests::of(&validate(&as_application(connect))?, "", ASKER)?;
    let server = serde_json::from_value(server_pod(connect, &Policy::new("k8s://")));
    let server = server.map_err(|error| no_pod(Role::Driver, error.to_string()))?;
    requests.driver.claim = PodClaim::of(server);
    if !requests.is_dynamic {
        let is_property = connect.spec.spark_conf.contains_key(conf::EXECUTOR_INSTANCES);
        requests.greatest = match connect.spec.executor.instances {
            Some(0) => 0,
            // Without `instances`, an application has one executor, as in Kubeflow's operator.
            None if !is_property => DEFAULT_INSTANCES,
            _ => requests.greatest,
        };
    }
    Ok(Claim::without_submission(requests))
}
