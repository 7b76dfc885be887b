//! Proves that the processes of an application receive environment variables and arguments with any character byte for
//! byte, up to the largest size.

use super::{application, delete, followed, install, log, make_job, pod};
use crate::{
    apiserver::{prelude::*, submission_node::expanded},
    characters::{LARGEST, fill, hard_to_carry},
};
use submission::digest::sha256_hex;

#[test]
#[ignore = "needs a node: make test"]
fn processes_receive_every_character_and_as_many_as_annotations_can_hold() {
    let _shared = install();
    make_job("characters-job", "tests/data/node/characters/environment.py");
    let texts = hard_to_carry();
    let mut characters: Value = yaml(&data("node/characters/application.yaml"));
    for role in Role::ALL {
        let variables =
            (0..).zip(&texts).map(|(i, text)| json!({"name": format!("HARD_{i}"), "value": text}));
        let pod = &mut characters["spec"][role.as_str()];
        pod["env"] = variables.collect();
        pod["initContainers"][0]["args"] = json!(texts);
        fill(&mut characters, role, "\"\u{80}\\🚀$");
    }
    // `kubectl apply` would store a copy in an annotation, for which there is no room.
    kubectl_with(&characters, &["create", "-f", "-"]);
    let states = followed("characters");
    assert_eq!(states.last().unwrap(), "COMPLETED", "{states:?}");

    let stored: SparkApplication = serde_json::from_value(application("characters")).unwrap();
    let said = log("characters-driver");
    for role in Role::ALL {
        let asked = &characters["spec"][role.as_str()];
        let mut expected = BTreeMap::new();
        for variable in asked["env"].as_array().unwrap() {
            let [name, value] = ["name", "value"].map(|field| variable[field].as_str().unwrap());
            expected.insert(name.to_owned(), sha256_hex(expanded(value, &[]).as_bytes()));
        }
        let beginning = format!("{} given: ", role.as_str());
        let lines = said.lines().filter_map(|line| line.strip_prefix(&beginning)?.split_once('='));
        let given: BTreeMap<_, _> = lines.collect();
        for (name, hash) in &expected {
            let value = asked["env"].as_array().unwrap().iter().find(|variable| variable["name"] == **name);
            assert_eq!(given.get(&**name), Some(&&**hash), "{role:?}: {}", value.unwrap());
        }
        assert_eq!(given.len(), expected.len(), "{role:?}");

        let pod = pod("characters", role.as_str());
        let annotations: BTreeMap<String, String> =
            serde_json::from_value(pod["metadata"]["annotations"].clone()).unwrap();
        assert_eq!(annotations, pod_customization::annotations(&stored, role), "{role:?}");
        let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(size, LARGEST, "{role:?}");

        let log = kubectl(&["logs", pod["metadata"]["name"].as_str().unwrap(), "-c", "arguments"]);
        let ByteString(line) = serde_json::from_value(json!(log)).unwrap();
        let line = String::from_utf8(line).unwrap();
        let arguments: Vec<_> = line.strip_suffix('\0').unwrap().split('\0').skip(4).collect();
        assert_eq!(arguments, texts.iter().map(|text| expanded(text, &[])).collect::<Vec<_>>(), "{role:?}");
    }
    delete("characters");
}
