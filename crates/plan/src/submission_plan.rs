//! Plans the submission of a run: whether the operator itself or Spark's own `spark-submit` in a submission pod submits
//! it, and with which objects. Lists the objects that the run may leave behind, which are deleted after its end.

use crate::{By, Policy, SubmitRequest, events, extension};
use api::{ObjectKey, ObjectKind, SparkApplication, annotation, conf, label};
use jiff::Timestamp;
use kube_core::ResourceExt;
use spark_client::{Line, NotNative, possible_children};
use submission::{self, SubmissionEnvironment, field_of, monitoring, native, run::Run, submission_pod};
use validation::validate;

api::words! {
    /// A choice of who submits, made by the admin or by an application. The text is its name in flags, annotations and
    /// metrics.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Submitter {
        /// The operator submits. A submission pod is used only for what only `spark-submit` can do.
        #[default]
        Auto = "auto",
        /// Only the operator submits.
        Native = "native",
        /// Only a submission pod submits.
        SparkSubmit = "spark-submit",
    }

    text => String: format!("`{text}` is no submitter: try `auto`, `native` or `spark-submit`")
}

/// Returns the submitter of `application`: the admin's choice, or with [`Submitter::Auto`] that of the application's
/// annotation.
///
/// # Errors
///
/// When the annotation names no submitter, or a submitter that the admin has excluded.
fn submitter(application: &SparkApplication, policy: &Policy) -> Result<Submitter, String> {
    let refused = |why: String| format!("metadata.annotations[{}]: {why}", annotation::SUBMITTER);
    let asked = application.annotations().get(annotation::SUBMITTER);
    let asked = asked.map(|text| text.trim().parse::<Submitter>()).transpose().map_err(refused)?;
    match (policy.submitter, asked) {
        (allowed, None | Some(Submitter::Auto)) => Ok(allowed),
        (allowed, Some(asked)) if allowed == Submitter::Auto || allowed == asked => Ok(asked),
        (allowed, Some(asked)) => Err(refused(format!(
            "`{asked}` is not allowed: the operator runs with --submitter={allowed}, and an application can only \
             choose with --submitter=auto; remove the annotation"
        ))),
    }
}

/// A planned submission, and the events about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub request: SubmitRequest,
    pub events: Vec<events::Event>,
}

/// Decides how `run` of `application` is submitted.
///
/// # Errors
///
/// When the run cannot be submitted: the reason, in words for the user.
pub fn choose(
    application: &SparkApplication,
    run: &Run,
    around: &SubmissionEnvironment,
    policy: &Policy,
    now: Timestamp,
) -> Result<Chosen, String> {
    let submitter = submitter(application, policy)?;
    let SubmissionEnvironment { served, defaults, .. } = around;
    let coming = extension::ComingRun { submission_id: run.id.as_str(), served, defaults };
    let extension::Prepared { application: prepared, objects: before, copies } =
        policy.prepared(application, &coming)?;
    // The template stays if an extension has changed the application: the change is for the executors of this spec, not
    // of an edited one.
    let is_renewable = has_partial_restart(application, defaults, policy)
        && *prepared == *policy.with_default_account(application);
    let application = &*prepared;
    let validated = &validate(application).map_err(|refusal| refusal.brief())?;
    let by_pod = |fallback| {
        let mut objects = submission_pod::objects(validated, run, &policy.submission, around)?;
        objects.children.splice(0..0, monitoring::config_map(application, run));
        Ok::<_, String>(By::Pod { objects, fallback })
    };
    let of_field = |field: &str, why: &str| format!("{}: {why}", field_of(&application.spec, "spec", field));
    let native = (submitter != Submitter::SparkSubmit)
        .then(|| submission::objects(validated, run, &policy.submission, around, now));
    let (mut by, note) = match native {
        None => (by_pod(None)?, None),
        Some(Ok((mut objects, note))) => {
            if is_renewable {
                submission::executor_template::make_renewable(&mut objects, application, run);
            }
            (By::Native(objects), note)
        }
        Some(Err(NotNative::Refused { field, why })) => return Err(of_field(&field, &why)),
        Some(Err(NotNative::Fallback { reason, field, why })) if submitter == Submitter::Auto => {
            let why = of_field(&field, &why);
            let note = format!("submitted by spark-submit in a pod, since only that can do this: {why}");
            (by_pod(Some(reason))?, Some(note))
        }
        Some(Err(NotNative::Fallback { field, why, .. })) => {
            let why = of_field(&field, &why);
            let help = "change it, or let spark-submit do it (--submitter=auto)";
            return Err(format!("{why}, which only spark-submit can do: {help}"));
        }
    };
    let (By::Native(objects) | By::Pod { objects, .. }) = &mut by;
    objects.children.splice(0..0, before);
    let notes = [note, without_webhook(application, policy), without_path(application, &by, policy)];
    let events = notes.into_iter().flatten().map(events::submission_note).collect();
    Ok(Chosen { request: SubmitRequest { run: run.clone(), by, copies }, events })
}

