//! Proves that the manifests match the code.

use crate::{golden, prelude::*};
use clap::Parser;
use json_patch::Patch;
use spark_operator::{
    manifests,
    settings::{Command, Flags, Settings},
};

#[test]
fn the_webhook_is_installed_under_the_names_that_the_operator_expects() {
    let settings = settings(&[]);
    let places = settings.webhook.places(&settings.installation.name);
    let service = &documents("webhook/service.yaml")[0];
    assert_eq!(service["metadata"]["name"], places.service);
    assert_eq!(service["metadata"]["namespace"], places.service_namespace);
    assert_eq!(
        service["spec"]["publishNotReadyAddresses"],
        Value::Null,
        "a replica that cannot start gets no reviews"
    );

    for (file, path) in [("webhook/pods.yaml", "/mutate"), ("webhook/applications.yaml", "/validate")] {
        let configuration = &documents(file)[0];
        assert_eq!(configuration["metadata"]["name"], places.mutating_configuration);
        assert_eq!(configuration["metadata"]["name"], places.validating_configuration);
        for webhook in configuration["webhooks"].as_array().unwrap() {
            let reference =
                json!({"name": places.service, "namespace": places.service_namespace, "path": path});
            assert_eq!(webhook["clientConfig"]["service"], reference);
            assert_eq!(webhook["failurePolicy"], "Fail");
            // The names of Kubeflow's webhooks: the path at which Kubeflow serves a webhook, and the API group.
            let (verb, resource) = (&path[1..], webhook["rules"][0]["resources"][0].as_str().unwrap());
            let name = match resource {
                "pods" => format!("{verb}--v1-pod.sparkoperator.k8s.io"),
                ours => format!(
                    "{verb}-sparkoperator-k8s-io-{}-{}.sparkoperator.k8s.io",
                    webhook["rules"][0]["apiVersions"][0].as_str().unwrap(),
                    ours.trim_end_matches('s')
                ),
            };
            assert_eq!(webhook["name"], name);
        }
    }
}

#[test]
fn cert_managers_certificate_is_for_the_service_and_goes_into_the_secret() {
    let settings = settings(&[]);
    let documents = documents("../certs/cert-manager.yaml");
    let leaf = documents.iter().find(|object| object["spec"]["dnsNames"].is_array()).unwrap();
    let places = settings.webhook.places(&settings.installation.name);
    assert_eq!(leaf["metadata"]["namespace"], places.secret_namespace);
    assert_eq!(leaf["spec"]["secretName"], places.secret);
    let name = format!("{}.{}.svc", places.service, places.service_namespace);
    assert_eq!(leaf["spec"]["dnsNames"], json!([name]));
    let issuer = &leaf["spec"]["issuerRef"]["name"];
    assert!(
        documents.iter().any(|object| object["kind"] == "Issuer" && object["metadata"]["name"] == *issuer)
    );
}

#[test]
fn the_flags_of_the_deployment_exist_and_its_ports_are_opened() {
    let deployment = &documents("deployment/operator.yaml")[0];
    let container = program(deployment);
    let arguments = texts(&container["args"]);
    assert_eq!(arguments[0], "run");
    let settings = settings(&arguments[1..]);
    let ports: Vec<_> =
        container["ports"].as_array().unwrap().iter().map(|port| &port["containerPort"]).collect();
    let opened = [
        settings.webhook.webhook_port,
        settings.health_probe_bind_address.unwrap().port(),
        settings.metrics.address().unwrap().port(),
    ];
    assert_eq!(ports, opened.map(|port| json!(port)).iter().collect::<Vec<_>>());
    assert!(deployment["spec"]["replicas"] == 2 && settings.election.leader_election);
    let links = &deployment["spec"]["template"]["spec"]["enableServiceLinks"];
    assert_eq!(links, false, "a Service of the name spark-operator-webhook would set a flag");
    // By default kube-proxy changes its rules at most once in a second.
    assert!(
        deployment["spec"]["minReadySeconds"].as_u64() > Some(1),
        "the rollout ends before nodes know the Service's pods"
    );
    let (_, lock) = settings.election.lock(&settings.installation.name, "ours").unwrap();
    assert_eq!(lock, "spark-operator-lock", "the name in the Role");
}

