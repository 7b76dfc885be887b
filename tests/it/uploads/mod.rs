//! Proves that `sparkctl create` uploads local files completely or not at all, and writes their URLs into applications.

mod api;
pub(crate) mod bucket;

use crate::prelude::*;
use api::ApiServer;
use bucket::Bucket;
use rustix::process::{Pid, Signal, kill_process};
use std::{fs::OpenOptions, io::Write, os::unix::fs::symlink, process::Child, sync::OnceLock};

/// The size of a file that needs more than one part. The content of `large` makes each part different.
const LARGE: usize = (16 << 20) + 1;

/// A folder with files, an API server, and `sparkctl create` run in that folder.
struct Place {
    folder: PathBuf,
    api: ApiServer,
}

impl Place {
    async fn new(name: &str) -> Self {
        let folder = empty_folder(&format!("uploads/{name}"));
        fs::create_dir(folder.join("below")).unwrap();
        fs::write(folder.join("main.py"), "print()").unwrap();
        let api = ApiServer::start(&folder).await;
        Self { folder, api }
    }

    fn write(&self, name: &str, content: &[u8]) -> String {
        let path = self.folder.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs `sparkctl create`; returns its exit code and its standard error.
    fn create(&self, flags: &[&str], objects: &[Value], setup: impl FnOnce(&mut Command)) -> (i32, String) {
        let output = self.start(flags, objects, setup).wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn start(&self, flags: &[&str], objects: &[Value], setup: impl FnOnce(&mut Command)) -> Child {
        let mut program = Command::new(sparkctl_program());
        program.args(["create", "-"]).args(flags).current_dir(&self.folder).env_clear();
        program.env("KUBECONFIG", &self.api.kubeconfig).env("HOME", &self.folder);
        setup(&mut program);
        let input: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
        program::begin(&mut program, &input)
    }

    /// Creates `application`, with an upload to the bucket `jobs` of the store `bucket`.
    fn upload(&self, bucket: &Bucket, flags: &[&str], application: &Value) -> (i32, String) {
        let flags = [&["--upload-to", "s3://jobs"], flags].concat();
        self.create(&flags, std::slice::from_ref(application), |program| bucket.admit(program))
    }

    /// Returns the one application that was created.
    fn made(&self) -> Value {
        let [(what, application)] = self.api.written().try_into().unwrap();
        assert_eq!(what, "POST sparkapplications");
        application
    }
}

fn application(program: &str, deps: &Value) -> Value {
    json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "metadata": {"name": "pi"},
        "spec": {
            "type": "Python", "mode": "cluster", "sparkVersion": "4.0.1", "image": "spark",
            "mainApplicationFile": program, "deps": deps, "driver": {}, "executor": {},
        },
    })
}

/// An application that needs only a program.
fn simple() -> Value {
    application("main.py", &json!({}))
}

