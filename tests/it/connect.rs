//! Tests the decisions about servers of Spark Connect. Each folder in `tests/data/connect` is a SparkConnect with the
//! objects that the operator creates for it, each file the story of a server, step by step. Stories that such a file
//! cannot express are in code.

use crate::prelude::*;
use api::{
    ConnectAccess, ConnectState, ObjectKey, ObjectKind, SparkConnectStatus,
    names::connect_condition::{EXECUTORS_REFUSED, INGRESS_MISSING, SERVER_POD_READY},
};
use connect::{
    Action, Found, Gateway, Observed, Plan, Policy, ServerPod, examine, executor, exposure_rights,
    is_trial_due, next,
    quota::{exceeded, needs_room},
};
use plan::executor_trial::Trial;
use pods::{Controller, Ended, Phase};
use std::os::unix::fs::PermissionsExt;
use submission::{exposure::UrlFormat, findings::Invalid};

const UID: &str = "6c1f0b5e-0000-4000-8000-000000000001";

fn policy(gateway: bool) -> Policy {
    let labels = [("app.kubernetes.io/component".to_owned(), "connect-gateway".to_owned())].into();
    let addresses = vec!["10.0.0.8".to_owned(), "10.0.0.9".to_owned(), "fd00::9".to_owned()];
    let of_operator = Gateway { namespace: "spark-operator".to_owned(), labels, addresses };
    Policy {
        default_service_account: Some("of-operator".to_owned()),
        gateway: gateway.then_some(of_operator),
        ..Policy::new("k8s://https://10.96.0.1:443")
    }
}

#[test]
fn a_server_consists_of_the_objects_that_its_case_says() {
    let mut golden = Golden::default();
    for case in cases("connect") {
        let connect: SparkConnect = yaml(&case.join("connect.yaml"));
        let seen = Observed { gateway_port: Some(20_001), ..Observed::default() };
        let Plan { actions, wanted, .. } = next(&connect, &seen, Timestamp::UNIX_EPOCH, &policy(true));
        let [Action::CreateServer(pod)] = &actions[..] else { panic!("{}: {actions:?}", case.display()) };
        let all: Vec<_> = [&**pod].into_iter().chain(&wanted).collect();
        golden.compare_yaml(&case.join("objects.yaml"), &all);
    }
    golden.finish();
}

/// The flag for the account is empty by default.
#[test]
fn an_empty_default_account_counts_as_none() {
    let connect: SparkConnect = yaml(&data("connect/through-the-gateway/connect.yaml"));
    let server = |account: Option<&str>| {
        let policy = Policy { default_service_account: account.map(str::to_owned), ..policy(true) };
        let Plan { actions, .. } = next(&connect, &Observed::default(), Timestamp::UNIX_EPOCH, &policy);
        let [Action::CreateServer(pod)] = &actions[..] else { panic!("{actions:?}") };
        pod["spec"]["serviceAccountName"].clone()
    };
    assert_eq!([server(Some("")), server(None), server(Some("a"))], [Value::Null, Value::Null, json!("a")]);
}

/// A server, its observed state and the last plan.
struct Story {
    connect: SparkConnect,
    seen: Observed,
    policy: Policy,
    now: Timestamp,
    plan: Plan,
}

impl Story {
    fn of(spec: Value) -> Self {
        let mut object = json!({
            "metadata": {"name": "pi", "namespace": "team-a", "uid": UID, "generation": 1},
            "spec": {"sparkVersion": "4.0.1", "image": "spark", "server": {}, "executor": {}},
        });
        json_patch::merge(&mut object["spec"], &spec);
        let (connect, seen) = (serde_json::from_value(object).unwrap(), Observed::default());
        let (policy, now) = (policy(false), Timestamp::UNIX_EPOCH);
        let plan = next(&connect, &seen, now, &policy);
        Self { connect, seen, policy, now, plan }
    }

    /// Lets time pass, reconciles, and records the status of the plan.
    fn after(&mut self, seconds: i64) -> &Plan {
        self.now += SignedDuration::from_secs(seconds);
        self.plan = next(&self.connect, &self.seen, self.now, &self.policy);
        self.connect.status = Some(self.plan.status.clone());
        &self.plan
    }

