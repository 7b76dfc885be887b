//! Proves that the Helm chart accepts the values of Kubeflow's chart, that the rendered objects match the operator's
//! own manifests, and that an operator works with the rights and flags of the chart.

use super::{
    helm::{CHART, Release, deployments},
    namespace::call_locally,
    rights::no_other_installation,
};
use crate::apiserver::prelude::*;
use clap::Parser;
use spark_operator::{
    manifests,
    settings::{Command, Flags, Half, HalfCommand, Settings},
};

/// A release whose objects have the names of Kubeflow's chart in its documentation.
const RELEASE: &str = "spark-operator";
/// A release whose objects are called `apart-spark-operator…`.
const RELEASE_APART: &str = "apart";
/// Files with values in `tests/data/chart`, which together change every key from its default.
const VALUES: [&str; 6] =
    ["default", "kubeflow", "everything", "labelled", "one-deployment", "without-webhook"];

/// Returns the objects that the chart renders; `arguments` are those of `helm template`.
pub(super) fn rendered(release: &str, arguments: &[&str]) -> Vec<Value> {
    serde_saphyr::from_multiple(&template(release, arguments).unwrap()).unwrap()
}

/// Returns the YAML that the chart renders, or Helm's error.
pub(super) fn template(release: &str, arguments: &[&str]) -> Result<String, String> {
    template_of(CHART, release, arguments)
}

fn template_of(chart: &str, release: &str, arguments: &[&str]) -> Result<String, String> {
    // The test's cluster lacks these APIs, which the chart checks.
    let apis = [
        "cert-manager.io/v1/Certificate", "cert-manager.io/v1/Issuer", "monitoring.coreos.com/v1/PodMonitor",
    ];
    let apis = apis.map(|api| format!("--api-versions={api}"));
    let command = ["template", release, chart, "--namespace", NAMESPACE];
    let apis: Vec<_> = apis.iter().map(String::as_str).collect();
    let said = program::said(run("helm", &[&command, &apis[..], arguments].concat(), ""));
    said.map_err(|complaint| complaint.lines().filter(|line| !line.starts_with("walk.go")).collect())
}

/// Returns the notes that Helm prints after an installation.
fn notes(name: &str, arguments: &[&str]) -> String {
    with_notes(name, arguments).1
}

/// Returns the objects that the chart renders, and the notes that Helm prints after an installation. `helm template`
/// leaves the notes out, so a copy of the chart renders them as an object.
fn with_notes(name: &str, arguments: &[&str]) -> (Vec<Value>, String) {
    let folder = copied(name);
    let chart = folder.to_str().unwrap();
    fs::rename(folder.join("templates/NOTES.txt"), folder.join("NOTES.txt")).unwrap();
    let object = r#"{{ dict "notes" (tpl (.Files.Get "NOTES.txt") .) | toJson }}"#;
    fs::write(folder.join("templates/notes.yaml"), object).unwrap();
    let text = template_of(chart, RELEASE, arguments).unwrap();
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let notes = objects.iter().position(|object| object["notes"].is_string()).unwrap();
    let notes = objects.remove(notes)["notes"].as_str().unwrap().to_owned();
    (objects, notes)
}

/// Returns the folder of a copy of the chart.
fn copied(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chart").join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    assert!(run("cp", &["-R", CHART, folder.to_str().unwrap()], "").status.success());
    folder
}

/// Returns the argument of Helm for values in `tests/data/chart`, such as one of [`VALUES`].
pub(super) fn values(name: &str) -> String {
    format!("--values=tests/data/chart/{name}.yaml")
}

fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// Returns the arguments of the operator's container in each Deployment, with the name of the Deployment.
pub(super) fn arguments(objects: &[Value]) -> Vec<(String, Vec<String>)> {
    of_kind(objects, "Deployment")
        .map(|deployment| {
            (deployment["metadata"]["name"].as_str().unwrap().to_owned(), arguments_of(deployment))
        })
        .collect()
}

/// Returns the arguments of the operator's container in a Deployment.
pub(super) fn arguments_of(deployment: &Value) -> Vec<String> {
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    arguments.iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
}