/// Whether edits of fields that executors get from their pod template leave the next run of `application` alone.
/// `defaults` is the text of the admin's `spark-defaults.conf`. Never with Kueue, which suspends an application after
/// such an edit anyway, and never if a StatefulSet or Deployment may create the executors, because these keep the
/// template that they were created with.
fn has_partial_restart(application: &SparkApplication, defaults: &str, policy: &Policy) -> bool {
    let annotations = application.annotations();
    let is_of_kueue = application.labels().contains_key(label::QUEUE_NAME)
        || annotations.contains_key(annotation::ELASTIC_JOB);
    let names_allocator = application.spec.spark_conf.contains_key(conf::PODS_ALLOCATOR)
        || defaults.contains(conf::PODS_ALLOCATOR);
    let is_asked =
        annotations.get(annotation::PARTIAL_RESTART).map_or(policy.partial_restart, |is| is == "true");
    is_asked && !is_of_kueue && !names_allocator
}

/// Returns a note that the links of the web UI do not work, if the path of the web UI contains Spark's application id
/// and `spark-submit` chooses this id: the path is then not known when the properties are written.
fn without_path(application: &SparkApplication, by: &By, policy: &Policy) -> Option<String> {
    let is_late = matches!(by, By::Pod { .. })
        && submission::exposure::has_id_in_ui_path(application, &policy.submission.exposure);
    is_late.then(|| {
        format!(
            "the links of the web UI lack the path of its Ingress, which contains Spark's id of the application, and \
             spark-submit generates that id: set {} in sparkConf, or leave {{{{$appId}}}} out of the path",
            conf::UI_PROXY_BASE
        )
    })
}

/// Returns a note about settings that executors do not get because no webhook customizes them; `None` if the operator
/// runs with its webhook or no setting is lost.
fn without_webhook(application: &SparkApplication, policy: &Policy) -> Option<String> {
    if policy.submission.has_webhook {
        return None;
    }
    if !Line::has_templates(&application.spec.spark_version) {
        return Some(format!(
            "executors are not customized: Spark {} has no pod templates, and the operator runs without its webhook",
            application.spec.spark_version
        ));
    }
    let lost = submission::pod_templates::overwritten(application);
    (!lost.is_empty()).then(|| {
        format!(
            "without the webhook executors are made from a pod template alone, in which Spark overwrites {}",
            lost.join(", ")
        )
    })
}

impl extension::View<'_> {
    /// Returns the objects that the operator may have created for `run` in addition to pods: those that
    /// [`objects`](submission::objects) returns in addition to the driver's pod, or the ConfigMap of the submission
    /// pod; the ConfigMap of monitoring; and what extensions have added.
    ///
    /// The objects are found by their names. The names follow from the application and the run, not from the admin's
    /// configuration, which may have changed since. (To find the objects by label, the operator would need the right to
    /// list all ConfigMaps and claims, and would have to list those of the namespace for every run that ends.) Before an
    /// object is deleted, the caller has to check its owner.
    ///
    /// The names of claims depend on all volumes of the driver. They are taken from `driver`, the pod of the run's driver.
    /// Without `driver`, the names are computed from the present submission environment: they are exact if it equals that
    /// of the submission, otherwise a best guess. Claims whose name the user has chosen are not returned: they may belong to
    /// another user.
    pub fn children(&self, run: &Run, driver: Option<&pods::PodSummary>) -> Vec<ObjectKey> {
        let ids = run.ids();
        let possible = possible_children(self.name(), &ids);
        let config_map = driver.and_then(|driver| driver.driver_config_map.as_ref());
        let is_native = config_map.map(|config_map| possible.iter().any(|child| child.name == *config_map));
        let (by_operator, by_pod) = match (is_native, submitter(self.application, self.policy)) {
            (Some(is_native), _) => (is_native, !is_native),
            (None, Ok(Submitter::Native)) => (true, false),
            (None, Ok(Submitter::SparkSubmit)) => (false, true),
            // With `auto`, either the operator or a submission pod may have submitted the run, so the objects of both are
            // possible.
            (None, Ok(Submitter::Auto) | Err(_)) => (true, true),
        };

        let monitoring = monitoring::config_map(self.application, run);
        let mut named: Vec<_> = monitoring.iter().filter_map(ObjectKey::of).collect();
        named.extend(self.of_extensions(run.id.as_str(), driver));
        if by_operator {
            let has_policy = Line::nearest(&self.application.spec.spark_version).0 >= Line::V4_2;
            let is_known = |child: &ObjectKey| has_policy || child.kind != ObjectKind::NETWORK_POLICY;
            named.extend(possible.into_iter().filter(is_known));
            let claims = match driver.filter(|_| is_native.is_some()) {
                Some(driver) => driver.claims.clone(),
                None => self.planned_claims(run).unwrap_or_default(),
            };
            let claims = claims.into_iter().filter(|claim| claim.contains(&ids.prefix));
            named.extend(claims.map(|claim| ObjectKind::PERSISTENT_VOLUME_CLAIM.named(claim)));
        }
        if by_pod {
            named.push(submission_pod::config_map(&submission_pod::name(self.application, run)));
        }
        named
    }

    /// Returns the names of the claims that are created for the driver of `run`; `None` if its submission cannot be
    /// planned.
    fn planned_claims(&self, run: &Run) -> Option<Vec<String>> {
        let SubmissionEnvironment { defaults, environment, .. } = &self.seen.submission_environment;
        let (application, settings) = (validate(self.application).ok()?, &self.policy.submission);
        let submission =
            native(&application, run, settings, defaults, environment.clone(), Timestamp::UNIX_EPOCH).ok()?;
        let children = spark_client::objects(&submission).ok()?.children;
        let claims = children.iter().filter_map(ObjectKey::of);
        let claims = claims.filter(|child| child.kind == ObjectKind::PERSISTENT_VOLUME_CLAIM);
        Some(claims.map(|child| child.name).collect())
    }
}
