//! Proves that `sparkctl create` creates applications that name the uploaded files, and nothing if an upload is not
//! possible.

use crate::{
    apiserver::prelude::*,
    tmux::Terminal,
    uploads::bucket::{Asked, Bucket},
};

/// The size of a file that needs several parts.
const LARGE: usize = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver: make test"]
async fn a_created_application_names_its_uploaded_files() {
    let namespace = Namespace::new("uploads").await;
    let bucket = Bucket::start(&namespace.folder).await;
    let conf = namespace.folder.join("conf");
    fs::create_dir(&conf).unwrap();
    fs::write(conf.join("core-site.xml"), "<configuration/>").unwrap();
    fs::write(conf.join("keystore"), b"\xfe\xff").unwrap();
    for name in ["main.jar", "lib.jar"] {
        fs::write(namespace.folder.join(name), name).unwrap();
    }
    let mut pi = application("pi");
    pi["spec"]["mainApplicationFile"] = json!("main.jar");
    pi["spec"]["deps"] = json!({"jars": ["s3a://other/a.jar", "lib.jar", "local:///b.jar"]});
    let create_of = |what: &str, flags: &[&str], input: &str| {
        let mut program = Command::new(sparkctl_program());
        program.args(["-n", "uploads", "create", what, "--upload-to", "s3://jobs"]).args(flags);
        program.current_dir(&namespace.folder).env("HADOOP_CONF_DIR", &conf);
        bucket.admit(&mut program);
        let output = program::begin(&mut program, input).wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let create = |flags: &[&str], application: &Value| create_of("-", flags, &application.to_string());

    // Nothing is uploaded for an application that the cluster refuses.
    let mut refused = pi.clone();
    refused["metadata"]["name"] = json!("No name");
    assert_eq!((create(&[], &refused).0, bucket.asked().len()), (1, 0));

    let (code, said) = create(&[], &pi);
    assert_eq!(code, 0, "{said}");
    let made = namespace.application("pi").await;
    assert_eq!(made["spec"]["mainApplicationFile"], "s3a://jobs/uploads/pi/main.jar");
    assert_eq!(made["spec"]["hadoopConfigMap"], "pi-hadoop-config");
    let config_map = namespace.get::<ConfigMap>("pi-hadoop-config").await.unwrap();
    assert_eq!(config_map["binaryData"], json!({"keystore": "/v8="}));
    assert_eq!(config_map["metadata"]["ownerReferences"][0]["uid"], made["metadata"]["uid"]);

    // An existing application and its ConfigMap are not changed, except with `--delete`.
    fs::remove_file(conf.join("keystore")).unwrap();
    bucket.asked();
    let (code, said) = create(&[], &pi);
    assert!(code == 1 && said.contains("\"pi\" already exists"), "{said}");
    assert_eq!(bucket.asked().len(), 0);
    assert_eq!(namespace.get::<ConfigMap>("pi-hadoop-config").await.unwrap(), config_map);
    let (code, said) = create(&["--delete"], &pi);
    assert_eq!((code, bucket.written()), (0, 0), "{said}");
    let again = namespace.get::<ConfigMap>("pi-hadoop-config").await.unwrap();
    assert_eq!(again["binaryData"], Value::Null);
    assert_ne!(again["metadata"]["ownerReferences"], config_map["metadata"]["ownerReferences"]);

    // A ConfigMap that was created by hand is not reused: it would be deleted with the application.
    let mut taken = pi;
    taken["metadata"]["name"] = json!("taken");
    let by_hand = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken-hadoop-config"}, "data": {"by": "hand"},
    });
    namespace.apply(&by_hand);
    let (code, said) = create(&[], &taken);
    assert!(code == 1 && said.contains("taken-hadoop-config, which sparkctl did not create"), "{said}");
    assert!(namespace.get::<SparkApplication>("taken").await.is_none());
    let left = namespace.get::<ConfigMap>("taken-hadoop-config").await.unwrap();
    assert_eq!(left["data"], by_hand["data"]);

    let schedule = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "ScheduledSparkApplication",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "@yearly", "suspend": true, "template": {
            "type": "Python", "sparkVersion": "4.0.1", "image": "spark", "mainApplicationFile": "main.jar",
            "driver": {}, "executor": {}, "hadoopConfigMap": "mine",
        }},
    });
    // The ConfigMap `pi-hadoop-config` belongs to the application `pi`, and would be deleted with it.
    let mut of_the_same_name = schedule.clone();
    of_the_same_name["metadata"]["name"] = json!("pi");
    of_the_same_name["spec"]["template"]["hadoopConfigMap"].take();
    let (code, said) = create(&[], &of_the_same_name);
    assert!(code == 1 && said.contains("pi-hadoop-config, which belongs to SparkApplication pi"), "{said}");
    assert!(namespace.list::<ScheduledSparkApplication>().await.is_empty());
    namespace.apply(&schedule);
    // Otherwise the author of a schedule could have files of the user's machine uploaded.
    let (code, said) = create_of("by-hand", &["--from", "nightly"], "");
    assert!(code == 1 && said.contains("main.jar is in no folder that you have named"), "{said}");
    let (code, said) = create_of("by-hand", &["--from", "nightly", "--upload-from", "."], "");
    assert_eq!(code, 0, "{said}");
    let by_hand = namespace.application("by-hand").await;
    assert_eq!(by_hand["spec"]["mainApplicationFile"], "s3a://jobs/uploads/by-hand/main.jar");
    assert_eq!(by_hand["spec"]["hadoopConfigMap"], "mine");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver: make test"]
