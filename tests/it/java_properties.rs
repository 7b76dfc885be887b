//! Proves that Java reads the values of an application from the properties file unchanged, whatever characters they
//! contain.

use crate::{prelude::*, submission::pi};
use proptest::{
    collection::{btree_map, vec},
    prelude::{Strategy, any, prop_assert_eq, prop_oneof},
    sample::select,
    test_runner::{Config, RngSeed, TestCaseError, TestRunner},
};
use std::{
    cell::RefCell,
    io::{Read, Write},
};
use submission::{Settings, spark_submit};

/// The number of cases. Each case has some twenty texts as keys, and as many as values.
const CASES: u32 = 400;

/// The fields that are maps of texts, each with the prefix of its properties, and those that are single texts, each with
/// its property.
#[derive(Deserialize)]
struct Fields {
    maps: Vec<(String, String)>,
    texts: Vec<(String, String)>,
}

pub type Entries = BTreeMap<String, String>;

#[test]
fn java_reads_what_the_application_says() {
    let java = RefCell::new(Java::start());
    let plain = java.borrow_mut().read(&properties_file(&json!({})));
    assert_eq!(plain["spark.kubernetes.driver.pod.name"], "pi-driver");
    let fields: Fields = yaml(&data("java-properties.yaml"));
    let maps: Vec<_> = fields.maps.iter().map(|_| btree_map(text(), text(), 0..4)).collect();
    let texts: Vec<_> = fields.texts.iter().map(|_| text()).collect();
    // Every run of this test uses the same texts: a test that fails only sometimes helps nobody.
    let config =
        Config { cases: CASES, failure_persistence: None, rng_seed: RngSeed::Fixed(6), ..Config::default() };
    let checked = TestRunner::new(config).run(&(maps, texts), |(maps, texts)| {
        let mut spec = json!({"driver": {}, "executor": {}});
        // These properties come from the operator itself, or from fields that this test does not set.
        let mut expected = plain.clone();
        for ((field, prefix), entries) in fields.maps.iter().zip(maps) {
            expected.extend(entries.iter().map(|(key, value)| (format!("{prefix}{key}"), value.clone())));
            set(&mut spec, field, json!(entries));
        }
        for ((field, key), text) in fields.texts.iter().zip(texts) {
            expected.insert(key.clone(), text.clone());
            set(&mut spec, field, json!(text));
        }
        let read = java.borrow_mut().read(&properties_file(&spec));
        prop_assert_eq!(read, expected);
        Ok::<_, TestCaseError>(())
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Generates texts of pieces that have a meaning in a file of properties, and of any other characters.
fn text() -> impl Strategy<Value = String> {
    const SYNTAX: [&str; 30] = [
        " ", "  ", "=", ":", "#", "!", "\\", "\\\\", "\\u", "\\u0041", "\\uD83D", "\\n", "\n", "\r", "\r\n",
        "\t", "\x0c", "\x0b", "\0", "\x01", "\x1f", "\x7f", "\u{85}", "\u{2028}", "\u{feff}", "\u{fffe}",
        "ü", "語", "😀", "${env:HOME}",
    ];
    let piece = prop_oneof![
        4 => select(&SYNTAX[..]).prop_map(str::to_owned),
        2 => "[a-z.]{1,4}",
        1 => any::<char>().prop_map(String::from),
    ];
    let pieces = vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    // Java reads 8 KiB at a time, so some texts cross that boundary.
    prop_oneof![20 => pieces.clone(), 1 => pieces.prop_map(|text| "x".repeat(8 * 1024 - 30) + &text.repeat(8))]
}

fn set(spec: &mut Value, pointer: &str, value: Value) {
    let (section, field) = pointer.rsplit_once('/').unwrap();
    spec.pointer_mut(section).unwrap()[field] = value;
}

/// Returns the file of properties for an application with this spec.
fn properties_file(spec: &Value) -> String {
    let settings = Settings::new("k8s://https://10.96.0.1:443");
    // The submission id depends on the spec, and is one of the properties. The run of an empty spec keeps this property
    // the same for all specs.
    let run = Run::next(&pi(json!({})));
    let mut submit = spark_submit(&validate(&pi(spec.clone())).unwrap(), &run, &settings, "").unwrap();
    submit.files.remove("spark.properties").unwrap()
}

/// One Java virtual machine, which reads all files.
pub struct Java(Child);

impl Java {
    pub fn start() -> Self {
        let program = "tests/tools/java-properties/ReadProperties.java";
        let mut java = Command::new("java");
        java.args(["-XX:TieredStopAtLevel=1", "-Xshare:auto"]).arg(program);
        Self(java.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("java can be run"))
    }

    /// Returns the entries that Java reads in a file with this text.
    pub fn read(&mut self, text: &str) -> Entries {
        let input = self.0.stdin.as_mut().unwrap();
        input.write_all(&u32::try_from(text.len()).unwrap().to_be_bytes()).unwrap();
        input.write_all(text.as_bytes()).unwrap();
        (0..self.number()).map(|_| (self.text(), self.text())).collect()
    }

    fn number(&mut self) -> usize {
        let mut bytes = [0; 4];
        self.0.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
        u32::from_be_bytes(bytes).try_into().unwrap()
    }

    fn text(&mut self) -> String {
        let mut bytes = vec![0; self.number()];
        self.0.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        // Java ends when its input ends.
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}
