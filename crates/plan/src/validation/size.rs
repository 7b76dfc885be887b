//! Checks that a spec is neither so large nor nested so deep that a reader or a place to keep it has no room for it.

use super::{Findings, Subject};
use crate::nesting::{self, DEEPEST};

/// The most bytes of a spec as compact JSON.
///
/// The API server takes requests of 3 MiB and etcd objects of 1.5 MB. `managedFields` beside it can have the size of the
/// spec again. What a run is made from has to fit as well: Spark's properties into a ConfigMap of 1 MiB, what the webhook
/// does to the pods of each of two roles into 256 KiB of annotations, with 256 KiB for all the rest.
const LARGEST: usize = 768 << 10;

/// Whether it is within bounds. Otherwise nothing else needs to be looked at: it is to be written anew.
pub(super) fn is_bounded(subject: &Subject, findings: &mut Findings) -> bool {
    let json = serde_json::to_string(&subject.application.spec).expect("a spec is JSON");
    let deep = nesting::path_beyond(&json, subject.root, DEEPEST);
    if let Some(path) = &deep {
        findings.refuse(path, nesting::too_deep());
    }
    let is_large = json.len() > LARGEST;
    if is_large {
        findings.refuse(
            subject.root,
            format_args!(
                "has {} bytes as JSON, and at most {LARGEST} are possible: move large values into ConfigMaps or files",
                json.len()
            ),
        );
    }
    deep.is_none() && !is_large
}