    fn edit(&mut self, spec: &Value) {
        let mut object = serde_json::to_value(&self.connect.spec).unwrap();
        json_patch::merge(&mut object, spec);
        self.connect.spec = serde_json::from_value(object).unwrap();
    }

    /// Lets the pod that the last plan creates exist, in this phase, and returns it.
    fn pod(&mut self, uid: &str, phase: Phase) -> &mut ServerPod {
        assert!(self.creates(), "{:?}", self.plan);
        self.seen.server = Some(Box::new(ServerPod { hash: self.hash(), ..server(uid, phase) }));
        self.seen.server.as_deref_mut().unwrap()
    }

    /// Returns the hash of the pod that the last plan creates, or else that of the existing pod.
    fn hash(&self) -> Option<String> {
        match self.plan.actions.last() {
            Some(Action::CreateServer(pod)) => {
                pod["metadata"]["annotations"][annotation::SERVER_HASH].as_str().map(str::to_owned)
            }
            _ => self.seen.server.as_ref()?.hash.clone(),
        }
    }

    fn has_ready_server(spec: Value) -> Self {
        let mut story = Self::of(spec);
        story.after(0);
        story.pod("1", Phase::Running).is_ready = true;
        story.after(1);
        assert_eq!(story.reported(), (ConnectState::Ready, "ServerPodReady", vec!["SparkConnectReady"]));
        story
    }

    /// Returns the state, the reason of the condition `ServerPodReady` and the reasons of the events.
    fn reported(&self) -> (ConnectState, &str, Vec<&str>) {
        let events = self.plan.events.iter().map(|event| event.reason).collect();
        let ready = condition(&self.plan.status, SERVER_POD_READY).unwrap();
        (self.plan.status.state, ready.reason.as_str(), events)
    }

    fn deletes(&self, uid: &str, force: bool) -> bool {
        let name = "pi-server".to_owned();
        self.plan.actions == [Action::DeleteServer { name, uid: uid.to_owned(), force }]
    }

    fn creates(&self) -> bool {
        matches!(&self.plan.actions[..], [Action::CreateServer(_)])
    }
}

/// A story in `tests/data/connect`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(default)]
    spec: Map<String, Value>,
    /// Whether the server is ready when the story begins.
    #[serde(default)]
    is_ready: bool,
    status: Option<SparkConnectStatus>,
    gateway: Option<GatewayPort>,
    /// The admin's format of the URLs of web UIs.
    url: Option<String>,
    /// The admin's default for which clients may connect to a server.
    #[serde(default)]
    access: ConnectAccess,
    steps: Vec<Step>,
}

/// The operator has a gateway, which may have a port for the server.
#[derive(Deserialize)]
struct GatewayPort {
    port: Option<i32>,
}

/// A change, and the expected plan some seconds (`after`) later.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    after: i64,
    edit: Option<Value>,
    /// Whether a client connects.
    #[serde(default)]
    connects: bool,
    gateway: Option<GatewayPort>,
    /// `gone`, or a [`WrittenServer`].
    server: Option<Value>,
    executors: Option<BTreeMap<String, i32>>,
    objects: Option<Vec<Value>>,
    refusal: Option<String>,
    /// The expected parts of [`Story::summary`]. Null is for fields that must be missing.
    #[serde(default)]
    expect: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenServer {
    #[serde(default)]
    ready: bool,
    /// `kubeflow` or `somebody else`, if the operator has not created the pod.
    made_by: Option<String>,
    pod: PodSummary,
}

