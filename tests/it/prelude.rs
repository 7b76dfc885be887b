//! The names that most files of these tests use.

pub(crate) use crate::{
    background::Background,
    finally::Finally,
    golden::{Golden, cases, data, documents, entries, files_below, lacks, yaml},
    program::{self, EndedOnDrop, empty_folder, free_port, run, sparkctl_program},
};
pub(crate) use api::{
    Role, ScheduledSparkApplication, SparkApplication, SparkConnect,
    names::{annotation, label},
};
pub(crate) use axum::{
    Json, Router,
    body::Bytes,
    http::{Method, StatusCode},
};
pub(crate) use futures::{StreamExt, stream};
pub(crate) use jiff::{SignedDuration, Timestamp};
pub(crate) use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{ConfigMap, Pod, ResourceQuota, Secret, Service},
        networking::v1::Ingress,
    },
};
pub(crate) use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
pub(crate) use plan::Policy;
pub(crate) use pods::PodSummary;
pub(crate) use serde::Deserialize;
pub(crate) use serde_json::{Map, Value, json};
pub(crate) use spark_client::Objects;
pub(crate) use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    env, fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    pin::pin,
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
pub(crate) use submission::{SubmissionEnvironment, run::Run};
pub(crate) use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
pub(crate) use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
pub(crate) use validation::validate;
