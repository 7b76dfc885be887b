//! Reviews Spark's pods: changes each pod as its annotations say.

use super::decision::{Change, Decision};
use pod_customization::{self, Denial};

pub(super) fn customized(change: &Change) -> Decision {
    match pod_customization::patch(change.object) {
        Ok(patch) => Decision::Admitted { patch, warnings: Vec::new() },
        Err(denials) => Decision::Refused {
            subjects: denials.iter().map(Denial::subject).collect(),
            message: denials.iter().map(Denial::to_string).collect::<Vec<_>>().join("; "),
            warnings: Vec::new(),
        },
    }
}
