//! The names that most files of these tests use.

pub(crate) use crate::{
    golden::{Golden, cases, data, yaml},
    program::sparkctl_program,
};
pub(crate) use api::{
    ScheduledSparkApplication, SparkApplication,
    names::{annotation, label},
};
pub(crate) use futures::StreamExt;
pub(crate) use jiff::{SignedDuration, Timestamp};
pub(crate) use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
pub(crate) use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
pub(crate) use serde_json::{Map, Value, json};
pub(crate) use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
pub(crate) use tokio::time::{sleep, timeout};
