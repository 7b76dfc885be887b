//! Proves that requests by which other programs create applications are taken, with fields that the CRD does not have, nulls and
//! empty lists.

use crate::apiserver::prelude::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The repository, the file and the commit that send it.
    source: String,
    sends: Value,
    /// The values at some places of the driver (JSON pointers); null where nothing may be.
    driver: BTreeMap<String, Value>,
}

/// Needs an operator that reviews applications, and a namespace called `clients`.
pub(super) async fn what_other_programs_send_is_taken_and_gets_a_driver(namespace: &Namespace) {
    let files = fs::read_dir(data("client-requests")).unwrap().map(|entry| entry.unwrap().path());
    let requests: Vec<Request> = files.map(|file| yaml(&file)).collect();
    assert!(requests.len() >= 3);
    for Request { source, sends, driver } in requests {
        let sent = namespace.create::<SparkApplication>(&sends).await;
        let name = sent["metadata"]["name"].as_str().unwrap();
        let submitted = namespace.reaches(name, "SUBMITTED").await;
        assert_eq!(submitted["spec"], sent["spec"], "{source}: the operator writes to no spec");
        let pod = namespace.pod(&format!("{name}-driver")).await.unwrap();
        for (place, expected) in &driver {
            let found = pod.pointer(place).unwrap_or(&Value::Null);
            assert_eq!(found, expected, "{source}: {place} of {pod}");
        }
        namespace.delete::<SparkApplication>(name).await;
    }
}