impl Story {
    /// Applies the changes of a step to the SparkConnect and to the observed state.
    fn sees(&mut self, step: &Step) {
        if let Some(spec) = &step.edit {
            self.edit(spec);
        }
        if step.connects {
            let connection = (annotation::LAST_CONNECTION.to_owned(), self.now.to_string());
            self.connect.metadata.annotations = Some([connection].into());
        }
        self.has_gateway(step.gateway.as_ref());
        match &step.server {
            None => {}
            Some(Value::String(gone)) => {
                assert_eq!(gone, "gone");
                self.seen.server = None;
            }
            Some(described) => {
                let WrittenServer { ready, made_by, pod } =
                    serde_json::from_value(described.clone()).unwrap();
                let hash = self.hash().filter(|_| made_by.is_none());
                let ServerPod { summary, ip, .. } = server(&pod.uid, pod.phase);
                let controller = summary.controller.filter(|_| made_by.as_deref() != Some("somebody else"));
                let deletion = pod.terminating.then_some(self.now);
                let summary = PodSummary { name: summary.name, controller, ..pod };
                self.seen.server = Some(Box::new(ServerPod { summary, is_ready: ready, ip, hash, deletion }));
            }
        }
        if let Some(executors) = &step.executors {
            self.seen.executors.clone_from(executors);
        }
        if let Some(objects) = &step.objects {
            let found = |object: &Value| Found {
                key: ObjectKey::of(object).unwrap(),
                uid: "9".to_owned(),
                is_ours: object["isOurs"] == true,
                has_selector: object["hasSelector"] == true,
            };
            self.seen.objects = objects.iter().map(found).collect();
        }
        if step.refusal.is_some() {
            self.seen.refusal.clone_from(&step.refusal);
        }
    }

    fn has_gateway(&mut self, gateway: Option<&GatewayPort>) {
        if let Some(GatewayPort { port }) = gateway {
            (self.policy.gateway, self.seen.gateway_port) = (policy(true).gateway, *port);
        }
    }

    /// Returns the last plan in the terms of the stories. `before` is the status before that plan.
    fn summary(&self, before: Option<&SparkConnectStatus>) -> Value {
        let Plan { actions, wanted, status, events, wake } = &self.plan;
        let action = |action: &Action| match action {
            Action::CreateServer(_) => "create".to_owned(),
            Action::DeleteServer { uid, force: false, .. } => format!("delete {uid}"),
            Action::DeleteServer { uid, .. } => format!("delete {uid} by force"),
            Action::Delete { key, .. } => format!("delete {} {}", key.kind, key.name),
            Action::DeleteConnect => "delete the SparkConnect".to_owned(),
        };
        let object = |key: ObjectKey| format!("{} {}", key.kind, key.name);
        let made: Vec<_> = wanted.iter().filter_map(ObjectKey::of).map(object).collect();
        let reasons: BTreeMap<_, _> = status.conditions.iter().map(|one| (&one.type_, &one.reason)).collect();
        json!({
            "actions": actions.iter().map(action).collect::<Vec<_>>(),
            "makes": made.iter().map(|object| (object, true)).collect::<BTreeMap<_, _>>(), "wanted": made,
            "events": events.iter().map(|event| event.reason).collect::<Vec<_>>(),
            "state": status.state, "reason": condition(status, SERVER_POD_READY).map(|one| &one.reason),
            "conditions": reasons, "status": status, "wakes": wake.is_some(), "writes": before != Some(status),
        })
    }
}

#[test]
fn servers_behave_as_their_stories_say() {
    let files = fs::read_dir(data("connect")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.is_file()).collect();
    assert!(!files.is_empty());
    for file in files {
        let Written { spec, is_ready, status, gateway, url, access, steps } = yaml(&file);
        let spec = Value::Object(spec);
        let mut story = if is_ready { Story::has_ready_server(spec) } else { Story::of(spec) };
        story.connect.status = status.or(story.connect.status);
        story.has_gateway(gateway.as_ref());
        story.policy.exposure.url_format = url.map(|url| UrlFormat::parse(&url).unwrap());
        story.policy.default_access = access;
        for (number, step) in steps.into_iter().enumerate() {
            story.sees(&step);
            let before = story.connect.status.clone();
            story.after(step.after);
            let told = story.summary(before.as_ref());
            let mut expected = told.clone();
            json_patch::merge(&mut expected, &Value::Object(step.expect));
            assert_eq!(told, expected, "{}, step {}", file.display(), number + 1);
        }
    }
}

type Condition = k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

fn condition<'a>(status: &'a SparkConnectStatus, type_: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