/// The page about certificates patches the Deployment for certificates that the operator does not make itself.
#[test]
fn the_documented_patches_fit_the_deployment() {
    let page = fs::read_to_string("docs/admin/certificates.md").unwrap();
    let patches: Vec<Patch> = page
        .split("--patch '")
        .skip(1)
        .map(|rest| serde_json::from_str(rest.split_once('\'').unwrap().0).unwrap())
        .collect();
    assert_eq!(patches.len(), 2);
    for patch in &patches {
        let mut deployment = documents("deployment/operator.yaml").remove(0);
        json_patch::patch(&mut deployment, patch).unwrap();
        let container = program(&deployment);
        let arguments = texts(&container["args"]);
        let webhook = settings(&arguments[1..]).webhook;
        let mounted = container["volumeMounts"][0]["mountPath"].as_str().map(PathBuf::from);
        assert!(webhook.enable_cert_manager != mounted.is_some(), "{arguments:?}");
        assert_eq!(webhook.webhook_cert_dir, mounted);
    }
}

/// Tenants' code runs in the tenants' own pods: the operator has no Spark, no Java and no place for files.
#[test]
fn the_deployment_has_no_spark_and_nowhere_to_write() {
    let pod = &documents("deployment/operator.yaml")[0]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
    assert_eq!(
        [&pod["volumes"], &pod["initContainers"], &container["volumeMounts"], &container["command"]],
        [&Value::Null; 4]
    );
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let variables: Vec<_> = container["env"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(variables, ["POD_NAME", "POD_NAMESPACE"]);
    assert_eq!(container["image"], "localhost/spark-operator:dev");
}

/// `spark-submit` runs under the driver's service account, and creates the objects that the driver needs.
#[test]
fn a_drivers_account_may_create_what_spark_submit_creates() {
    let rules = documents("rbac/spark.yaml").into_iter().find(|object| object["kind"] == "Role").unwrap();
    let granted = grants(&rules);
    // spark-submit creates everything except the pod by server-side apply, which needs the verbs `create` and `patch`.
    for kind in
        ["/pods", "/configmaps", "/services", "/persistentvolumeclaims", "networking.k8s.io/networkpolicies"]
    {
        let grant = granted.iter().find(|grant| grant.starts_with(&format!("{kind}:"))).expect(kind);
        assert!(["create", "patch", "delete"].iter().all(|verb| grant.contains(verb)), "{grant}");
    }
}

#[test]
fn the_binary_prints_every_object_of_the_kustomization_namespace_first() {
    let parts = documents("kustomization.yaml").remove(0);
    let files = texts(&parts["resources"]).into_iter().filter(|file| !file.starts_with("crds/"));
    let committed: Vec<Value> = files.flat_map(documents).collect();
    let mut printed = printed(&[]);
    assert_eq!(printed.len(), committed.len());
    assert_eq!(printed[0]["kind"], "Namespace");
    printed.retain(|object| !committed.contains(object));
    assert_eq!(printed, Vec::<Value>::new());
}

#[test]
fn an_installation_has_the_namespace_and_the_image_of_the_flags() {
    let objects =
        printed(&["rbac", "webhook", "deployment", "--namespace", "ours", "--image", "registry.example/x:1"]);
    let text = json!(objects).to_string();
    assert!(!text.contains(r#""namespace":"spark-operator""#), "{text}");
    let of = |kind: &str| one(&objects, kind);
    assert_eq!(of("Namespace")["metadata"]["name"], "ours");
    assert_eq!(
        of("MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"]["service"]["namespace"],
        "ours"
    );
    assert_eq!(of("ClusterRoleBinding")["subjects"][0]["namespace"], "ours");
    let deployment = of("Deployment");
    assert_eq!(deployment["metadata"]["namespace"], "ours");
    assert_eq!(program(deployment)["image"], "registry.example/x:1");
    assert!(!objects.iter().any(|object| object["kind"] == "CustomResourceDefinition"));
}

/// In an earlier version, the drivers of a team whose operator was in the team's namespace were refused, and the
/// documented way to uninstall it deleted the team's namespace.
#[test]
fn a_namespace_in_which_applications_run_is_not_the_operators() {
    let objects = printed(&["rbac", "--namespace=ours", "--namespaces=a"]);
    let labels = &one(&objects, "Namespace")["metadata"]["labels"];
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
    let objects = printed(&["rbac", "--namespace=ours", "--namespaces=a,ours"]);
    assert!(!objects.iter().any(|object| object["kind"] == "Namespace"));
}

#[test]
fn an_installation_that_enforces_quotas_may_list_them_and_has_the_flag() {
    let flag = "--enable-resource-quota-enforcement";
    let (plain, enforcing) = (printed(&[]), printed(&[flag, "--namespace=ours"]));
    let of = |objects: &[Value], kind: &str| -> Vec<Value> {
        objects.iter().filter(|object| object["kind"] == kind).cloned().collect()
    };
    let added = |kind: &str| -> Value {
        let before = of(&plain, kind);
        let is_new = |object: &&Value| !before.iter().any(|old| old["metadata"] == object["metadata"]);
        of(&enforcing, kind).iter().find(is_new).unwrap().clone()
    };
    let (quotas, binding) = (added("ClusterRole"), added("ClusterRoleBinding"));
    assert_eq!(grants(&quotas), ["/resourcequotas: list"]);
    assert_eq!(binding["roleRef"]["name"], quotas["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["namespace"], "ours");
    assert_eq!(enforcing.len(), plain.len() + 2);
    assert_eq!(program(one(&plain, "Deployment"))["args"], json!(["run"]));
    assert_eq!(program(one(&enforcing, "Deployment"))["args"], json!(["run", flag]));
    assert!(settings(&[flag]).installation.enable_resource_quota_enforcement);
}

#[test]
fn a_check_of_exposure_rights_that_only_warns_needs_its_right_too() {
    for (flag, asks, arguments) in [
        ("--check-exposure-rights", true, json!(["run"])),
        ("--check-exposure-rights=warn", true, json!(["run", "--check-exposure-rights=warn"])),
        ("--check-exposure-rights=false", false, json!(["run", "--check-exposure-rights=false"])),
    ] {
        let objects = printed(&["rbac", "deployment", flag]);
        assert_eq!(json!(objects).to_string().contains("localsubjectaccessreviews"), asks, "{flag}");
        assert_eq!(program(one(&objects, "Deployment"))["args"], arguments);
    }
}

#[test]
fn without_spark_connect_the_operator_has_no_rights_and_reviews_for_it() {
    let named = |flags: &[&str]| {
        let objects = printed(&[&["rbac", "webhook", "deployment"], flags].concat());
        let is_of_people =
            |object: &Value| object["kind"] == "ClusterRole" && object["metadata"]["labels"].is_object();
        json!(objects.iter().filter(|object| !is_of_people(object)).collect::<Vec<_>>()).to_string()
    };
    for resource in [r#""sparkconnects""#, r#""sparkconnects/status""#, r#""endpointslices""#] {
        assert!(named(&[]).contains(resource), "{resource}");
        assert!(!named(&["--enable-spark-connect=false"]).contains(resource), "{resource}");
    }
    let ports = r#""resourceNames":["team-connect-ports"]"#;
    let team = ["--installation=team", "--namespaces=a"];
    assert!(!named(&team).contains(ports));
    let with_gateway = named(&[&team[..], &["--connect-gateway"]].concat());
    assert!(with_gateway.contains(ports) && with_gateway.contains(r#""--connect-gateway""#));
    assert!(!named(&["--connect-gateway", "--enable-spark-connect=false"]).contains("connect-ports"));
}

/// With `--namespaces`, the only rights in the whole cluster are those on resources that have no namespace.
#[test]
fn rights_follow_the_named_namespaces() {
    let flags = [
        "--namespaces=b,a", "--enable-driver-pdb", "--enable-resource-quota-enforcement", "--namespace=ours",
    ];
    let objects = printed(&flags);
    let in_cluster: BTreeSet<String> = objects
        .iter()
        .filter(|object| object["kind"] == "ClusterRole" && object["metadata"]["labels"].is_null())
        .flat_map(grants)
        .collect();
    let by_name = |line: &String| {
        line.contains("[spark-operator-webhook]") || line.contains("customresourcedefinitions[")
    };
    assert!(in_cluster.len() == 3 && in_cluster.iter().all(by_name), "{in_cluster:?}");

    let rights = |objects: &[Value], kind: &str, namespace: &Value| -> BTreeSet<String> {
        let roles = objects.iter().filter(|object| {
            object["kind"] == kind
                && object["metadata"]["namespace"] == *namespace
                && object["metadata"]["name"] != "spark"
        });
        roles.flat_map(grants).collect()
    };
    let everywhere = rights(&printed(&["rbac", flags[1], flags[2]]), "ClusterRole", &Value::Null);
    for namespace in ["a", "b"] {
        let rights = rights(&objects, "Role", &json!(namespace));
        assert!(rights.is_subset(&everywhere), "{rights:?}");
        for right in ["/pods: create delete", "/resourcequotas: list", "policy/poddisruptionbudgets: create"]
        {
            assert!(rights.iter().any(|line| line.starts_with(right)), "{right}: {rights:?}");
        }
        let bindings: Vec<_> = objects
            .iter()
            .filter(|object| object["kind"] == "RoleBinding" && object["metadata"]["namespace"] == namespace)
            .map(|binding| {
                let (role, subject) = (&binding["roleRef"], &binding["subjects"][0]);
                [&role["kind"], &role["name"], &subject["namespace"]].map(|text| text.as_str().unwrap())
            })
            .collect();
        let operators = ["applications", "connects", "exposure", "driver-pdb", "quota"];
        let operators = operators.map(|part| format!("spark-operator-{part}"));
        let expected = operators.iter().map(|name| ["Role", name.as_str(), "ours"]);
        // Two accounts have the role: ours, and the one that Kubeflow's examples name.
        let spark = ["Role", "spark", namespace];
        assert_eq!(bindings, expected.chain([spark; 2]).collect::<Vec<_>>());
    }
    // With a label selector, the rights cover the whole cluster, because any namespace may get the labels later.
    let selected = printed(&["rbac", "--namespaces=a", "--namespace-selector=team=data"]);
    assert!(rights(&selected, "Role", &json!("a")).is_empty());
    assert!(rights(&selected, "ClusterRole", &Value::Null).iter().any(|line| line.starts_with("/pods:")));
}

/// Several operators can run in one cluster only if their installations have no object in common.
#[test]
fn an_installation_with_a_name_shares_no_object_with_another_one() {
    let of = |installation: &str, namespaces: &str| {
        // Both installations are in the same namespace.
        printed(&["rbac", "drivers", "webhook", "deployment", "--namespace=ours", installation, namespaces])
    };
    let (default, team) =
        (printed(&["--namespace=ours"]), of("--installation=spark-operator-x", "--namespaces=x"));
    let names: BTreeSet<_> = default.iter().map(name).collect();
    let shared: Vec<_> = team.iter().map(name).filter(|name| names.contains(name)).collect();
    assert_eq!(shared, [["Namespace", "", "ours"]]);

    // Every object that another object refers to is in the output, and the operator expects these names.
    let one = |kind: &str| one(&team, kind);
    let deployment = one("Deployment");
    let pod = &deployment["spec"]["template"];
    assert_eq!(program(deployment)["name"], "spark-operator", "the program");
    assert_eq!(pod["spec"]["serviceAccountName"], one("ServiceAccount")["metadata"]["name"]);
    assert_eq!(pod["metadata"]["labels"], deployment["spec"]["selector"]["matchLabels"]);
    assert_eq!(pod["metadata"]["labels"], one("Service")["spec"]["selector"]);
    let arguments = texts(&program(deployment)["args"]);
    assert_eq!(arguments, ["run", "--installation=spark-operator-x", "--namespaces=x"]);
    let settings = settings(&arguments[1..]);
    let places = settings.webhook.places(&settings.installation.name);
    assert_eq!(one("Service")["metadata"]["name"], places.service);
    assert_eq!(one("MutatingWebhookConfiguration")["metadata"]["name"], places.mutating_configuration);
    let service = &one("ValidatingWebhookConfiguration")["webhooks"][0]["clientConfig"]["service"];
    assert_eq!((&service["name"], &service["namespace"]), (&json!(places.service), &json!("ours")));
    let granted = json!(team).to_string();
    let (_, lock) = settings.election.lock(&settings.installation.name, "ours").unwrap();
    for named in [&places.secret, &places.mutating_configuration, &lock] {
        assert!(granted.contains(&format!(r#""resourceNames":["{named}"]"#)), "{named}: {granted}");
    }
    for (installation, complaint) in [("Team", "lower-case"), ("", "lower-case"), (&"x".repeat(48), "47")] {
        let refused =
            Flags::try_parse_from(["spark-operator", "run", &format!("--installation={installation}")]);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(complaint), "{refused}");
    }
}

/// Each namespace in `--namespaces` gets a service account for drivers with the name in `--driver-service-account`.
#[test]
fn each_namespace_of_applications_has_an_account_for_drivers() {
    let flags =
        ["drivers", "--namespaces=b,a", "--driver-service-account=spark-operator-spark", "--installation=x"];
    let objects = printed(&flags);
    let names: Vec<_> = objects.iter().map(name).collect();
    let account = "spark-operator-spark";
    let of = |namespace| ["ServiceAccount", "Role", "RoleBinding"].map(|kind| [kind, namespace, account]);
    assert_eq!(names, [of("a"), of("b")].concat());
    assert_eq!(
        objects[2]["subjects"],
        json!([{"kind": "ServiceAccount", "name": account, "namespace": "a"}])
    );
    assert_eq!(objects[2]["roleRef"]["name"], account);
    // Kubeflow's examples and SDK name the account of Kubeflow's chart, which is therefore created beside the default
    // account `spark` if the admin names no account.
    let beside = printed(&["drivers", "--namespaces=a"]).split_off(3);
    assert_eq!(beside[0]["metadata"], json!({"name": account, "namespace": "a"}));
    assert_eq!(beside[1]["roleRef"]["name"], "spark", "{beside:?}");
    assert_eq!(beside[1]["subjects"], objects[2]["subjects"]);
    // An admin who deletes these objects to remove the operator keeps the accounts, which running drivers need.
    let removed = printed(&["rbac", "webhook", "deployment", "--namespaces=a"]);
    assert!(!removed.iter().any(|object| object["metadata"]["name"] == "spark"));
}

/// The users' rights on applications are aggregated into Kubernetes' own roles `view`, `edit` and `admin`.
#[test]
fn people_with_kubernetes_own_roles_may_view_and_edit_applications() {
    let roles: Vec<_> = printed(&["rbac"])
        .into_iter()
        .filter(|object| object["kind"] == "ClusterRole" && object["metadata"]["labels"].is_object())
        .collect();
    let of = |role: &str| -> BTreeSet<String> {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{role}");
        let roles = roles.iter().filter(|object| object["metadata"]["labels"][&label] == "true");
        roles.flat_map(grants).collect()
    };
    let resources = ["sparkapplications", "scheduledsparkapplications", "sparkconnects"];
    let lines = |suffix: &str| resources.map(|resource| format!("sparkoperator.k8s.io/{resource}{suffix}"));
    let views: BTreeSet<_> =
        [lines(": get list watch"), lines("/status: get")].concat().into_iter().collect();
    assert_eq!(of("view"), views);
    let edits = lines(": create delete deletecollection patch update").into_iter().collect();
    assert_eq!(of("edit"), &views | &edits);
    assert_eq!(of("admin"), of("edit"));
}

/// The API server sends reviews only from namespaces whose applications the operator manages, and the Deployment has
/// the flags that name these namespaces.
#[test]
fn the_webhook_is_called_in_the_namespaces_that_the_operator_works_in() {
    let (named, labelled) = ("--namespaces=b,a,b", "--namespace-selector=team in (data, science),!old");
    let names = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]},
    ]});
    let labels = json!({"matchExpressions": [
        {"key": "team", "operator": "In", "values": ["data", "science"]},
        {"key": "old", "operator": "DoesNotExist"},
    ]});
    for (flags, selectors) in [
        (vec![], vec![]),
        (vec!["--namespaces=a,"], vec![]),
        (vec!["--namespaces=\"\"", "--namespace-selector="], vec![]),
        (vec!["--namespaces=\"\"", "--namespace-selector=team=data"], vec![]),
        (vec![named], vec![("", &names)]),
        (vec![labelled], vec![("", &labels)]),
        // The Deployments of Kubeflow's kustomization have the empty flag, and patches append others.
        (vec!["--namespaces=", labelled], vec![("", &labels)]),
        (vec!["--namespaces=", named], vec![("", &names)]),
        (vec![named, labelled], vec![("", &names), ("labelled.", &labels)]),
    ] {
        let objects = printed(&flags);
        let mut calls = 0;
        for file in ["webhook/pods.yaml", "webhook/applications.yaml"] {
            let committed = &documents(file)[0];
            let printed = one(&objects, committed["kind"].as_str().unwrap());
            let mut expected = committed.clone();
            if !selectors.is_empty() {
                let webhooks = expected["webhooks"].as_array_mut().unwrap();
                let each = |webhook: &Value| {
                    let one = |(prefix, selector): &(&str, &Value)| {
                        let mut one = webhook.clone();
                        one["name"] = json!(format!("{prefix}{}", webhook["name"].as_str().unwrap()));
                        one["namespaceSelector"] = (*selector).clone();
                        one
                    };
                    selectors.iter().map(one).collect::<Vec<_>>()
                };
                *webhooks = webhooks.iter().flat_map(each).collect();
            }
            assert_eq!(*printed, expected, "{flags:?}");
            calls += printed["webhooks"].as_array().unwrap().len();
        }
        assert_eq!(calls, 5 * selectors.len().max(1), "{flags:?}");

        let arguments = texts(&program(one(&objects, "Deployment"))["args"]);
        let (run, asked) = (settings(&arguments[1..]).installation, settings(&flags).installation);
        assert_eq!(run.namespaces(), asked.namespaces());
        assert_eq!(run.namespaces().selectors().len(), selectors.len(), "{flags:?}");
    }
    let labels_are_read =
        |flags: &[&str]| json!(printed(flags)).to_string().contains("spark-operator-namespaces");
    assert!(labels_are_read(&[labelled]) && !labels_are_read(&[named]));
}

#[test]
fn the_admin_sets_failure_policy_and_timeout_of_the_webhooks() {
    let objects = printed(&["webhook", "--failure-policy=Ignore", "--timeout-seconds=30", "--namespaces=a"]);
    let webhooks: Vec<_> = objects
        .iter()
        .flat_map(|object| object["webhooks"].as_array().cloned().unwrap_or_default())
        .collect();
    assert_eq!(webhooks.len(), 5);
    for webhook in webhooks {
        assert_eq!((&webhook["failurePolicy"], &webhook["timeoutSeconds"]), (&json!("Ignore"), &json!(30)));
    }
    for [flag, complaint] in yaml::<Vec<[String; 2]>>(&data("settings/manifests-refused.yaml")) {
        let refused = Flags::try_parse_from(["spark-operator", "manifests", &flag]).unwrap_err().to_string();
        assert!(refused.contains(&complaint), "{flag}: {refused}");
    }
}

/// The gateway's account has no other right than the gateway needs, and the operator's pods and Services do not select its pods.
#[test]
fn the_gateway_is_printed_only_on_demand_and_may_only_read_and_patch() {
    let without = printed(&["--namespaces=b,a"]);
    let without: BTreeSet<_> = without.iter().map(name).collect();
    let with = printed(&["--connect-gateway", "--namespaces=b,a", "--image=registry.example/x:1"]);
    let added: Vec<_> = with.iter().filter(|object| !without.contains(&name(object))).collect();
    let (role, ours) = ("spark-operator-connect-gateway", "spark-operator");
    let shown: Vec<_> = added.iter().map(|object| name(object).join(" ")).collect();
    let expected = fs::read_to_string(data("settings/gateway-objects.txt")).unwrap();
    assert_eq!(shown, expected.lines().collect::<Vec<_>>());
    for object in &added[2..4] {
        assert_eq!(grants(object), ["sparkoperator.k8s.io/sparkconnects: get list patch watch"]);
    }
    assert_eq!(added[4]["subjects"][0], json!({"kind": "ServiceAccount", "name": role, "namespace": ours}));

    let pod = &added[7]["spec"]["template"];
    assert_eq!(pod["spec"]["serviceAccountName"], role);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/x:1");
    assert_eq!(container["args"], json!(["connect-gateway", "--namespaces=a,b"]));
    // The gateway opens the ports that the operator assigns to servers.
    let of_range = printed(&["deployment", "--connect-gateway", "--connect-gateway-port-range=21000-21999"]);
    let arguments: Vec<_> =
        of_range.iter().map(|object| &object["spec"]["template"]["spec"]["containers"][0]["args"]).collect();
    assert!(arguments.contains(&&json!(["connect-gateway", "--port-range=21000-21999"])), "{arguments:?}");
    let Command::ConnectGateway(settings) =
        Flags::try_parse_from(["spark-operator", "connect-gateway"]).unwrap().command
    else {
        unreachable!("the subcommand is `connect-gateway`")
    };
    let port = settings.health_probe_bind_address.unwrap().port();
    assert_eq!(container["ports"], json!([{"name": "health", "containerPort": port}]));
    let grace = pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(settings.termination_grace.as_secs() + 3 < grace, "the last reports need some seconds");
    let operators = &documents("deployment/operator.yaml")[0]["spec"]["selector"]["matchLabels"];
    let label = "app.kubernetes.io/name";
    assert_ne!(pod["metadata"]["labels"][label], operators[label]);
}

/// Returns the output of `spark-operator manifests`, without the CRDs that come first if no part is selected: they are
/// compared in `crds`, and take a second to parse.
fn printed(arguments: &[&str]) -> Vec<Value> {
    let arguments = ["spark-operator", "manifests"].iter().chain(arguments);
    let Command::Manifests(settings) = Flags::try_parse_from(arguments).unwrap().command else {
        unreachable!("the subcommand is `manifests`")
    };
    let yaml = manifests::yaml(&settings);
    let is_whole = settings.parts.is_empty();
    let objects = if is_whole { yaml.strip_prefix(&manifests::crds()).unwrap() } else { yaml.as_str() };
    serde_saphyr::from_multiple(objects).unwrap()
}

/// `tests/data/rights.yaml` has all rights that the code uses. The operator of the tests with a real API server has
/// only those of the manifests, so those tests find missing rights. This test finds superfluous ones.
#[test]
fn the_operator_has_exactly_the_rights_that_it_uses() {
    let granted: BTreeSet<String> =
        ["operator", "applications", "connects", "connect-ports", "driver-pdb", "exposure"]
            .into_iter()
            .flat_map(|file| documents(&format!("rbac/{file}.yaml")))
            .filter(|document| matches!(document["kind"].as_str(), Some("ClusterRole" | "Role")))
            .flat_map(|role| grants(&role))
            .collect();
    let needed: BTreeSet<String> = yaml(&data("rights.yaml"));
    assert_eq!(granted, needed);
}

/// Returns the rules of a role as lines: group, resource, names, sorted verbs.
fn grants(role: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        let verbs: BTreeSet<_> = texts(&rule["verbs"]).into_iter().collect();
        let verbs = verbs.into_iter().collect::<Vec<_>>().join(" ");
        let names = texts(&rule["resourceNames"]).join(",");
        let names = if names.is_empty() { names } else { format!("[{names}]") };
        for group in texts(&rule["apiGroups"]) {
            let resources = texts(&rule["resources"]).into_iter();
            lines.extend(resources.map(|resource| format!("{group}/{resource}{names}: {verbs}")));
        }
    }
    lines
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

/// Returns kind, namespace and name of an object.
fn name(object: &Value) -> [&str; 3] {
    let metadata = &object["metadata"];
    [&object["kind"], &metadata["namespace"], &metadata["name"]].map(|text| text.as_str().unwrap_or_default())
}

/// Returns the first object of a kind.
fn one<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap()
}

fn program(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

pub(crate) fn settings(flags: &[&str]) -> Settings {
    let arguments = ["spark-operator", "run"].iter().chain(flags);
    let Command::Run(settings) = Flags::try_parse_from(arguments).unwrap().command else {
        unreachable!("the subcommand is `run`")
    };
    *settings
}

fn documents(file: &str) -> Vec<Value> {
    golden::documents(format!("manifests/{file}"))
}
