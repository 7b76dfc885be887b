//! Proves that the operator has no right that it does not use. `tests/tools/in-clusters` runs this test after all other tests
//! that need an API server. The audit logs of the API servers contain every request of the operator's service account;
//! the variable `AUDIT_LOGS` has their paths.
//!
//! A missing right needs no test of its own: in all tests the operator has only the rights of the manifests.

use crate::prelude::*;
use clap::Parser;
use spark_operator::{
    manifests,
    settings::{Command, Flags},
};
use std::{
    fs::File,
    io::{BufRead, BufReader},
};

/// The end of the names of resources that this test leaves out, because no request needs a right on them. The API
/// server checks such a right where the admission plugin OwnerReferencesPermissionEnforcement is on, for owner
/// references that block the owner's deletion.
const OF_OWNER_REFERENCES: &str = "/finalizers";

/// A right that no audit log shows: server-side apply needs `create` to create an object, but sends a PATCH.
const OF_APPLY: (&str, &str, &str) = ("discovery.k8s.io", "endpointslices", "create");

/// API group, resource with its subresource, and verb.
pub type Right = (String, String, String);

#[test]
#[ignore = "needs the audit logs of kube-apiserver: make test"]
fn every_right_of_the_operator_is_used() {
    let logs = env::var("AUDIT_LOGS").expect("tests/tools/in-clusters sets it");
    let used: BTreeSet<Right> = logs.split(':').flat_map(used).collect();
    let mut unused: Vec<_> = granted().difference(&used).cloned().collect();
    unused.retain(|(group, resource, verb)| {
        !resource.ends_with(OF_OWNER_REFERENCES) && (&**group, &**resource, &**verb) != OF_APPLY
    });
    assert!(unused.is_empty(), "granted, and used by no test: {unused:#?}");
}

/// Returns the rights that the operator has used according to an audit log.
fn used(log: &str) -> BTreeSet<Right> {
    let lines = BufReader::new(File::open(log).unwrap()).lines();
    let right = |line: String| {
        // The last line is incomplete if the API server still writes it.
        let request: Value = serde_json::from_str(&line).ok()?;
        let allowed = &request["annotations"]["authorization.k8s.io/decision"];
        let object = &request["objectRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = match object["subresource"].as_str() {
            Some(subresource) => format!("{}/{subresource}", text(&object["resource"])),
            None => text(&object["resource"]),
        };
        (allowed == "allow").then(|| (text(&object["apiGroup"]), resource, text(&request["verb"])))
    };
    lines.map_while(Result::ok).filter_map(right).collect()
}

/// Returns all rights that the manifests grant when every flag that adds rights is set, except
/// --enable-kubernetes-gangs: the API servers of this level are too old for gangs, and `soak::placeholders` checks
/// those rights.
fn granted() -> BTreeSet<Right> {
    granted_with(&[
        "--enable-driver-pdb", "--enable-resource-quota-enforcement", "--namespace-selector=any",
        "--enable-batch-scheduler", "--kube-scheduler-names=any",
    ])
}

/// Returns all rights that the manifests grant for these flags.
pub fn granted_with(flags: &[&str]) -> BTreeSet<Right> {
    let arguments = ["spark-operator", "manifests"].iter().chain(flags);
    let Command::Manifests(settings) = Flags::parse_from(arguments).command else {
        unreachable!("the subcommand is `manifests`")
    };
    let mut granted = BTreeSet::new();
    let words = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    for role in manifests::operator_roles(&settings.installation, &settings.namespace) {
        for rule in role["rules"].as_array().into_iter().flatten() {
            for group in words(rule, "apiGroups") {
                for resource in words(rule, "resources") {
                    let right = |verb| (group.clone(), resource.clone(), verb);
                    granted.extend(words(rule, "verbs").into_iter().map(right));
                }
            }
        }
    }
    granted
}
