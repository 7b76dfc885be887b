//! The names that most tests of a cluster use, in addition to those of all tests.

pub(crate) use super::{
    applications::{application, owned_by},
    calls, eventually,
    kubectl::{kubectl, kubectl_with, try_kubectl_with},
    kubelet,
    namespace::{Namespace, Reviewed, webhooks},
    operator::{NAMESPACE, Operator, WEBHOOK, spark_home, stand_in},
    proxy::{Call, Moment, Proxy},
    seen,
    submission_node::SubmissionNode,
};
pub(crate) use crate::prelude::*;
