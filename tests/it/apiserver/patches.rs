//! Proves that the webhook's patches give the same pods with the API server's own JSON patch library as with ours.

use crate::{prelude::*, random_pods::drawn};
use pod_customization::customized;

const DRAWN: u32 = 3000;

#[test]
#[ignore = "needs what `make test` builds"]
fn the_api_servers_json_patch_library_produces_the_same_pods() {
    let golden = cases("customization").into_iter().map(|case| yaml::<Value>(&case.join("pod.before.yaml")));
    let patching = |pod: Value| {
        let patched = customized(&pod).ok()?;
        // The webhook sends this patch to the API server.
        let patch = json!(json_patch::diff(&pod, &patched));
        Some(json!({"document": pod, "patch": patch, "patched": patched}))
    };
    let patchings: Vec<_> = golden.chain(drawn(DRAWN)).filter_map(patching).collect();
    assert!(patchings.len() > 1000, "only {} of the pods are admitted", patchings.len());

    // The program in tests/tools/json-patch, which `tests/tools/cluster/cluster exec` has on its PATH.
    let output = run("json-patch", &[], &json!(patchings).to_string());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("{} patches applied\n", patchings.len()));
}