fn server(uid: &str, phase: Phase) -> ServerPod {
    let owner = Controller { kind: "SparkConnect".to_owned(), name: "pi".to_owned(), uid: UID.to_owned() };
    let summary = PodSummary {
        name: "pi-server".to_owned(),
        uid: uid.to_owned(),
        controller: Some(owner),
        phase,
        ..PodSummary::default()
    };
    ServerPod { summary, ip: Some("10.0.0.3".to_owned()), ..ServerPod::default() }
}

#[test]
fn a_failed_server_is_kept_for_its_log_and_recreated_with_growing_backoff() {
    let mut story = Story::has_ready_server(json!({}));
    for (restarts, pause) in [(1_i32, 10_i64), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (7, 300)] {
        let uid = restarts.to_string();
        let mut pod = server(&uid, Phase::Failed);
        pod.summary.ended = Some(Ended { exit_code: 137, reason: "OOMKilled".to_owned(), message: None });
        story.seen.server = Some(Box::new(pod));
        story.after(1);
        // The first failure makes a ready server NotReady. A failure while it restarts leaves it Provisioning, and each
        // further one makes it Failed.
        let state = match restarts {
            1 => ConnectState::NotReady,
            2 => ConnectState::Provisioning,
            _ => ConnectState::Failed,
        };
        assert_eq!(story.reported(), (state, "OOMKilled", vec!["SparkConnectFailed"]));
        let failure = story.plan.status.last_failure.clone().unwrap();
        let why = "server container failed with ExitCode: 137, Reason: OOMKilled (it needed more memory than its limit: \
                   raise spark.driver.memoryOverhead)";
        assert_eq!((failure.exit_code, failure.message.as_deref()), (Some(137), Some(why)));
        assert_eq!((story.plan.status.restarts, story.plan.actions.len()), (restarts, 0));
        story.after(pause - 1);
        assert_eq!(
            (story.plan.actions.len(), story.reported()),
            (0, (state, "OOMKilled", vec![])),
            "{restarts}"
        );
        story.after(1);
        assert!(story.deletes(&uid, false), "{restarts}: {:?}", story.plan);
        story.seen.server = None;
        story.after(0);
        assert!(story.creates());
        assert_eq!(story.reported(), (ConnectState::Provisioning, "Creating", vec!["SparkConnectRestarted"]));
    }
    story.pod("8", Phase::Running).is_ready = true;
    story.after(1);
    assert_eq!(story.plan.status.restarts, 7);
    story.after(600);
    assert_eq!(story.plan.status.restarts, 0);
}

/// A SparkConnect may be named like an object of another one: `a-server`.
#[test]
fn no_two_servers_of_a_namespace_have_an_object_in_common() {
    let mut all = BTreeMap::new();
    for name in [
        "a", "a-server", "a-server-server", "a-server-ui", "a-server-gateway", "a-server-direct", "a-conf",
        "a-exec", "a-exec-1",
    ] {
        let mut story = Story::of(json!({"sleepAfterIdleSeconds": 600}));
        story.connect.metadata.name = Some(name.to_owned());
        (story.policy, story.seen.gateway_port) = (policy(true), Some(20_001));
        let format = UrlFormat::parse("ui.example.com/{{$appNamespace}}/{{$appName}}").unwrap();
        story.policy.exposure.url_format = Some(format);
        story.after(0);
        story.pod("1", Phase::Running).is_ready = true;
        story.after(1);
        let pods = ["server", "exec-1", "exec-2"];
        let pods = pods.map(|part| ObjectKind::new("v1", "Pod").named(format!("{name}-{part}")));
        let keys: Vec<_> = story.plan.wanted.iter().filter_map(ObjectKey::of).chain(pods).collect();
        assert_eq!(keys.len(), 9, "{keys:?}");
        for key in keys {
            let before = all.insert(key.clone(), name);
            assert_eq!(before, None, "{key} is of {name}, too");
        }
    }
}

