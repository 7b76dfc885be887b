//! The PodGroups of batch schedulers as the watch reads them.

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, fmt::Debug, marker::PhantomData};

/// An API group and version that has PodGroups.
pub(super) trait Api: Clone + Debug + Send + Sync + 'static {
    /// The API group and version, with a slash between them.
    const VERSION: &str;
}

/// The API group of Volcano.
#[derive(Clone, Debug)]
pub(super) struct Volcano;
/// The API group of scheduler-plugins, for their coscheduling plugin.
#[derive(Clone, Debug)]
pub(super) struct Coscheduling;

impl Api for Volcano {
    const VERSION: &str = api::names::batch_scheduler::VOLCANO_API;
}

impl Api for Coscheduling {
    const VERSION: &str = api::names::batch_scheduler::COSCHEDULING_API;
}

/// A PodGroup of the API `A`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct PodGroup<A> {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
    #[serde(skip)]
    api: PhantomData<A>,
}

impl<A: Api> Resource for PodGroup<A> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "PodGroup".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        A::VERSION.split('/').next().unwrap_or_default().into()
    }

    fn version((): &()) -> Cow<'_, str> {
        A::VERSION.split('/').nth(1).unwrap_or_default().into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "podgroups".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
