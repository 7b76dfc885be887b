//! Checks the properties of `fuzzed` with all regression inputs, which are inputs with which a fuzzer has reached code
//! that no other input reaches. (Ordinary tests cover the bugs that fuzzers have found.)

use crate::{
    fuzzed::{self, SEPARATOR},
    prelude::*,
    webhook::review,
};
use pod_customization::STEPS;

/// The name of a fuzzer's target, and what must be true for any bytes.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 5] = [
    ("review", fuzzed::review),
    ("annotations", fuzzed::annotations),
    ("expansion", fuzzed::expansion),
    ("properties", fuzzed::properties),
    ("items", fuzzed::items),
];

#[test]
fn regression_inputs_of_fuzzers_have_the_properties_of_any_input() {
    for (target, check) in TARGETS {
        kept(target).iter().for_each(|bytes| check(bytes));
    }
}

/// Returns the regression inputs of a target. Each line of the target's file in `tests/data/fuzz` is a JSON string in
/// which each character (U+0000 to U+00FF) stands for one byte of the input.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(file(target)).unwrap();
    assert!(!text.is_empty(), "nothing is kept for {target}");
    let bytes = |line: &str| {
        let characters: String = serde_json::from_str(line).unwrap();
        characters.chars().map(|character| u8::try_from(character).unwrap()).collect()
    };
    text.lines().map(bytes).collect()
}

fn file(target: &str) -> PathBuf {
    data("fuzz").join(target).with_extension("jsonl")
}

/// Stores the inputs in the folder `FUZZ_KEEP` as regression inputs in `tests/data/fuzz`. Does nothing unless
/// tests/fuzz/run has set this variable.
#[test]
#[ignore = "writes files: tests/fuzz/run keep"]
fn keep() {
    let Some(folder) = env::var_os("FUZZ_KEEP") else { return };
    for (target, _) in TARGETS {
        let files = fs::read_dir(Path::new(&folder).join(target)).unwrap();
        let mut inputs: Vec<_> = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
        inputs.sort_by_key(|input| (input.len(), input.clone()));
        let line = |input: &Vec<u8>| {
            let characters: String = input.iter().map(|byte| char::from(*byte)).collect();
            json!(characters).to_string() + "\n"
        };
        fs::write(file(target), inputs.iter().map(line).collect::<String>()).unwrap();
    }
}

/// Writes the inputs with which the fuzzers start into the folder `FUZZ_SEEDS`: the regression inputs, and inputs made
/// from the data of other tests. Does nothing unless tests/fuzz/run has set this variable.
#[test]
#[ignore = "writes files: tests/fuzz/run"]
fn seeds() {
    let Some(folder) = env::var_os("FUZZ_SEEDS") else { return };
    let write = |target: &str, name: String, bytes: &[u8]| {
        let folder = Path::new(&folder).join(target);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    };
    for (target, _) in TARGETS {
        for (i, input) in kept(target).iter().enumerate() {
            write(target, format!("kept-{i}"), input);
        }
    }
    let doubled = |i: usize| format!("spark.x{i}=${{spark.x{}}}${{spark.x{0}}}\n", i + 1);
    write("expansion", "doubled".to_owned(), (0..40).map(doubled).collect::<String>().as_bytes());
    let chained = |i: usize| format!("spark.x{i}=${{spark.x{}}}\n", i + 1);
    write("expansion", "chained".to_owned(), (0..70).map(chained).collect::<String>().as_bytes());
    let circular = "spark.a=${spark.b}\nspark.b=${spark.a} ${env:A} ${system:b} ${c:d} ${e} ${ ${\n";
    write("expansion", "circular".to_owned(), circular.as_bytes());
    let metrics = fs::read(data("../../crates/submission/src/monitoring/metrics.properties")).unwrap();
    write("properties", "metrics".to_owned(), &metrics);
    let managed = r#"{"metadata":{"name":"pi","managedFields":[{"time":"9999-12-31T12:00:00Z","fieldsV1":{"f:x":{}}}]},"spec":{}}"#;
    write("items", "managed".to_owned(), managed.as_bytes());
    for case in cases("customization") {
        let name = |what: &str| format!("{}-{what}", case.file_name().unwrap().display());
        let pod: Value = yaml(&case.join("pod.before.yaml"));
        write("items", name("pod"), pod.to_string().as_bytes());
        write("review", name("pod"), review(&pod).to_string().as_bytes());
        let asked: Vec<_> = STEPS
            .iter()
            .zip(0..)
            .filter_map(|(step, i)| {
                let value = pod["metadata"]["annotations"][step.key].as_str()?;
                Some([&[i], value.as_bytes()].concat())
            })
            .collect();
        write("annotations", name("all"), &asked.join(&SEPARATOR));
    }
    for (file, kind) in
        [("sparkapplication", "SparkApplication"), ("scheduledsparkapplication", "ScheduledSparkApplication")]
    {
        let object: Value = yaml(&data("api").join(format!("{file}.yaml")));
        write("items", file.to_owned(), object.to_string().as_bytes());
        for operation in ["CREATE", "UPDATE"] {
            let mut review = review(&object);
            let request = &mut review["request"];
            request["kind"] = json!({"group": "sparkoperator.k8s.io", "version": "v1beta2", "kind": kind});
            request["operation"] = operation.into();
            if operation == "UPDATE" {
                request["oldObject"] = object.clone();
                request["object"]["spec"]["timeToLiveSeconds"] = json!(1);
            }
            write("review", format!("{file}-{operation}"), review.to_string().as_bytes());
        }
    }
}