/// Returns the setup of an operator that runs with the flags of a Deployment and the rights of `account`.
pub(super) fn program<'a>(deployment: &Value, namespace: &'a Namespace, account: &'static str) -> Setup<'a> {
    let arguments = arguments_of(deployment);
    let commands = arguments.iter().take_while(|argument| !argument.starts_with('-')).count();
    // The harness has flags of its own for these.
    let replaced = ["--leader-election", "--metrics-bind-address", "--webhook-port", "--zap-"];
    let setup = Operator::with(namespace).account(account).command(&arguments[..commands]);
    let flags = arguments[commands..].iter();
    let flags = flags.filter(|argument| !replaced.iter().any(|replaced| argument.starts_with(replaced)));
    flags.fold(setup, |setup, argument| setup.argument(argument))
}

/// Parses the arguments of the operator's container.
pub(super) fn settings(arguments: &[String]) -> Settings {
    let program = ["spark-operator".to_owned()];
    match Flags::try_parse_from(program.iter().chain(arguments)).unwrap().command {
        Command::Run(settings) => *settings,
        Command::Controller(HalfCommand::Start(half)) | Command::Webhook(HalfCommand::Start(half)) => {
            half.settings
        }
        other => panic!("{other:?}"),
    }
}

/// A right: namespace (`None`: of a ClusterRole), API group, resource, object's name (`None`: any) and verb.
type Right = (Option<String>, String, String, Option<String>, String);

