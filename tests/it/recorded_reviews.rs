//! Tests the webhook's answers to reviews that a real API server has sent. `apiserver::recordings` records these
//! reviews.

use crate::{prelude::*, webhook::Server};

#[tokio::test]
async fn recorded_reviews_get_the_expected_responses() {
    let server = Server::start().await;
    let mut golden = Golden::default();
    let mut files = entries(data("reviews"));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    assert_eq!(files.len(), 8);
    for file in files {
        let review: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        // The name of a file contains the path: driver-pod.mutate.json.
        let path = file.file_stem().unwrap().to_str().unwrap().rsplit_once('.').unwrap().1.to_owned();
        for protocol in ["h2", "http/1.1"] {
            let mut answer = server.connect(protocol).await.review_at(&format!("/{path}"), &review).await;
            for field in ["apiVersion", "kind"] {
                assert_eq!(answer[field], review[field]);
            }
            let response = &mut answer["response"];
            assert_eq!(response["uid"], review["request"]["uid"]);
            if let Some(patch) = response.get_mut("patch") {
                let bytes: k8s_openapi::ByteString = serde_json::from_value(patch.take()).unwrap();
                *patch = serde_json::from_slice(&bytes.0).unwrap();
            }
            golden.compare_yaml(&file.with_extension("response.yaml"), &json!(response));
        }
    }
    golden.finish();
}
