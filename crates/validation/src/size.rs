//! Checks that a spec is not too large to be stored, and within the bounds of what is read.

use super::Findings;
use api::Bounds;

/// The greatest size of a spec, in bytes of compact JSON.
///
/// The API server accepts requests of 3 MiB, and etcd accepts objects of 1.5 MB. `managedFields` in the same object can
/// be as large as the spec. The data of a run has limits as well: Spark's properties must fit into a ConfigMap of 1
/// MiB, and the changes that the webhook makes to the pods of each of the two roles into 256 KiB of annotations. So
/// this limit leaves 256 KiB for each role and 256 KiB for all the rest.
const LARGEST: usize = 768 << 10;

/// Whether the spec whose JSON this is, under the path `root`, is within the limits. Otherwise no other check is needed: the
/// user has to rewrite the spec.
pub fn is_bounded(json: &str, root: &str, findings: &mut Findings) -> bool {
    let excess = Bounds::SPEC.excess(json, root);
    if let Some(excess) = &excess {
        findings.refuse(&excess.path, excess.why());
    }
    let is_large = json.len() > LARGEST;
    if is_large {
        let most = format_args!("at most {LARGEST} are possible: move large values into ConfigMaps or files");
        findings.refuse(root, format_args!("has {} bytes as JSON, and {most}", json.len()));
    }
    excess.is_none() && !is_large
}