/// Returns the rights in these roles that a binding gives to the accounts of the operator.
fn rights(roles: &[Value]) -> BTreeSet<Right> {
    let is_bound = |role: &Value| {
        let binding = format!("{}Binding", role["kind"].as_str().unwrap());
        of_kind(roles, &binding).any(|binding| {
            binding["roleRef"]["name"] == role["metadata"]["name"]
                && binding["metadata"]["namespace"] == role["metadata"]["namespace"]
                && binding["subjects"][0]["namespace"] == NAMESPACE
        })
    };
    let strings = |value: &Value| -> Vec<String> {
        let strings = value.as_array().into_iter().flatten();
        strings.map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    let is_of_hook = |role: &Value| role["metadata"]["labels"]["app.kubernetes.io/component"] == "hook";
    let roles = roles.iter().filter(|role| role["rules"].is_array() && !is_of_hook(role));
    for role in roles.filter(|role| is_bound(role)) {
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        for rule in role["rules"].as_array().unwrap() {
            let names = strings(&rule["resourceNames"]);
            let names: Vec<_> =
                if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
            for group in strings(&rule["apiGroups"]) {
                for resource in strings(&rule["resources"]) {
                    for name in &names {
                        for verb in strings(&rule["verbs"]) {
                            let name = name.as_ref().map(|name| name.replace("controller-lock", "lock"));
                            rights.insert((namespace.clone(), group.clone(), resource.clone(), name, verb));
                        }
                    }
                }
            }
        }
    }
    rights
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_chart_renders_the_golden_files_and_the_api_server_accepts_them() {
    // The namespaces of the objects must exist.
    let _namespace = Namespace::new("chart").await;
    let mut golden = Golden::default();
    for name in VALUES {
        let linted = run("helm", &["lint", "--strict", CHART, &values(name)], "");
        assert!(linted.status.success(), "{name}: {}", String::from_utf8_lossy(&linted.stdout));
        let text = template(RELEASE, &[&values(name)]).unwrap();
        golden.compare(&data(&format!("chart/rendered/{name}.yaml")), &text);
        // This release has another name, so that its objects are not those that are installed. The API server of these
        // tests knows neither cert-manager nor the Prometheus operator.
        let known: Vec<Value> = rendered("valid", &[&values(name)])
            .into_iter()
            .filter(|object| {
                !matches!(object["kind"].as_str().unwrap(), "Certificate" | "Issuer" | "PodMonitor")
            })
            .collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": known});
        kubectl_with(&list, &["apply", "--dry-run=server", "--validate=strict", "--filename", "-"]);
    }
    golden.finish();
}

#[test]
#[ignore = "needs helm: make test"]
fn the_charts_rights_and_webhooks_equal_those_of_the_operators_manifests() {
    // With the values `without-webhook`, the chart creates no roles: somebody else does.
    for name in VALUES.into_iter().filter(|name| *name != "without-webhook") {
        let objects = rendered(RELEASE, &[&values(name)]);
        let mut needed = BTreeSet::new();
        let (gateways, halves): (Vec<_>, Vec<_>) =
            arguments(&objects).into_iter().partition(|(_, arguments)| arguments[0] == "connect-gateway");
        // The page has no rights.
        for (deployment, arguments) in halves.into_iter().filter(|(_, arguments)| arguments[0] != "page") {
            let Settings { election, mut installation, .. } = settings(&arguments);
            if !gateways.is_empty() {
                needed.extend(rights(&manifests::gateway_roles(&installation, NAMESPACE)));
            }
            // The configurations of a webhook process are those of an operator in one process.
            installation.half = None;
            if arguments[0] != "controller" {
                let expected = manifests::webhook_configurations(&installation, NAMESPACE);
                let found = objects.iter().filter(|object| object["webhooks"].is_array());
                for (expected, found) in expected.iter().zip(found) {
                    assert_eq!(deciding(found), deciding(expected), "{name}, {deployment}");
                }
            }
            installation.half = match arguments[0].as_str() {
                "controller" => Some(Half::Controller),
                "webhook" => Some(Half::Webhook),
                _ => None,
            };
            let mut of_half = rights(&manifests::operator_roles(&installation, NAMESPACE));
            if !election.leader_election {
                let is_lock = |right: &Right| right.0.as_deref() == Some(NAMESPACE) && right.2 == "leases";
                of_half.retain(|right| !is_lock(right));
            }
            needed.extend(of_half);
        }
        let given = rights(&objects);
        assert_eq!(given.symmetric_difference(&needed).collect::<Vec<_>>(), Vec::<&Right>::new(), "{name}");
    }
}

#[test]
#[ignore = "needs helm: make test"]
fn the_gateway_has_valid_flags_and_enough_time_to_terminate() {
    for (name, namespaces) in [("everything", Some(2)), ("without-webhook", Some(1)), ("labelled", None)] {
        let set = "--set=sparkConnect.gateway.enable=true";
        let objects = rendered(RELEASE, &[&values(name), set]);
        let is_gateway = |deployment: &&Value| {
            deployment["metadata"]["name"].as_str().unwrap().ends_with("-connect-gateway")
        };
        let deployment = of_kind(&objects, "Deployment").find(is_gateway).unwrap();
        let pod = &deployment["spec"]["template"];
        assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/component"], "connect-gateway");
        let arguments = pod["spec"]["containers"][0]["args"].as_array().unwrap().iter();
        let arguments = arguments.map(|argument| argument.as_str().unwrap());
        let Command::ConnectGateway(flags) =
            Flags::try_parse_from(["spark-operator"].into_iter().chain(arguments)).unwrap().command
        else {
            panic!("{name}: no gateway")
        };
        let settings = flags.gateway();
        assert_eq!(settings.namespaces.map(|names| names.len()), namespaces, "{name}");
        let grace = pod["spec"]["terminationGracePeriodSeconds"].as_u64();
        assert_eq!(grace, Some(settings.termination_grace.as_secs() + 5), "{name}");
        let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
        let admin = flags.health_probe_bind_address.unwrap().port();
        assert!(ports.len() == 1 && ports[0]["containerPort"] == admin, "{name}: {ports:?}");
    }
}

/// Returns the fields that determine which requests the webhooks of a configuration are called for.
fn deciding(configuration: &Value) -> Vec<Value> {
    let fields = ["name", "rules", "namespaceSelector", "objectSelector", "matchConditions"];
    let webhooks = configuration["webhooks"].as_array().unwrap().iter();
    webhooks
        .map(|webhook| {
            fields
                .iter()
                .map(|field| if webhook[*field].is_null() { json!({}) } else { webhook[*field].clone() })
                .collect()
        })
        .collect()
}

#[test]
#[ignore = "needs helm: make test"]
fn every_key_of_the_chart_is_changed_by_some_of_the_values() {
    let mut untouched = BTreeSet::new();
    let file = Path::new(CHART).join("values.yaml");
    leaves(&yaml(&file), "", &mut untouched);
    for name in VALUES {
        let mut touched = BTreeSet::new();
        leaves(&yaml(&data(&format!("chart/{name}.yaml"))), "", &mut touched);
        untouched.retain(|(path, default)| {
            touched.iter().all(|(touched, value)| {
                let is_it = touched == path || touched.starts_with(&format!("{path}."));
                !is_it || value == default
            })
        });
    }
    assert_eq!(untouched, BTreeSet::new());
}

/// Collects the path and the value of each leaf of `value`: of everything that is not an object with fields.
fn leaves(value: &Value, path: &str, found: &mut BTreeSet<(String, String)>) {
    match value.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(value, &path, found);
            }
        }
        None => {
            found.insert((path.to_owned(), value.to_string()));
        }
    }
}

