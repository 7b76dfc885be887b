//! Describes the state of a Spark Connect server and its reason, in the words of `sparkctl` and of the page.

use crate::printable::line;
use api::{
    ConnectState, SparkConnect,
    names::connect_condition::{SERVER_POD_READY, SLEEPING, SUSPENDED},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Returns the condition of this type, if its status is `True`.
pub fn condition<'a>(connect: &'a SparkConnect, type_: &str) -> Option<&'a Condition> {
    connect.status.as_ref()?.true_condition(type_)
}

/// Returns the state. For a suspended or sleeping server that is `Suspended` or `Sleeping`, although `status.state` is
/// `NotReady`, as with Kubeflow's operator.
pub fn state(connect: &SparkConnect) -> &'static str {
    match connect.state() {
        ConnectState::NotReady if condition(connect, SUSPENDED).is_some() => "Suspended",
        ConnectState::NotReady if condition(connect, SLEEPING).is_some() => "Sleeping",
        ConnectState::New => "New",
        state => state.as_str(),
    }
}

/// Returns why clients cannot connect; `None` if they can, or if the status does not say why.
pub fn why(connect: &SparkConnect) -> Option<String> {
    let ready =
        connect.status.as_ref()?.condition(SERVER_POD_READY).filter(|ready| ready.status != "True")?;
    Some(line(ready.message.trim_end()))
}

/// Returns the state and its reason: `Failed: Server pod is not ready: no such image`.
pub fn state_and_why(connect: &SparkConnect) -> String {
    why(connect).map_or_else(|| state(connect).to_owned(), |why| format!("{}: {why}", state(connect)))
}

/// Whether the SparkConnect is suspended or sleeping, so that it has no server pod until a user resumes it or a client
/// wakes it.
pub fn rests(connect: &SparkConnect) -> bool {
    // A connection since then wakes the server: it does so when the operator reconciles the SparkConnect.
    let wakes = |since: &Condition| {
        connect.last_connection().is_some_and(|last| last.0 > since.last_transition_time.0)
    };
    connect.spec.suspend || condition(connect, SLEEPING).is_some_and(|since| !wakes(since))
}

/// Returns the number of executors by the phase of their pods: `1 pending, 2 running`; `None` without executors.
pub fn executors(connect: &SparkConnect) -> Option<String> {
    let counts = connect.status.iter().flat_map(|status| &status.executors);
    let told: Vec<_> = counts.map(|(phase, count)| format!("{count} {}", line(phase))).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_sleeping_server_rests_until_a_client_connects() {
        let connect = |suspend: bool, last: &str| -> SparkConnect {
            let condition = |type_: &str, status: &str, message: &str| {
                json!({
                    "type": type_, "status": status, "reason": type_, "message": message,
                    "lastTransitionTime": "2026-11-21T12:00:00Z",
                })
            };
            let conditions = [
                condition("Sleeping", "True", ""),
                condition("ServerPodReady", "False", "Server pod is not ready: nobody has connected\n"),
            ];
            from_value(json!({
                "metadata": {"name": "notebook", "annotations": {"sparkoperator.k8s.io/last-connection": last}},
                "spec": {"sparkVersion": "4.0.1", "server": {}, "executor": {}, "suspend": suspend},
                "status": {"state": "NotReady", "conditions": conditions},
            }))
            .unwrap()
        };
        let (before, after) = ("2026-11-21T11:59:00Z", "2026-11-21T12:00:01Z");
        assert!(rests(&connect(false, before)) && !rests(&connect(false, after)));
        assert!(rests(&connect(true, after)));
        let why = "Sleeping: Server pod is not ready: nobody has connected";
        assert_eq!(state_and_why(&connect(false, before)), why);
    }
}