/// Runs the command of the pod as the kubelet does. In an earlier version, an image without Spark Connect ended with
/// exit code 127 and no explanation.
#[test]
fn an_image_without_spark_connect_says_so_and_a_shell_changes_no_option() {
    let value = "it's $(POD_IP) `id` $$ \"quoted\"; exit 7";
    let mut story = Story::of(json!({"sparkConf": {"spark.app.name": value}}));
    story.after(0);
    let Some(Action::CreateServer(pod)) = story.plan.actions.last() else { panic!("{:?}", story.plan) };
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");
    let words = |field: &str| -> Vec<String> { serde_json::from_value(container[field].clone()).unwrap() };
    let home = empty_folder("connect");
    let runs = |address: &str| {
        let whole = words("command");
        let [program, options @ ..] = &whole[..] else { panic!("{container}") };
        let arguments = words("args").into_iter().map(|argument| argument.replace("$$", "$"));
        let command = &mut Command::new(program);
        command.args(options).args(arguments).env("SPARK_HOME", &home).env("POD_IP", address);
        command.output().unwrap()
    };
    let without = runs("10.0.0.7");
    let said = String::from_utf8(without.stderr).unwrap();
    assert_eq!((without.status.code(), without.stdout), (Some(1), Vec::new()), "{said}");
    assert!(
        said.contains("/sbin/start-connect-server.sh: Spark Connect needs an image of Spark 3.4 or later"),
        "{said}"
    );

    for folder in ["bin", "sbin"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    fs::write(home.join("sbin/start-connect-server.sh"), "").unwrap();
    let submit = home.join("bin/spark-submit");
    fs::write(&submit, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    fs::set_permissions(&submit, fs::Permissions::from_mode(0o755)).unwrap();
    for (address, host) in [("10.0.0.7", "10.0.0.7"), ("fd00::7", "[fd00::7]")] {
        let output = runs(address);
        let text = String::from_utf8(output.stdout).unwrap();
        let passed: Vec<_> = text.lines().collect();
        assert!(output.status.success() && passed.starts_with(&["--class"]), "{text}");
        assert!(passed.contains(&&*format!("spark.app.name={value}")), "{text}");
        assert_eq!(passed.last(), Some(&&*format!("spark.driver.host={host}")), "{text}");
    }
}

#[test]
fn refused_executors_are_reported_until_an_executor_exists() {
    let container = json!({"name": "spark-kubernetes-executor", "image": "executor:1"});
    let mut story =
        Story::has_ready_server(json!({"executor": {"template": {"spec": {"containers": [container]}}}}));
    let is_due = |story: &Story, tried| is_trial_due(&story.connect, &story.seen, tried, story.now);
    assert!(story.plan.wake.is_some() && !is_due(&story, None));
    story.after(30);
    let tried = Some(story.now);
    assert!(is_due(&story, None) && !is_due(&story, tried));
    story.after(60);
    assert!(is_due(&story, tried));
    let model = executor(&story.connect, story.seen.server.as_deref().unwrap()).unwrap();
    let (metadata, of_spark) = (&model["metadata"], &model["spec"]["containers"][0]);
    assert_eq!(
        (&metadata["name"], &metadata["ownerReferences"][0]["uid"], &metadata["labels"]["spark-role"]),
        (&json!("pi-exec-1"), &json!("1"), &json!("executor"))
    );
    assert_eq!(
        (&of_spark["image"], &of_spark["resources"]["requests"]["memory"]),
        (&json!("executor:1"), &json!("1408Mi"))
    );
    let has_none = Story::of(json!({"executor": {"instances": 0}}));
    assert_eq!(executor(&has_none.connect, &server("1", Phase::Running)), None);
    // With dynamic allocation a job would wait for executors for ever.
    let has_none_yet = Story::of(json!({"dynamicAllocation": {"enabled": true, "minExecutors": 0}}));
    assert!(executor(&has_none_yet.connect, &server("1", Phase::Running)).is_some());

    let refused = Trial::Refused { reason: "Forbidden".to_owned(), why: "exceeded quota: team-a".to_owned() };
    let message = |story: &Story| {
        condition(&story.plan.status, EXECUTORS_REFUSED).map(|refused| refused.message.clone())
    };
    for (trial, told) in [
        (Some(refused.clone()), vec!["SparkConnectExecutorsRefused"]),
        (None, vec![]),
        (Some(refused.clone()), vec![]),
    ] {
        story.seen.executor_trial = trial;
        story.after(60);
        assert_eq!(story.reported(), (ConnectState::Ready, "ServerPodReady", told));
        assert_eq!(message(&story).as_deref(), Some("executors are refused: exceeded quota: team-a"));
    }
    story.seen.executor_trial = Some(Trial::Accepted);
    story.after(60);
    assert_eq!(message(&story), None);
    story.seen.executor_trial = Some(refused);
    story.seen.executors = [("running".to_owned(), 1)].into();
    story.after(1);
    assert_eq!((message(&story), story.plan.wake), (None, None));
    assert!(!is_due(&story, None));
}

#[test]
fn all_mistakes_are_found_at_once() {
    let mistakes = |name: &str, spec: Value| {
        let mut connect = Story::of(spec).connect;
        connect.metadata.name = Some(name.to_owned());
        examine(&connect).invalid.iter().map(|Invalid { field, .. }| field.clone()).collect::<Vec<_>>()
    };
    let mut cases: Vec<(Value, Vec<String>)> = yaml(&data("connect-mistakes.yaml"));
    let (bad, fields) = cases.remove(0);
    let found = mistakes("Notebooks", bad);
    assert!(fields.iter().all(|field| found.contains(field)), "{found:?} instead of {fields:?}");
    for (spec, expected) in cases {
        assert_eq!(mistakes("pi", spec.clone()), expected, "{spec}");
    }
    // Programs that read the object cannot read values nested so deep. Only a SparkConnect has this part of the spec,
    // so the checks of applications do not cover it.
    let deep = (0..80).fold(json!({}), |deep, _| json!({"a": deep}));
    let found = mistakes("pi", json!({"server": {"service": {"x": deep}}}));
    assert!(matches!(&found[..], [field] if field.starts_with("spec.server.service.x.a.a")), "{found:?}");
    assert_eq!(mistakes(&"a".repeat(56), json!({})), [""; 0]);
    assert_eq!(mistakes(&"a".repeat(57), json!({})), ["metadata.name"]);
}

/// Otherwise the next run of the application `pi` would wait until the server's executors are gone.
#[test]
fn a_server_has_no_labels_of_an_application() {
    let mut connect = Story::of(json!({})).connect;
    connect.metadata.labels = Some([("sparkoperator.k8s.io/app-name".to_owned(), "pi".to_owned())].into());
    let said: Vec<_> = examine(&connect).invalid.iter().map(Invalid::to_string).collect();
    assert_eq!(
        said,
        [
            "metadata.labels: `sparkoperator.k8s.io/app-name` is reserved for the pods of applications: take it out"
        ]
    );
}

#[test]
fn a_server_gets_the_warnings_of_its_case_about_its_properties() {
    for (spec, expected) in yaml::<Vec<(Value, Vec<String>)>>(&data("connect-warnings.yaml")) {
        let mut warnings = examine(&Story::of(spec.clone()).connect).warnings;
        warnings.retain(|warning| warning.starts_with("spec.sparkConf"));
        assert_eq!(warnings, expected, "{spec}");
    }
}

#[test]
fn a_service_that_is_reachable_from_outside_the_cluster_needs_a_right() {
    let rights = |service: Value| {
        let connect = Story::of(json!({"server": {"service": service}})).connect;
        assert_eq!(exposure_rights(Some(&connect.spec), &connect.spec), []);
        exposure_rights(None, &connect.spec).into_iter().map(|right| right.field).collect::<Vec<_>>()
    };
    for (service, expected) in yaml::<Vec<(Value, Vec<String>)>>(&data("connect-rights.yaml")) {
        assert_eq!(rights(service.clone()), expected, "{service}");
    }
}

#[test]
fn a_quota_has_to_have_room_for_a_server_and_its_executors() {
    // The pods of the present server are deleted before the next server is created.
    let mut present = Story::of(json!({})).connect;
    present.status = serde_json::from_value(json!({
        "server": {"podName": "pi-server"}, "executors": {"running": 1, "pending": 1, "failed": 7},
    }))
    .unwrap();
    let cases: Vec<(Value, bool, Value, Vec<String>)> = yaml(&data("connect-quotas.yaml"));
    for (hard, is_present, spec, expected) in cases {
        let used = hard.as_object().unwrap().keys().map(|key| (key.clone(), json!("1")));
        let quota = json!({
            "metadata": {"name": "team"}, "spec": {"hard": hard}, "status": {"used": used.collect::<Map<_, _>>()},
        });
        let quota = serde_json::from_value(quota).unwrap();
        let old = is_present.then_some(&present);
        let found = exceeded(old, &Story::of(spec.clone()).connect, &[quota], true);
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{spec}");
    }
}

#[test]
fn a_change_that_starts_no_server_needs_no_quota() {
    let connect = |spec: Value| Story::of(spec).connect;
    for (old, new, needs) in yaml::<Vec<(Option<Value>, Value, bool)>>(&data("connect-room.yaml")) {
        let before = old.clone().map(connect);
        assert_eq!(needs_room(before.as_ref(), &connect(new.clone())), needs, "{old:?} {new}");
    }
}

#[test]
fn the_web_ui_has_an_ingress_if_each_namespace_has_urls_of_its_own() {
    let plan = |format: &str, spec: Value| {
        let mut story = Story::of(spec);
        story.policy.exposure.url_format = Some(UrlFormat::parse(format).unwrap());
        story.after(0);
        story.plan
    };
    let of_kind = |plan: &Plan, kind: &str| {
        plan.wanted.iter().find(|object| object["kind"] == kind).cloned().unwrap_or_default()
    };
    let format = "ui.example.com/{{$appNamespace}}/{{$appName}}";
    let made = plan(format, json!({}));
    let ingress = of_kind(&made, "Ingress");
    let metadata = &ingress["metadata"];
    assert_eq!(
        (&metadata["name"], &metadata["labels"], &metadata["ownerReferences"][0]["uid"]),
        (&json!("pi-server-ui"), &of_kind(&made, "Service")["metadata"]["labels"], &json!(UID))
    );
    let path = json!({
        "path": "/team-a/pi(/|$)(.*)", "pathType": "ImplementationSpecific",
        "backend": {"service": {"name": "pi-server", "port": {"number": 4040}}},
    });
    assert_eq!(ingress["spec"], json!({"rules": [{"host": "ui.example.com", "http": {"paths": [path]}}]}));
    let rules = &of_kind(&made, "NetworkPolicy")["spec"]["ingress"];
    assert_eq!(rules[1], json!({"ports": [{"port": 4040, "protocol": "TCP"}]}));
    let Some(Action::CreateServer(pod)) = made.actions.last() else { panic!("{made:?}") };
    let options = pod["spec"]["containers"][0]["args"].as_array().unwrap();
    assert!(options.contains(&json!("spark.ui.proxyBase=/team-a/pi")), "{options:?}");

    for (format, spec) in [
        // The web UI of an application of another namespace may have this host.
        ("{{$appName}}.example.com", json!({})),
        (format, json!({"sparkConf": {"spark.ui.enabled": "false"}})),
        ("{{$appNamespace}}.example.com/{{$appId}}", json!({})),
    ] {
        assert_eq!(of_kind(&plan(format, spec), "Ingress"), Value::Null, "{format}");
    }
}

/// In an earlier version there was no Ingress, and nothing said why.
#[test]
fn a_web_ui_with_an_invalid_url_has_no_ingress_and_gets_one_event() {
    let mut story = Story::of(json!({}));
    // Valid for a namespace of one or two letters.
    let format = format!("{{{{$appNamespace}}}}-{}.example.com", "x".repeat(60));
    story.policy.exposure.url_format = Some(UrlFormat::parse(&format).unwrap());
    story.after(0);
    assert_eq!(story.reported().2, ["SparkConnectIngressMissing", "SparkConnectProvisioning"]);
    assert!(story.plan.wanted.iter().all(|object| object["kind"] != "Ingress"));
    let missing = condition(&story.plan.status, INGRESS_MISSING).unwrap();
    assert!(
        missing
            .message
            .starts_with("Ingress pi-server-ui is not created, because its URL is invalid: `team-a-xx"),
        "{missing:?}"
    );
    assert!(story.after(1).events.is_empty());
    story.policy.exposure.url_format = None;
    assert_eq!(condition(&story.after(1).status, INGRESS_MISSING), None);
}