#[test]
#[ignore = "needs helm: make test"]
fn unsupported_values_are_refused_with_the_key_and_the_remedy() {
    let cases: BTreeMap<String, Vec<[String; 2]>> = yaml(&data("chart/refused.yaml"));
    let values: Vec<_> = cases["keys"].iter().map(|[value, _]| value.as_str()).collect();
    let refused = template(RELEASE, &["--set", &values.join(",")]).unwrap_err();
    for [value, complaint] in &cases["keys"] {
        assert!(refused.contains(complaint), "{value}: {refused}");
    }
    let values = "webhook.failurePolicy=Maybe,webhook.timeoutSeconds=31,webhook.checkExposureRights=bogus";
    let refused = template(RELEASE, &["--set", values]).unwrap_err();
    for complaint in
        ["value must be one of 'Fail', 'Ignore'", "maximum", "value must be one of true, false, 'warn'"]
    {
        assert!(refused.contains(complaint), "{refused}");
    }
    for [value, complaint] in &cases["alone"] {
        let refused = template(RELEASE, &["--set", value]).unwrap_err();
        assert!(refused.contains(complaint), "{value}: {refused}");
    }
    let old = "--kube-version=1.27.9";
    let refused = template(RELEASE, &[old]).unwrap_err();
    assert!(refused.contains("Kubernetes 1.28 or later is needed for the webhook"), "{refused}");
    template(RELEASE, &[old, "--set=webhook.enable=false"]).unwrap();
    let command = ["template", RELEASE, CHART, "--set"];
    for (value, api) in [
        ("certManager.enable=true", "cert-manager.io/v1"),
        ("prometheus.podMonitor.create=true", "monitoring.coreos.com/v1"),
    ] {
        let refused = run("helm", &[&command[..], &[value]].concat(), "");
        let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.contains("The cluster does not support the required API version")
                && refused.contains(api),
            "{refused}"
        );
    }
}

#[test]
#[ignore = "needs helm: make test"]
fn the_charts_files_equal_the_manifests() {
    let kinds = "sparkapplications scheduledsparkapplications sparkconnects".split(' ');
    let kinds: Vec<_> = kinds.map(|kind| format!("sparkoperator.k8s.io_{kind}")).collect();
    let roles =
        "applications connect-ports connects driver-pdb exposure namespaces operator people quota spark";
    let copies = [
        ("crds", "crds", kinds.join(" ")),
        ("files", "rbac", roles.to_owned()),
        ("files/webhook", "webhook", "applications pods".to_owned()),
    ];
    let read = |file: String| fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    for (there, here, names) in copies {
        for name in names.split(' ') {
            let copy = format!("{CHART}/{there}/{name}.yaml");
            assert!(
                read(copy) == read(format!("manifests/{here}/{name}.yaml")),
                "{name}: run make manifests"
            );
        }
    }
    let keys = read(format!("{CHART}/files/keys.yaml"));
    assert!(keys == read(format!("{CHART}/values.yaml")), "run make manifests");
    let version = format!("version: {0}\nappVersion: {0}\n", env!("CARGO_PKG_VERSION"));
    assert!(read(format!("{CHART}/Chart.yaml")).contains(&version), "{version}");
}

