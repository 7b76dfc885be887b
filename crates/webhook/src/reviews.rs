//! The state and settings that all reviews share: metrics, and the checks that the flags turn on.

use super::{
    exposure_rights::ExposureRights, large_reviews::LargeReviews, lookups::Lookups, quotas::Quotas,
    review_metrics::ReviewMetrics,
};
use plan::extension::Extensions;
use std::time::Duration;
use validation::Precision;

/// The state and settings that reviews need in addition to the request.
pub struct Reviews {
    /// The metrics of all reviews.
    pub metrics: ReviewMetrics,
    /// The check against quotas; `None` if quotas are not enforced.
    pub quotas: Option<Quotas>,
    /// The check of the permissions of users who expose drivers, which refuses or warns; `None` if the check is off.
    pub exposure_rights: Option<ExposureRights>,
    /// The user name of the account of the gateway of SparkConnects, if there is a gateway.
    pub gateway: Option<String>,
    /// The extensions that check specs.
    pub extensions: Extensions,
    /// The precision of the times in the names of schedules' runs.
    pub precision: Precision,
    /// The shortest period of a schedule.
    pub shortest_period: Duration,
    /// The limit for the requests of `quotas` and `exposure_rights` to the API server.
    pub lookups: Lookups,
    /// The reviews of large objects.
    pub large: LargeReviews,
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::registry::Registry;

    impl Reviews {
        /// Creates reviews that send no requests to the API server. Their metrics are in `registry`.
        pub(crate) fn asking_nothing(registry: &mut Registry) -> Self {
            Self {
                metrics: ReviewMetrics::new(registry),
                quotas: None,
                exposure_rights: None,
                gateway: None,
                extensions: Extensions::default(),
                precision: Precision::default(),
                shortest_period: Duration::ZERO,
                lookups: Lookups::new(false),
                large: LargeReviews::default(),
            }
        }
    }
}
