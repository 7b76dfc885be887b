//! Names of batch schedulers, and the labels and annotations by which they find the pods of an application.

/// Volcano's name in `spec.batchScheduler`, and the name of its scheduler.
pub const VOLCANO: &str = "volcano";
/// YuniKorn's name in `spec.batchScheduler`, and the name of its scheduler.
pub const YUNIKORN: &str = "yunikorn";

/// The name in `spec.batchScheduler` of Kubernetes' own gang scheduling, by the cluster's default scheduler.
pub const KUBERNETES: &str = "kubernetes";

/// The prefix, after `spark.kubernetes.`, of the settings that Spark reads in images that were built with Volcano.
pub const VOLCANO_SETTINGS: &str = "scheduler.volcano.";

/// The API version of Volcano's PodGroups.
pub const VOLCANO_API: &str = "scheduling.volcano.sh/v1beta1";
/// The API version of the PodGroups of scheduler-plugins.
pub const COSCHEDULING_API: &str = "scheduling.x-k8s.io/v1alpha1";
/// The API version of Kubernetes' PodGroups and Workloads since 1.37.
pub const KUBERNETES_BETA_API: &str = "scheduling.k8s.io/v1beta1";
/// The API version of Kubernetes' PodGroups and Workloads in 1.36.
pub const KUBERNETES_ALPHA_API: &str = "scheduling.k8s.io/v1alpha2";
/// The scheduling gate of executors for which a placeholder pod reserves room.
pub const GATE: &str = "sparkoperator.k8s.io/gang";

/// Annotation of pods: the name of their Volcano PodGroup.
pub const VOLCANO_GROUP: &str = "scheduling.k8s.io/group-name";
/// Label of pods: the name of their PodGroup of the coscheduling plugin of scheduler-plugins.
pub const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io/pod-group";
/// Annotation of pods: the name of their YuniKorn task group.
pub const YUNIKORN_TASK_GROUP: &str = "yunikorn.apache.org/task-group-name";
/// Annotation of the driver: YuniKorn's task groups, as a JSON array.
pub const YUNIKORN_TASK_GROUPS: &str = "yunikorn.apache.org/task-groups";
/// Label of pods: the YuniKorn queue of their application.
pub const YUNIKORN_QUEUE: &str = "queue";