/// Values that users of Kubeflow's chart write: numbers as strings, empty values, keys of a parent chart, a namespace
/// beside the empty name that means all namespaces, and images from a mirror.
#[test]
#[ignore = "needs helm: make test"]
fn values_that_kubeflows_chart_accepts_are_accepted() {
    let objects = rendered(RELEASE, &[&values("lenient")]);
    let deployments: Vec<_> = of_kind(&objects, "Deployment").collect();
    let image = format!("registry.example.com/mirror/spark-operator:{}", env!("CARGO_PKG_VERSION"));
    for deployment in &deployments {
        assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], image);
    }
    assert_eq!(deployments[0]["spec"]["replicas"], 2);
    for (_, arguments) in arguments(&objects) {
        let settings = settings(&arguments);
        assert!(settings.installation.namespaces().selectors().is_empty());
        assert_eq!(settings.max_tracked_executor_per_app, 1000);
    }
    let accounts: Vec<_> = of_kind(&objects, "ServiceAccount")
        .filter(|account| account["metadata"]["name"] == "spark-operator-spark")
        .map(|account| account["metadata"]["namespace"].as_str().unwrap())
        .collect();
    assert_eq!(accounts, ["team-a"]);
    // Without a webhook, `webhook.inControllerPods` has no effect: the controller's pods run `controller start`, which
    // reads spark-defaults.conf.
    rendered(RELEASE, &[&values("lenient"), "--set=webhook.enable=false,webhook.inControllerPods=true"]);
}

/// Of 31 public sets of values, 14 have keys that Kubeflow's chart ignores. An earlier version refused them, one key at
/// a time.
#[test]
#[ignore = "needs helm: make test"]
fn the_notes_list_the_keys_that_have_no_effect_as_in_kubeflows_chart() {
    let said = notes("ignored", &[&values("ignored")]);
    let ignored =
        said.lines().filter(|line| line.contains(" has no effect: ")).map(|line| format!("{line}\n"));
    let mut golden = Golden::default();
    golden.compare(&data("chart/ignored.txt"), &ignored.collect::<String>());
    golden.finish();
    assert_eq!(template(RELEASE, &[&values("ignored")]), template(RELEASE, &[]));
    // A feature gate that is off has no line in the notes.
    let gates = r#"controller.featureGates=[{"name":"AllAlpha","enabled":true},{"name":"RestSubmitter","enabled":true},
        {"name":"PartialRestart","enabled":false}]"#;
    let said = notes("gates", &["--set-json", gates]);
    let why = "the operator submits applications itself, without a JVM";
    assert!(
        said.ends_with(&format!(
            "\nThe gate RestSubmitter of controller.featureGates has no effect: {why}.\n"
        ))
    );
    assert!(!said.contains("PartialRestart"), "{said}");
    // A key of Kubeflow's chart that has no effect in this chart is listed with the unknown keys.
    let known = notes("known", &["--set", "controller.pprof.enable=true,zzz=1"]);
    let both = "controller.pprof has no effect: there is no profiler in the operator.\n\
                zzz has no effect: leave it out, no key is like it.\n";
    assert!(known.ends_with(both), "{known}");
}

#[test]
#[ignore = "needs helm: make test"]
fn the_notes_warn_of_unmanaged_spark_connects_and_of_a_port_conflict() {
    let by_default = notes("looked-after", &[]);
    for (value, sentence) in [
        ("sparkConnect.enable=false", "kubectl get sparkconnects"),
        ("webhook.port=8080", "webhook.port and prometheus.metrics.port are the same, 8080: "),
    ] {
        let said = notes("looked-after", &["--set", value]);
        assert!(said.contains(sentence) && !by_default.contains(sentence), "{said}");
    }
}

