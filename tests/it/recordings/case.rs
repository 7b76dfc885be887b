//! One recording of a real `spark-submit`: what it was given, what it sent, how it ended.

use serde::Deserialize;
use serde_json::Value;
use spark_operator::plan::native::Ids;
use std::{collections::BTreeMap, fs, path::Path};

#[derive(Deserialize)]
pub struct Case {
    #[serde(rename = "case")]
    pub name: String,
    pub spark_version: String,
    pub command: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// By path.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    #[serde(default)]
    pub injected_failures: Vec<Value>,
    pub exit_code: i32,
    pub exchanges: Vec<Exchange>,
    /// Only of those that failed.
    #[serde(default)]
    pub stderr_tail: String,
}

#[derive(Clone, Deserialize)]
pub struct Exchange {
    pub method: String,
    pub path: String,
    #[serde(default)]
    pub body: Value,
}

/// Where the recorder let `spark-submit` run; the recordings call it `$WORK`.
const WORK: &str = "/work";
/// How the recorder writes what is no text.
const BINARY: &str = "<binary>";

impl Case {
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap().replace("$WORK", WORK);
        let mut case: Self =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        case.files = case.files.into_iter().map(|(name, text)| (format!("{WORK}/{name}"), text)).collect();
        case
    }

    /// The file at `path`, which may be written as a URI.
    pub fn file(&self, path: &str) -> Option<&str> {
        let path = path.strip_prefix("file:").unwrap_or(path);
        self.files.get(&format!("/{}", path.trim_start_matches('/'))).map(String::as_str)
    }

    /// The texts directly in `directory`, by name.
    pub fn files_in(&self, directory: &str) -> BTreeMap<String, String> {
        let prefix = format!("{}/", directory.trim_end_matches('/'));
        let files = self.files.iter().filter(|(_, text)| *text != BINARY);
        let names = files.filter_map(|(path, text)| Some((path.strip_prefix(&prefix)?, text)));
        names
            .filter(|(name, _)| !name.contains('/'))
            .map(|(name, text)| (name.to_owned(), text.clone()))
            .collect()
    }

    pub fn conf_dir(&self) -> String {
        self.env.get("SPARK_CONF_DIR").cloned().unwrap_or_else(|| "/spark/conf".to_owned())
    }

    /// What was sent, in order: the last try for each object.
    pub fn sent(&self) -> Vec<&Exchange> {
        let writes =
            self.exchanges.iter().filter(|exchange| matches!(exchange.method.as_str(), "POST" | "PATCH"));
        let writes: Vec<_> = writes.collect();
        let is_last = |i: usize| writes[i + 1..].iter().all(|later| later.path != writes[i].path);
        (0..writes.len()).filter(|i| is_last(*i)).map(|i| writes[i]).collect()
    }

    fn properties(&self) -> &str {
        let mut texts =
            self.exchanges.iter().filter_map(|exchange| exchange.body["data"]["spark.properties"].as_str());
        texts.next().unwrap_or_default()
    }

    pub fn submit_time(&self) -> i64 {
        let time = self.properties().lines().find_map(|line| line.strip_prefix("spark.app.submitTime="));
        time.and_then(|time| time.parse().ok()).unwrap_or(0)
    }

    /// What was random in it.
    pub fn ids(&self) -> Ids {
        let sent = self.sent();
        let pod = sent.first().map_or(&Value::Null, |exchange| &exchange.body);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names = sent.iter().map(|exchange| &exchange.body["metadata"]["name"]);
        // The ConfigMap may not have been made.
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let names: Vec<_> =
            names.chain(volumes.map(|volume| &volume["configMap"]["name"])).map(text).collect();
        let id_before = |name: &str, suffix: &str| {
            let name = name.strip_suffix(suffix)?;
            let id = name.get(name.len().checked_sub(16)?..)?;
            id.chars().all(|c| c.is_ascii_hexdigit() || c == 'x').then(|| id.to_owned())
        };
        let find = |suffixes: &[&str]| {
            suffixes.iter().find_map(|suffix| names.iter().find_map(|name| id_before(name, suffix)))
        };
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let variables = containers.flat_map(|container| container["env"].as_array().into_iter().flatten());
        let directories: Vec<_> =
            variables.filter(|variable| variable["name"] == "SPARK_LOCAL_DIRS").collect();
        let directory = directories.last().map(|variable| text(&variable["value"])).unwrap_or_default();
        let prefixed = [
            "-driver",
            "-policy",
            "-kubernetes-credentials",
            "-hadoop-config",
            "-krb5-file",
            "-kerberos-keytab",
            "-driver-podspec-conf-map",
            "-driver-svc",
        ];
        Ids {
            application: text(&pod["metadata"]["labels"]["spark-app-selector"]),
            prefix: find(&prefixed).unwrap_or_default(),
            service: find(&["-driver-svc"]).unwrap_or_default(),
            config_map: find(&["-conf-map"]).unwrap_or_default(),
            local_dir: directory.strip_prefix("/var/data/spark-").unwrap_or_default().to_owned(),
        }
    }
}
