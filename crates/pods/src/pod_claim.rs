//! Computes the resource requests and limits of a pod, and which ResourceQuotas count the pod, by the rules of
//! Kubernetes.

use api::quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, ResourceQuotaSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use std::collections::BTreeMap;

/// Amounts in thousandths of a unit, by the name of the resource.
pub type Amounts = BTreeMap<String, i128>;

/// The keys of a quota that limit the number of pods.
const COUNTS: [&str; 2] = ["pods", "count/pods"];

/// Whether pods use the resource that `key` limits in a ResourceQuota.
pub fn is_counted(key: &str) -> bool {
    let of_containers = ["cpu", "memory", "ephemeral-storage"];
    let prefixes = ["requests.", "limits.", "hugepages-"];
    let is_prefixed = key != "requests.storage" && prefixes.iter().any(|prefix| key.starts_with(prefix));
    COUNTS.contains(&key) || of_containers.contains(&key) || is_prefixed
}

/// The resource requests and limits of a pod, and the properties that decide which ResourceQuotas count the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    requests: Amounts,
    limits: Amounts,
    has_deadline: bool,
    priority_class: String,
}

impl PodClaim {
    pub fn of(pod: Pod) -> Self {
        let spec = pod.spec.unwrap_or_default();
        Self {
            requests: Self::requests_of(&spec),
            limits: Self::limits_of(&spec),
            has_deadline: spec.active_deadline_seconds.is_some(),
            priority_class: spec.priority_class_name.unwrap_or_default(),
        }
    }

    /// Returns the resource requests of a pod with this spec, by the name of the resource.
    pub fn requests_of(spec: &PodSpec) -> Amounts {
        let mut total = of_containers(spec, requests);
        let of_pod = spec.resources.as_ref();
        total.extend(amounts(of_pod.and_then(|resources| resources.requests.as_ref())));
        // The API server takes a limit of the pod as its request only where no container has a request.
        for (name, limit) in amounts(of_pod.and_then(|resources| resources.limits.as_ref())) {
            total.entry(name).or_insert(limit);
        }
        add(&mut total, &amounts(spec.overhead.as_ref()));
        total
    }

    /// Returns the limits of a pod with this spec, by the name of the resource. If only some of its containers limit a
    /// resource, the result is the sum of their limits.
    fn limits_of(spec: &PodSpec) -> Amounts {
        let limits = |resources: &ResourceRequirements| amounts(resources.limits.as_ref());
        let mut total = of_containers(spec, limits);
        total.extend(spec.resources.as_ref().map(limits).unwrap_or_default());
        let mut overhead = amounts(spec.overhead.as_ref());
        overhead.retain(|name, _| total.contains_key(name));
        add(&mut total, &overhead);
        total
    }

    /// Returns the resource requests of the pod, by the name of the resource: the scheduler looks for a node that has
    /// these amounts available.
    pub const fn requests(&self) -> &Amounts {
        &self.requests
    }

    /// Returns how much the pod uses of the resource that `key` limits in a ResourceQuota, in thousandths of a unit.
    pub fn amount(&self, key: &str) -> i128 {
        let (amounts, name) = match (key.strip_prefix("requests."), key.strip_prefix("limits.")) {
            _ if COUNTS.contains(&key) => return 1000,
            (Some(name), _) => (&self.requests, name),
            (_, Some(name)) => (&self.limits, name),
            (None, None) => (&self.requests, key),
        };
        amounts.get(name).copied().unwrap_or(0)
    }

    /// Whether `quota` counts the pod, which is so if all scopes of the quota apply to the pod. An unknown scope counts
    /// as not applying: Kubernetes itself will check the pod when it is created.
    pub fn is_counted_by(&self, quota: &ResourceQuotaSpec) -> bool {
        let mut selected =
            quota.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
        selected.all(|scope| self.is_in(&scope.scope_name, &scope.operator, &scope.values))
            && quota.scopes.iter().flatten().all(|scope| self.is_in(scope, "Exists", &None))
    }

    fn is_in(&self, scope: &str, operator: &str, values: &Option<Vec<String>>) -> bool {
        let class = &self.priority_class;
        let is_listed = || values.iter().flatten().any(|value| value == class);
        match (scope, operator) {
            ("Terminating", _) => self.has_deadline,
            ("NotTerminating", _) => !self.has_deadline,
            // Spark's container always has requests, so the pod is never best-effort.
            ("NotBestEffort", _) => true,
            ("PriorityClass", "In") => is_listed(),
            ("PriorityClass", "NotIn") => !is_listed(),
            ("PriorityClass", "Exists") => !class.is_empty(),
            ("PriorityClass", "DoesNotExist") => class.is_empty(),
            _ => false,
        }
    }
}

/// Returns the amounts of a pod's containers, by the rules of `PodRequests` and `PodLimits` of Kubernetes'
/// component-helpers. The containers run at the same time. Init containers run one after the other before them, but an
/// init container with `restartPolicy: Always` keeps running beside all later containers. The callers replace these
/// amounts by those that the pod sets for all of its containers together (`spec.resources`), and add the overhead of
/// the pod's runtime.
fn of_containers(spec: &PodSpec, of_resources: fn(&ResourceRequirements) -> Amounts) -> Amounts {
    let of = |container: &Container| container.resources.as_ref().map(of_resources).unwrap_or_default();
    let mut together = Amounts::new();
    spec.containers.iter().for_each(|container| add(&mut together, &of(container)));
    let (mut before, mut beside) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let own = of(container);
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        if is_sidecar {
            add(&mut together, &own);
            add(&mut beside, &own);
        }
        // If this container does not name a resource, the amount of that resource stays as it was before this
        // container, and that amount is already in `before`.
        for (name, amount) in own {
            let others = beside.get(&name).copied().unwrap_or(0);
            let at_once = if is_sidecar { others } else { amount.saturating_add(others) };
            at_least(&mut before, name, at_once);
        }
    }
    for (name, amount) in before {
        at_least(&mut together, name, amount);
    }
    together
}

/// Returns the requests of a container. If only a limit is given, the API server uses the limit as the request as well.
fn requests(resources: &ResourceRequirements) -> Amounts {
    let mut requests = amounts(resources.limits.as_ref());
    requests.extend(amounts(resources.requests.as_ref()));
    requests
}

/// Returns the amounts of `quantities`. A text that is not a quantity is left out: no API server accepts such a text.
fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let amount =
        |(name, Quantity(text)): (&String, &Quantity)| Some((name.clone(), quantity::amount(text.trim())?));
    quantities.into_iter().flatten().filter_map(amount).collect()
}

fn add(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let sum = to.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn at_least(amounts: &mut Amounts, name: String, least: i128) {
    let there = amounts.entry(name).or_default();
    *there = (*there).max(least);
}
