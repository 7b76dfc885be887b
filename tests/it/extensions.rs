//! The extensions that the lifecycle is tested with, and what they remember. Without the Cargo feature of an extension, this
//! is the core alone.

pub(crate) use built::{extensions, recalled};

#[cfg(feature = "batch-schedulers")]
mod built {
    use batch_schedulers::{BatchSchedulers, Exchanges, Recalled, Wait};
    use jiff::Timestamp;
    use plan::extension::{Extensions, only};
    use pods::PodSummary;
    use std::{any::Any, sync::Arc};

    /// Returns all extensions, turned off except for Kubernetes' own gangs if `has_gangs`.
    pub(crate) fn extensions(has_gangs: bool) -> Extensions {
        only(if has_gangs {
            BatchSchedulers::new(Vec::new(), true, None).unwrap()
        } else {
            BatchSchedulers::off()
        })
    }

    /// Returns the memories of extensions. `waits` has for each gated executor its uid, when it was first seen, and the
    /// node to which it was nominated. `elsewhere` are the pods of another application.
    pub(crate) fn recalled(
        elsewhere: &[PodSummary],
        waits: impl Iterator<Item = (String, Timestamp, Option<String>)>,
    ) -> Vec<Arc<dyn Any + Send + Sync>> {
        let waits = waits.map(|(uid, since, nominated)| (uid, Wait { since, nominated }));
        let (of_others, waits) = (Exchanges::of(elsewhere.iter()), waits.collect());
        vec![Arc::new(Recalled { of_others, waits })]
    }
}

#[cfg(not(feature = "batch-schedulers"))]
mod built {
    use jiff::Timestamp;
    use plan::extension::Extensions;
    use pods::PodSummary;
    use std::{any::Any, sync::Arc};

    pub(crate) fn extensions(_: bool) -> Extensions {
        Extensions::default()
    }

    pub(crate) fn recalled(
        _: &[PodSummary],
        _: impl Iterator<Item = (String, Timestamp, Option<String>)>,
    ) -> Vec<Arc<dyn Any + Send + Sync>> {
        Vec::new()
    }
}
