//! Represents what an operator knows of its claim of one namespace.

use tokio::time::Instant;

/// The claim of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// No attempt to read or write the Lease has ended yet.
    Asked,
    /// All attempts have failed so far.
    Failed,
    Held {
        /// The renew deadline: from then on this operator drives nothing in the namespace until it has renewed the
        /// Lease. Other operators wait longer, until the Lease expires.
        until: Instant,
        contender: Option<String>,
    },
    Refused {
        holder: String,
    },
}

impl Claim {
    /// Whether this operator drives a namespace that another operator has chosen as well; none if no other has.
    pub(super) fn contended(&self) -> Option<bool> {
        match self {
            Self::Held { contender: Some(_), .. } => Some(true),
            Self::Refused { .. } => Some(false),
            Self::Asked | Self::Failed | Self::Held { .. } => None,
        }
    }

    /// Returns who drives the applications of the namespace.
    pub(super) fn driven(&self) -> Driven {
        match self {
            Self::Held { until, .. } if Instant::now() < *until => Driven::ByUs,
            Self::Refused { .. } => Driven::ByOthers,
            Self::Asked | Self::Failed | Self::Held { .. } => Driven::Unknown,
        }
    }
}

/// The operator that drives the applications of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driven {
    ByUs,
    ByOthers,
    /// The holder of the Lease is not known yet, or this operator's claim has run out.
    Unknown,
}
