//! The state and settings that all reviews share: metrics, and the checks that the flags turn on.

use super::{
    batch_schedulers::NamedBatchSchedulers, exposure_rights::ExposureRights, large::LargeReviews,
    lookups::Lookups, quotas::Quotas, review_metrics::ReviewMetrics,
};
use plan::schedule::Precision;
use std::time::Duration;

/// The state and settings that reviews need in addition to the request.
#[derive(Clone)]
pub struct Reviews {
    /// The metrics of all reviews.
    pub metrics: ReviewMetrics,
    /// The check against quotas; none if quotas are not enforced.
    pub quotas: Option<Quotas>,
    /// The check of the permissions of users who expose drivers; none if the check is off.
    pub exposure_rights: Option<ExposureRights>,
    /// The check of batch schedulers; none if this process does not know which ones there are.
    pub batch_schedulers: Option<NamedBatchSchedulers>,
    /// The precision of the times in the names of schedules' runs.
    pub precision: Precision,
    /// The shortest period of a schedule.
    pub shortest_period: Duration,
    /// Who may have the API server asked by these two checks.
    pub lookups: Lookups,
    /// The reviews of large objects.
    pub large: LargeReviews,
}

/// Creates reviews that read nothing from the API server.
impl From<ReviewMetrics> for Reviews {
    fn from(metrics: ReviewMetrics) -> Self {
        let (precision, large) = (Precision::default(), LargeReviews::default());
        Self {
            metrics,
            quotas: None,
            exposure_rights: None,
            batch_schedulers: None,
            precision,
            shortest_period: Duration::ZERO,
            lookups: Lookups::new(false),
            large,
        }
    }
}
