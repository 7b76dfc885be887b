//! Plays a batch scheduler: binds the pods of a group to a node once the whole group fits. It reads only those fields
//! of pods and groups that Volcano, YuniKorn and the coscheduling plugin read.

use crate::apiserver::prelude::*;
use api::quantity;

/// The fields from which the scheduler learns the group of a pod and the size of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// An annotation with the name of a PodGroup of Volcano.
    Volcano,
    /// A label with the name of a PodGroup of scheduler-plugins.
    Coscheduling,
    /// The pods of one Spark application, whose first pod has the task groups in an annotation.
    YuniKorn,
}

pub(super) struct GroupScheduler<'a> {
    namespace: &'a Namespace,
    /// The `schedulerName` of the pods that it binds.
    name: &'static str,
    reads: Reads,
    /// The CPU of the cluster, in thousandths of a core.
    room: i128,
    /// The CPU of each admitted group, in thousandths of a core.
    admitted: BTreeMap<String, i128>,
}

/// The requirements of a group, which must be met before any of its pods is bound.
struct Requirements {
    members: usize,
    cpu: i128,
}

impl<'a> GroupScheduler<'a> {
    /// Returns a scheduler of a cluster with `cores` cores.
    pub(super) fn new(namespace: &'a Namespace, name: &'static str, reads: Reads, cores: i128) -> Self {
        Self { namespace, name, reads, room: cores * 1000, admitted: BTreeMap::new() }
    }

    /// Admits the groups that fit by now, and binds the pods of all admitted groups.
    pub(super) async fn schedule(&mut self) {
        let mut pods = self.namespace.list::<Pod>().await;
        pods.retain(|pod| pod["spec"]["schedulerName"] == self.name && !has_ended(pod));
        let mut groups = BTreeMap::<_, Vec<&Value>>::new();
        for pod in &pods {
            groups.entry(self.group(pod)).or_default().push(pod);
        }
        self.admitted.retain(|group, _| groups.contains_key(group));
        for (group, pods) in &groups {
            if !self.admitted.contains_key(group) {
                let Some(Requirements { members, cpu }) = self.requirements(group, pods).await else {
                    continue;
                };
                if pods.len() < members || self.admitted.values().sum::<i128>() + cpu > self.room {
                    continue;
                }
                self.admitted.insert(group.clone(), cpu);
                self.tell(group).await;
            }
            let waiting = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_null());
            stream::iter(waiting).for_each(|pod| bind(self.namespace, pod, "node")).await;
        }
    }

    /// Returns the name of the pod's group.
    fn group(&self, pod: &Value) -> String {
        let metadata = &pod["metadata"];
        let name = match self.reads {
            Reads::Volcano => &metadata["annotations"]["scheduling.k8s.io/group-name"],
            Reads::Coscheduling => &metadata["labels"]["scheduling.x-k8s.io/pod-group"],
            Reads::YuniKorn => &metadata["labels"]["spark-app-selector"],
        };
        name.as_str().unwrap_or_else(|| panic!("{} is in no group: {metadata}", metadata["name"])).to_owned()
    }

    /// Returns the requirements of a group; `None` while neither a PodGroup nor a pod states them.
    async fn requirements(&self, group: &str, pods: &[&Value]) -> Option<Requirements> {
        let cpu = |resources: &Value| quantity::amount(resources["cpu"].as_str().unwrap()).unwrap();
        let Some(kind) = self.groups() else {
            let said = |pod: &&Value| {
                let text = pod["metadata"]["annotations"]["yunikorn.apache.org/task-groups"].as_str()?;
                Some(serde_json::from_str::<Vec<Value>>(text).unwrap())
            };
            let task_groups = pods.iter().find_map(said)?;
            let names =
                |pod: &&Value| pod["metadata"]["annotations"]["yunikorn.apache.org/task-group-name"].clone();
            assert!(pods.iter().map(names).all(|name| task_groups.iter().any(|group| group["name"] == name)));
            let of =
                |group: &Value| cpu(&group["minResource"]) * i128::from(group["minMember"].as_u64().unwrap());
            return Some(Requirements { members: 1, cpu: task_groups.iter().map(of).sum() });
        };
        let found = calls::get(&format!("{}/{group}", super::path(self.namespace, kind)))?;
        let spec = &found["spec"];
        let members = usize::try_from(spec["minMember"].as_u64()?).unwrap();
        Some(Requirements { members, cpu: cpu(&spec["minResources"]) })
    }

    /// Sets the phase in the PodGroup's status to Running.
    async fn tell(&self, group: &str) {
        if let Some(kind) = self.groups() {
            let group = format!("{}/{group}/status", super::path(self.namespace, kind));
            calls::merge(&group, &json!({"status": {"phase": "Running"}}));
        }
    }

    /// Returns the kind of the PodGroups, as kubectl takes it; `None` if annotations of the pods describe the groups.
    const fn groups(&self) -> Option<&'static str> {
        match self.reads {
            Reads::Volcano => Some(super::VOLCANO),
            Reads::Coscheduling => Some(super::COSCHEDULING),
            Reads::YuniKorn => None,
        }
    }
}

/// Binds a pod to a node.
pub(crate) async fn bind(namespace: &Namespace, pod: &Value, node: &str) {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": pod["metadata"]["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let pods = namespace.api::<Pod>();
    let _status: Value =
        pods.create_subresource("binding", name, &PostParams::default(), &binding).await.unwrap();
}

pub(crate) fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap())
}
