//! One recording of a real `spark-submit`: its input, the requests that it sent, and how it ended.

use crate::prelude::*;
use spark_client::Ids;

#[derive(Default, Deserialize)]
pub struct Case {
    #[serde(rename = "case")]
    pub name: String,
    pub spark_version: String,
    pub command: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The contents of files, by path.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    #[serde(default)]
    pub injected_failures: Vec<Value>,
    pub exit_code: i32,
    pub exchanges: Vec<Exchange>,
    /// The end of standard error; recorded only for a `spark-submit` that failed.
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

/// The directory in which the recorder ran `spark-submit`; the recordings contain `$WORK` instead.
const WORK: &str = "/work";
/// The recorder's placeholder for a file that is not text.
const BINARY: &str = "<binary>";

impl Case {
    /// Returns all recordings in `folder`, sorted by version and name. A file `VERSION.json` contains all cases of a
    /// version, and a text of several lines in it may be a list of lines (`tests/tools/record/keep` writes such files); a
    /// file `VERSION/CASE.json` contains one case (the recorder writes such files).
    pub fn all_in(folder: &Path) -> Vec<Self> {
        let mut cases = Vec::new();
        for path in json_files(folder) {
            match read(&path) {
                Value::Array(all) => cases.extend(all.into_iter().map(|case| Self::from(case, &path))),
                _ => panic!("{}: a list of cases was expected", path.display()),
            }
        }
        let folders = entries(folder).into_iter().filter(|path| path.is_dir());
        for path in folders.flat_map(|folder| json_files(&folder)) {
            cases.push(Self::from(read(&path), &path));
        }
        cases.sort_by(|a, b| (&a.spark_version, &a.name).cmp(&(&b.spark_version, &b.name)));
        cases
    }

    fn from(mut case: Value, path: &Path) -> Self {
        join_lines(&mut case["stderr_tail"]);
        join_lines_of_each(&mut case["files"]);
        for exchange in case["exchanges"].as_array_mut().into_iter().flatten() {
            if let Some(data) = exchange["body"].get_mut("data") {
                join_lines_of_each(data);
            }
        }
        if let Value::Object(fields) = &mut case {
            fields.retain(|_, value| !value.is_null());
        }
        let mut case: Self =
            serde_json::from_value(case).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        case.files = case.files.into_iter().map(|(name, text)| (format!("{WORK}/{name}"), text)).collect();
        case
    }

    /// Returns the file at `path`, which may be a URI.
    pub fn file(&self, path: &str) -> Option<&str> {
        let path = path.strip_prefix("file:").unwrap_or(path);
        self.files.get(&format!("/{}", path.trim_start_matches('/'))).map(String::as_str)
    }

    /// Returns the text files directly in `directory`, by name.
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

    /// Returns the writes that were sent, in order; of several writes of one object only the last.
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

    /// Returns the random parts of the names and labels.
    pub fn ids(&self) -> Ids {
        let sent = self.sent();
        let pod = sent.first().map_or(&Value::Null, |exchange| &exchange.body);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names = sent.iter().map(|exchange| &exchange.body["metadata"]["name"]);
        // The name of the ConfigMap is also in the pod's volumes: the recording may have ended before the ConfigMap was
        // created.
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
            "-driver", "-policy", "-kubernetes-credentials", "-hadoop-config", "-krb5-file",
            "-kerberos-keytab", "-driver-podspec-conf-map", "-driver-svc",
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

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let mut paths = entries(folder);
    paths.retain(|path| path.is_file() && path.extension().is_some_and(|extension| extension == "json"));
    paths
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap().replace("$WORK", WORK);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn join_lines_of_each(texts: &mut Value) {
    texts.as_object_mut().into_iter().flatten().for_each(|(_, text)| join_lines(text));
}

/// Turns a list of lines into one text.
fn join_lines(text: &mut Value) {
    if let Some(lines) = text.as_array() {
        let lines: Vec<_> = lines.iter().map(|line| line.as_str().expect("a line is a text")).collect();
        *text = Value::String(lines.join("\n"));
    }
}
