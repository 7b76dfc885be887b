//! Proves that applications that other programs create are accepted, with fields that the CRD does not have, nulls and
//! empty lists.

use crate::apiserver::prelude::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The repository, the file and the commit of the code that sends the request.
    source: String,
    sends: Value,
    /// The expected values of fields of the driver's pod, by JSON pointer; null for a field that must be absent.
    driver: BTreeMap<String, Value>,
}

/// Needs an operator that reviews applications, and a namespace called `clients`.
pub(super) async fn requests_of_other_programs_are_accepted_and_get_a_driver(namespace: &Namespace) {
    let files = fs::read_dir(data("client-requests")).unwrap().map(|entry| entry.unwrap().path());
    let requests: Vec<Request> = files.map(|file| yaml(&file)).collect();
    assert!(requests.len() >= 3);
    for Request { source, sends, driver } in requests {
        let sent = namespace.create::<SparkApplication>(&sends).await;
        let name = sent["metadata"]["name"].as_str().unwrap();
        let submitted = namespace.reaches(name, "SUBMITTED").await;
        assert_eq!(submitted["spec"], sent["spec"], "{source}: the operator does not change the spec");
        let pod = namespace.pod(&format!("{name}-driver")).await.unwrap();
        for (place, expected) in &driver {
            let found = pod.pointer(place).unwrap_or(&Value::Null);
            assert_eq!(found, expected, "{source}: {place} of {pod}");
        }
        namespace.delete::<SparkApplication>(name).await;
    }
}