async fn a_terminal_shows_the_progress_of_an_upload() {
    let namespace = Namespace::new("uploads").await;
    // On any machine, the upload must take long enough for the test to see its bar.
    let linger = |asked: &Asked| {
        if asked.path.contains("partNumber=5") {
            thread::sleep(Duration::from_secs(5));
        }
        None
    };
    let bucket = Bucket::start_with(&namespace.folder, Box::new(linger)).await;
    fs::write(namespace.folder.join("etl.py"), "print()").unwrap();
    fs::write(namespace.folder.join("lib.zip"), vec![7; LARGE]).unwrap();
    let mut etl = application("etl");
    etl["spec"]["mainApplicationFile"] = json!("etl.py");
    etl["spec"]["deps"] = json!({"pyFiles": ["s3a://jobs/common.zip", "lib.zip"]});
    fs::write(namespace.folder.join("etl.json"), etl.to_string()).unwrap();

    let terminal = Terminal::new(120, 20);
    let mut program = Command::new("env");
    bucket.admit(&mut program);
    for (name, value) in program.get_envs() {
        let [name, value] = [name, value.unwrap()].map(|word| word.to_str().unwrap());
        terminal.types(&format!("export {name}='{value}'"));
    }
    terminal.types(&format!("cd {}; clear", namespace.folder.display()));
    terminal.until(|screen| screen.trim_end() == "$");
    let endpoint: Vec<_> = program.get_args().map(|word| word.to_str().unwrap()).collect();
    let create = format!("sparkctl -n uploads create etl.json --upload-to s3://jobs {}", endpoint.join(" "));
    terminal.types(&format!("{create}; echo \"code $?\""));
    let is_bar =
        |line: &str| line.starts_with("lib.zip ") && line.contains('█') && line.contains("/  64.00 MiB ");
    terminal.until(|screen| screen.lines().any(is_bar));
    terminal.keeps("sparkctl-upload.txt");
    let screen = terminal.until(|screen| screen.contains("\ncode 0\n"));
    terminal.keeps("sparkctl-uploaded.txt");
    assert!(!screen.contains(" MiB "), "{screen}");
    let said = screen.replace('\n', "");
    for name in ["etl.py", "lib.zip"] {
        assert!(said.contains(&format!(": {name}: uploaded to s3a://jobs/uploads/etl/{name}")), "{screen}");
    }
    assert!(said.contains("SparkApplication \"etl\" created"), "{screen}");
    assert_eq!(bucket.object("uploads/etl/lib.zip").unwrap().len(), LARGE);

    // The user can end the command, also after an upload.
    terminal.types(&format!("clear; {create} --delete --logs; echo \"code $?\""));
    terminal.until(|screen| screen.contains(" waiting for the driver of etl: "));
    terminal.presses("C-c");
    terminal.until(|screen| screen.contains("code 130"));
}
