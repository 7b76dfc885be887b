//! What becomes of Spark's pods? What their annotations ask for.

use super::review::{Change, Decision};
use crate::plan::customization::{self, Denial};

pub(super) fn customized(change: &Change) -> Decision {
    match customization::customized(change.object) {
        Ok(customized) => Decision::Changed(customized),
        Err(denials) => Decision::Refused {
            subjects: denials.iter().map(Denial::subject).collect(),
            message: denials.iter().map(Denial::to_string).collect::<Vec<_>>().join("; "),
            warnings: Vec::new(),
        },
    }
}
