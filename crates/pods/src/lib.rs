//! Reduces pods to the facts on which decisions depend: their state, the labels and annotations of extensions, and
//! their resource requests.

mod particulars;
mod pod_claim;
mod pod_summary;

pub use particulars::{Particulars, Placement};
pub use pod_claim::{Amounts, PodClaim, is_counted};
pub use pod_summary::{Controller, Ended, Phase, PodSummary, Waiting};