/// An earlier version took a mirrored image of Kubeflow's operator for this operator's: the hook failed with Kubeflow's
/// "unknown command".
#[test]
#[ignore = "needs helm: make test"]
fn kubeflows_image_is_replaced_by_this_operators_and_the_notes_name_both() {
    let version = env!("CARGO_PKG_VERSION");
    for [value, given, taken] in yaml::<Vec<[String; 3]>>(&data("chart/images.yaml")) {
        let taken = format!("{taken}:{version}");
        let (objects, said) = with_notes("image", &["--set", &value]);
        assert_eq!(images(&objects), [taken.as_str(); 3], "{value}");
        let sentence = format!("The image is {taken}, since image.* names Kubeflow's operator: {given}.\n");
        assert!(said.contains(&sentence), "{value}: {said}");
    }
    let digest = format!("sha256:{}", "0a".repeat(32));
    let (set, exact) =
        (format!("image.tag=dev,image.digest={digest}"), format!("localhost/spark-operator:dev@{digest}"));
    for (value, taken) in [
        ("image.registry=mirror:5000,image.tag=dev", "mirror:5000/spark-operator:dev"),
        ("image.registry=,image.tag=x", "spark-operator:x"),
        (set.as_str(), exact.as_str()),
        ("image.repository=notkubeflow/spark-operator,image.tag=2", "localhost/notkubeflow/spark-operator:2"),
    ] {
        let (objects, said) = with_notes("image", &["--set-string", value]);
        assert_eq!(images(&objects), [taken; 3], "{value}");
        assert!(said.contains(&format!("The image is {taken}.\n")), "{value}: {said}");
    }
}

/// Returns the images of the two Deployments and of the hook.
fn images(objects: &[Value]) -> Vec<String> {
    let workloads = objects.iter().filter(|object| object["spec"]["template"].is_object());
    let images = workloads.map(|object| &object["spec"]["template"]["spec"]["containers"][0]["image"]);
    images.map(|image| image.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn controller_and_webhook_work_as_separate_processes_of_the_chart() {
    let namespace = Namespace::new("charted").await;
    let _gone = no_other_installation();
    let _release = Release::begin(RELEASE_APART, CHART, &["--set", "spark.jobNamespaces={charted}"]);
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let name = "apart-spark-operator-webhook";
        let configuration = calls::get(&webhooks(kind, name)).expect(kind);
        let path = &configuration["webhooks"][0]["clientConfig"]["service"]["path"];
        call_locally(kind, name, WEBHOOK_PORT, path.as_str().unwrap());
    }
    // No node runs the pods of the Deployments: the test starts their programs.
    let deployments = deployments(RELEASE_APART);
    let half = |name: &'static str| {
        let deployment = deployments.iter().find(|deployment| deployment["metadata"]["name"] == name);
        program(deployment.expect(name), &namespace, name)
    };
    let webhook = half("apart-spark-operator-webhook").start().await;
    let controller = half("apart-spark-operator-controller").beside().start().await;

    let mut pi: Value = yaml(Path::new("manifests/examples/spark-pi.yaml"));
    pi["metadata"]["namespace"] = json!(namespace.name);
    pi["spec"]["driver"]["serviceAccount"] = json!("apart-spark-operator-spark");
    pi["spec"]["driver"]["priorityClassName"] = json!(null);
    pi["spec"]["driver"]["env"] = json!([{"name": "WHO", "value": "the webhook"}]);
    namespace.apply(&pi);
    namespace.reaches("spark-pi", "SUBMITTED").await;
    let driver = namespace.pod("spark-pi-driver").await.unwrap();
    let env = driver["spec"]["containers"][0]["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "WHO", "value": "the webhook"})), "{env:?}");

    let said = webhook.log();
    assert!(!said.contains("webhook configuration differs from what the flags require"), "{said}");
    assert!(said.contains("spark-pi-driver") && !said.contains("state changed"), "{said}");
    let said = controller.has_logged("state changed").await;
    assert!(!said.contains("condition=\"certificates\""), "{said}");
    let (status, conditions) = webhook.get(HEALTH, "/readyz").await.unwrap();
    assert!(status == 200 && !conditions.contains("caches"), "{conditions}");
}
