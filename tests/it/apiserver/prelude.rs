//! The names that most tests of a cluster use, in addition to those of all tests.

pub(crate) use super::{
    A_WHILE,
    applications::{application, connect, hopeless, owned_by, plain_pod, scheduled},
    arrivals::Arrivals,
    calls, eventually,
    kubectl::{kubectl, kubectl_with, try_kubectl_with},
    kubelet,
    namespace::{Namespace, Ours, granted, reviewed, webhooks},
    now,
    operator::{HEALTH, NAMESPACE, Operator, Setup, WEBHOOK, WEBHOOK_PORT, spark_home, stand_in},
    proxy::{Call, Fault, Line, Moment, Proxy},
    seen, spark,
    submission_node::SubmissionNode,
};
pub(crate) use crate::prelude::*;