fn large() -> Vec<u8> {
    (0..LARGE).map(|at| (at / 4_099) as u8 ^ at as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_this_machine_go_to_s3_and_lists_keep_their_order() {
    let place = Place::new("order").await;
    let bucket = Bucket::start(&place.folder).await;
    let odd = place.write("below/a b,c.jar", b"jar");
    place.write("env.tar.gz", &large());
    place.write("empty", b"");
    let application = application(
        "main.py",
        &json!({
            "jars": ["s3a://other/first.jar", format!("file://{}", odd.replace(' ', "%20")), "local:///opt/last.jar"],
            "files": ["empty#name", "https://example.com/f"], "pyFiles": ["./main.py"],
            "archives": ["env.tar.gz#environment"], "packages": ["group:artifact:1"],
        }),
    );
    let (code, said) = place.upload(&bucket, &["--upload-prefix", "a/b"], &application);
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        said.lines().filter(|line| line.contains(": uploaded to s3a://jobs/a/b/team/pi/")).count(),
        4,
        "{said}"
    );
    let made = place.made();
    assert_eq!(made["spec"]["mainApplicationFile"], "s3a://jobs/a/b/team/pi/main.py");
    assert_eq!(
        made["spec"]["deps"],
        json!({
            "jars": ["s3a://other/first.jar", "s3a://jobs/a/b/team/pi/a%20b%2Cc.jar", "local:///opt/last.jar"],
            "files": ["s3a://jobs/a/b/team/pi/empty#name", "https://example.com/f"],
            "pyFiles": ["s3a://jobs/a/b/team/pi/main.py"],
            "archives": ["s3a://jobs/a/b/team/pi/env.tar.gz#environment"], "packages": ["group:artifact:1"],
        })
    );
    let object = |name: &str| bucket.object(&format!("a/b/team/pi/{name}")).unwrap();
    assert_eq!(
        (object("main.py"), object("a b,c.jar"), object("empty")),
        (b"print()".into(), b"jar".into(), vec![])
    );
    assert!(object("env.tar.gz") == large());
    assert!(bucket.asked().iter().any(|asked| asked.path.contains("partNumber=3")));

    // A file that is already in the bucket is not sent again; other content replaces it only with --override.
    let (code, said) = place.upload(&bucket, &["--upload-prefix", "a/b"], &application);
    assert_eq!((code, bucket.written()), (0, 0), "{said}");
    assert_eq!(
        said.lines().filter(|line| line.contains(" already, and not uploaded again")).count(),
        4,
        "{said}"
    );
    assert_eq!(place.made(), made);
    place.write("main.py", b"print(1)");
    let (code, said) = place.upload(&bucket, &["--upload-prefix", "a/b"], &application);
    assert_eq!((code, bucket.written(), place.api.written()), (1, 0, vec![]));
    assert_eq!(
        said,
        "sparkctl: SparkApplication pi: spec.mainApplicationFile: main.py: s3a://jobs/a/b/team/pi/main.py has other content: give \
         --override to replace it, or --upload-prefix for another place\n"
    );
    let (code, said) = place.upload(&bucket, &["--upload-prefix", "a/b", "--override"], &application);
    assert_eq!((code, bucket.written()), (0, 1), "{said}");
    assert_eq!(object("main.py"), b"print(1)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_program_has_uploaded_is_recognised_by_its_md5() {
    let place = Place::new("foreign").await;
    let bucket = Bucket::start(&place.folder).await;
    fs::create_dir_all(bucket.folder.join("jobs/team/pi")).unwrap();
    fs::write(bucket.folder.join("jobs/team/pi/main.py"), "print()").unwrap();
    let (code, said) = place.upload(&bucket, &[], &simple());
    assert!(code == 0 && said.contains("already"), "{said}");
    fs::write(bucket.folder.join("jobs/team/pi/main.py"), "print[]").unwrap();
    let (code, said) = place.upload(&bucket, &[], &simple());
    assert!(code == 1 && said.contains("has other content"), "{said}");
    assert_eq!(bucket.written(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_read_an_upload_needs_the_flag_override() {
    let place = Place::new("write").await;
    let denied = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
    let refuse = move |asked: &bucket::Asked| (asked.method != "PUT").then_some((403, denied));
    let bucket = Bucket::start_with(&place.folder, Box::new(refuse)).await;
    let (code, said) = place.upload(&bucket, &[], &simple());
    let told = "main.py: the credentials do not allow it in the bucket `jobs` (AccessDenied: Access Denied): have it allowed, ";
    assert!(code == 1 && said.contains(told), "{said}");
    let (code, said) = place.upload(&bucket, &["--override"], &simple());
    assert_eq!(code, 0, "{said}");
    assert_eq!(bucket.object("team/pi/main.py").unwrap(), b"print()");
}

/// With `spark.kubernetes.file.upload.path`, `spark-submit` uploads these files from the submission pod.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_spark_submit_uploads_are_left_to_it() {
    let place = Place::new("operators").await;
    let mut application = application("main.py", &json!({"jars": ["/opt/a.jar"]}));
    application["spec"]["sparkConf"] = json!({"spark.kubernetes.file.upload.path": "s3a://jobs/uploads"});
    let (code, said) = place.create(&[], std::slice::from_ref(&application), |_| {});
    assert_eq!((code, &*said), (0, ""));
    assert_eq!(place.made()["spec"], application["spec"]);
}

/// Otherwise a manifest could upload any file of the user who creates the application, who need not be its author.
#[tokio::test(flavor = "multi_thread")]
async fn files_outside_of_the_folder_are_uploaded_only_with_upload_from() {
    let place = Place::new("outside").await;
    let bucket = Bucket::start(&place.folder).await;
    let key = place.folder.with_file_name("id_ed25519");
    fs::write(&key, "secret").unwrap();
    symlink(&key, place.folder.join("link")).unwrap();
    for path in [key.to_str().unwrap(), "../id_ed25519", "link"] {
        let (code, said) = place.upload(&bucket, &[], &application("main.py", &json!({"files": [path]})));
        let complaint = format!(
            "sparkctl: SparkApplication pi: spec.deps.files[0]: {path} is outside of the folder . from which"
        );
        assert!(code == 1 && said.starts_with(&complaint), "{said}");
    }
    assert_eq!(place.api.written(), []);
    let application = application("main.py", &json!({"files": ["../id_ed25519"]}));
    let (code, said) = place.upload(&bucket, &["--upload-from", ".."], &application);
    let sends = "spec.deps.files[0]: ../id_ed25519: uploaded to s3a://jobs/team/pi/id_ed25519\n";
    assert!(code == 0 && said.contains(sends), "{said}");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failing {
    #[serde(default)]
    application: Map<String, Value>,
    flags: Vec<String>,
    env: BTreeMap<String, String>,
    said: String,
    lines: Option<usize>,
}

/// Each error is one sentence, and nothing is uploaded or created.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_uploaded_is_reported_before_anything_is_created() {
    let place = Place::new("wrong").await;
    let bucket = Bucket::start(&place.folder).await;
    place.write("a.jar", b"jar");
    place.write("below/a.jar", b"other");
    place.write("other.txt", b"");
    for (deps, complaint) in yaml::<Vec<(Value, String)>>(&data("ctl/not-uploaded.yaml")) {
        let (code, said) = place.upload(&bucket, &[], &application("main.py", &deps));
        assert!(said.starts_with(&format!("sparkctl: SparkApplication pi: {complaint}")), "{said}");
        assert_eq!((code, said.lines().count()), (1, 1), "{said}");
    }
    let mut wrong = simple();
    wrong["spec"]["driver"]["memory"] = json!("lots");
    assert!(place.upload(&bucket, &[], &wrong).1.contains("spec.driver.memory"));
    assert_eq!(bucket.written(), 0);

    place.write("config", b"[profile work]\nsso_session = company\n");
    let folder = place.folder.to_str().unwrap();
    let filled = |text: &String| text.replace("{endpoint}", &bucket.endpoint).replace("{folder}", folder);
    for Failing { application, flags, env, said, lines } in
        yaml::<Vec<Failing>>(&data("ctl/upload-fails.yaml"))
    {
        let mut object = simple();
        json_patch::merge(&mut object, &Value::from(application));
        let (code, told) = place.create(&[], &[object], |program| {
            program.args(flags.iter().map(filled));
            program.envs(env.iter().map(|(name, value)| (name, filled(value))));
        });
        assert!(code == 1 && told.contains(&said), "{told}");
        assert!(lines.is_none_or(|lines| told.lines().count() == lines), "{told}");
    }
    assert_eq!(place.api.written(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_bucket_is_reported_and_nothing_is_created() {
    let place = Place::new("full").await;
    let full = "<Error><Code>QuotaExceeded</Code><Message>No space is left.</Message></Error>";
    let bucket = Bucket::start_with(
        &place.folder,
        Box::new(move |asked| (asked.method == "PUT" && asked.path.contains("large")).then_some((403, full))),
    )
    .await;
    place.write("large", &large());
    let (code, said) = place.upload(&bucket, &[], &application("main.py", &json!({"files": ["large"]})));
    assert_eq!(code, 1);
    let told = "spec.deps.files[0]: large: the bucket `jobs` is full (QuotaExceeded: No space is left)\n";
    assert!(said.ends_with(told), "{said}");
    let asked = bucket.asked();
    assert!(
        asked.iter().any(|asked| asked.method == "DELETE" && asked.path.contains("uploadId=")),
        "{asked:?}"
    );
    assert_eq!((bucket.object("team/pi/large"), place.api.written()), (None, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_while_it_is_uploaded_becomes_no_object() {
    let place = Place::new("changes").await;
    let path = place.write("main.py", &large().repeat(2));
    let changes = path.clone();
    let bucket = Bucket::start_with(
        &place.folder,
        Box::new(move |asked| {
            if asked.path.contains("partNumber=1&") {
                OpenOptions::new().append(true).open(&changes).unwrap().write_all(b"more").unwrap();
            }
            None
        }),
    )
    .await;
    let (code, said) = place.upload(&bucket, &[], &simple());
    assert_eq!(
        (code, &*said),
        (
            1,
            "sparkctl: SparkApplication pi: spec.mainApplicationFile: main.py: has changed while it was being uploaded: try again when it \
             stays as it is\n"
        )
    );
    assert!(bucket.asked().iter().any(|asked| asked.method == "DELETE"));
    assert_eq!((bucket.object("team/pi/main.py"), place.api.written()), (None, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_interrupted_leaves_no_parts() {
    let place = Place::new("interrupted").await;
    place.write("main.py", &large());
    let process = Arc::new(OnceLock::new());
    let interrupted = Arc::clone(&process);
    let interrupt = move |asked: &bucket::Asked| {
        if asked.path.contains("partNumber=1&") {
            kill_process(*interrupted.wait(), Signal::INT).unwrap();
            // With this answer the client retries for as long as it runs.
            return Some((503, ""));
        }
        None
    };
    let bucket = Bucket::start_with(&place.folder, Box::new(interrupt)).await;
    let child = place.start(&["-u", "s3://jobs"], &[simple()], |program| bucket.admit(program));
    process.set(Pid::from_child(&child)).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = "sparkctl: SparkApplication pi: spec.mainApplicationFile: main.py: not uploaded: it was interrupted\n";
    assert_eq!(said, told);
    assert!(bucket.asked().iter().any(|asked| asked.method == "DELETE" && asked.path.contains("uploadId=")));
    assert_eq!((bucket.object("team/pi/main.py"), place.api.written()), (None, vec![]));
}

/// s3s does not support ACLs: the test checks the requests instead, and lets unsigned requests succeed.
#[tokio::test(flavor = "multi_thread")]
async fn public_objects_are_requested_and_named_by_their_url() {
    let place = Place::new("public").await;
    let bucket = Bucket::start_with(
        &place.folder,
        Box::new(|asked| (asked.authorization.is_empty()).then_some((200, ""))),
    )
    .await;
    place.write("large", &large());
    let application = application("main.py", &json!({"files": ["large"]}));
    let (code, said) = place.upload(&bucket, &["--public"], &application);
    assert_eq!(code, 0, "{said}");
    let url = format!("{}/jobs/team/pi", bucket.endpoint);
    assert_eq!(place.made()["spec"]["mainApplicationFile"], format!("{url}/main.py"));
    for asked in bucket.asked() {
        let makes = asked.method == "PUT" && !asked.path.contains("partNumber")
            || asked.path.ends_with("?uploads=")
            || asked.path.ends_with("?uploads");
        assert_eq!(asked.acl.as_deref(), makes.then_some("public-read"), "{asked:?}");
        assert_eq!(asked.authorization.contains("x-amz-acl"), makes, "{asked:?}");
    }
    let (code, said) = place.upload(&bucket, &["--public"], &application);
    assert_eq!((code, bucket.written()), (0, 0), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_to_google_cloud_storage() {
    let place = Place::new("google").await;
    let bucket = Bucket::start_google(&place.folder).await;
    place.write("large", &large());
    place.write("below/a b,c.jar", b"jar");
    let application = application(
        "main.py",
        &json!({"archives": ["gs://other/a.zip", "large#data"], "jars": ["below/a b,c.jar"]}),
    );
    let upload = |flags: &[&str]| {
        let flags = [&["--upload-to", "gs://jobs/folder"], flags].concat();
        place.create(&flags, std::slice::from_ref(&application), |program| {
            program.env("STORAGE_EMULATOR_HOST", bucket.endpoint.trim_start_matches("http://"));
        })
    };
    let (code, said) = upload(&[]);
    assert_eq!(code, 0, "{said}");
    let made = place.made();
    assert_eq!(made["spec"]["mainApplicationFile"], "gs://jobs/folder/team/pi/main.py");
    assert_eq!(
        made["spec"]["deps"]["archives"],
        json!(["gs://other/a.zip", "gs://jobs/folder/team/pi/large#data"])
    );
    assert!(bucket.object("folder/team/pi/large").unwrap() == large());
    assert_eq!(made["spec"]["deps"]["jars"], json!(["gs://jobs/folder/team/pi/a%20b%2Cc.jar"]));
    assert_eq!(bucket.object("folder/team/pi/a b,c.jar").unwrap(), b"jar");
    assert!(bucket.written() > 3);
    // This server allows everybody to read anyway, so the objects need not be uploaded again.
    let (code, said) = upload(&["--public"]);
    assert_eq!((code, bucket.written()), (0, 0), "{said}");
    assert_eq!(
        place.made()["spec"]["mainApplicationFile"],
        format!("{}/jobs/folder/team/pi/main.py", bucket.endpoint)
    );
    place.write("main.py", b"print(1)");
    let (code, said) = upload(&["--public"]);
    assert!(
        code == 1 && said.contains("gs://jobs/folder/team/pi/main.py has other content: give --override"),
        "{said}"
    );
    assert_eq!(upload(&["--public", "-o"]).0, 0);
    let acls: Vec<_> =
        bucket.asked().into_iter().filter(|asked| asked.method == "PUT").map(|asked| asked.acl).collect();
    assert_eq!(acls, [Some("public-read".to_owned())]);
    let (code, said) = place.create(&["-u", "gs://none"], &[simple()], |program| {
        program.env("STORAGE_EMULATOR_HOST", &bucket.endpoint);
    });
    assert!(code == 1 && said.contains("main.py: there is no bucket `none`"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_documents_schedules_and_hadoop_configuration_are_uploaded() {
    let place = Place::new("several").await;
    let bucket = Bucket::start(&place.folder).await;
    let conf = place.folder.join("conf");
    fs::create_dir(&conf).unwrap();
    fs::write(conf.join("core-site.xml"), "<configuration/>").unwrap();
    fs::write(conf.join("keystore"), b"\xfe\xff").unwrap();
    let mut schedule = simple();
    schedule["kind"] = json!("ScheduledSparkApplication");
    schedule["metadata"] = json!({"name": "nightly", "namespace": "other"});
    schedule["spec"] = json!({"schedule": "@daily", "template": simple()["spec"]});
    let mut chosen = simple();
    chosen["metadata"]["name"] = json!("chosen");
    chosen["spec"]["hadoopConfigMap"] = json!("mine");
    let (code, said) = place.create(&["-u", "s3://jobs"], &[simple(), schedule, chosen], |program| {
        bucket.admit(program);
        program.env("HADOOP_CONF_DIR", &conf);
        // Keys in a credentials file work as well.
        program.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        program.env("AWS_SHARED_CREDENTIALS_FILE", place.write("credentials", Bucket::profile().as_bytes()));
    });
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(
        "SparkApplication chosen: has the ConfigMap mine, so that HADOOP_CONF_DIR is not used for it\n"
    ));
    let written = place.api.written();
    let what: Vec<_> = written.iter().map(|(what, _)| &**what).collect();
    assert_eq!(
        what,
        [
            "POST configmaps", "POST sparkapplications", "PATCH configmaps", "POST configmaps",
            "POST scheduledsparkapplications", "PATCH configmaps", "POST sparkapplications",
        ]
    );
    let objects: Vec<_> = written.iter().map(|(_, object)| object).collect();
    assert_eq!(objects[0]["metadata"]["name"], "pi-hadoop-config");
    assert_eq!(objects[0]["data"], json!({"core-site.xml": "<configuration/>"}));
    assert_eq!(objects[0]["binaryData"], json!({"keystore": "/v8="}));
    assert_eq!(objects[1]["spec"]["hadoopConfigMap"], "pi-hadoop-config");
    assert_eq!(objects[2]["metadata"]["ownerReferences"][0]["name"], "pi");
    assert_eq!(objects[4]["spec"]["template"]["hadoopConfigMap"], "nightly-hadoop-config");
    assert_eq!(objects[4]["spec"]["template"]["mainApplicationFile"], "s3a://jobs/other/nightly/main.py");
    assert_eq!(objects[5]["metadata"]["ownerReferences"][0]["kind"], "ScheduledSparkApplication");
    assert_eq!(objects[6]["spec"]["hadoopConfigMap"], "mine");
    assert_eq!(bucket.object("other/nightly/main.py").unwrap(), b"print()");
}
