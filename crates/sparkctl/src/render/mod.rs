//! `sparkctl render`: shows offline, from the manifest alone, which objects are created and which command is run for an
//! application, and of which objects a server of Spark Connect consists.

mod command;
mod difference;
mod listing;
mod predicted;

use super::{
    manifest::{self, Checks, Found, Manifest, Subject},
    show::print,
};
use anyhow::{anyhow, bail};
use api::{SparkApplication, SparkConnect, names::annotation};
#[cfg(feature = "batch-schedulers")]
use batch_schedulers::BatchSchedulers;
use clap::{ArgAction, Args, FromArgMatches};
use connect::{Action, Observed};
use jiff::Timestamp;
use plan::{
    By, Policy, SubmitRequest,
    extension::{ComingRun, Extensions},
    submission_plan::{Chosen, Submitter, choose},
};
pub use predicted::predicted;
use serde_json::Value;
use spark_client::{Environment, NotNative, Objects};
use submission::{Settings, SubmissionEnvironment, run::Run, spark_submit};
use validation::validate;

/// The text of --help below the flags.
const HELP: &str = "\
Objects that the operator creates itself (native submission) are printed as YAML, in the order of creation, \
the driver's pod last. For spark-submit, the objects that it creates are printed, the driver's pod first; before \
them, in comments, the pod in which the operator runs spark-submit (the submission pod), and a script that \
writes the files and runs spark-submit. To run it by hand, where SPARK_HOME/bin is on the PATH and --master is the URL \
of the API server:

  sparkctl render app.yaml --submitter spark-submit | sed -n 's/^#[$] //p' > submit.sh

A manifest has no uid: ownerReferences that need one are left out, and names that are derived from it differ in \
the cluster. With its uid (`kubectl get sparkapp NAME -o yaml | sparkctl render -`) both are those of the \
application's next run. Times are those of 1970, so that the same manifest gives the same text. What the operator's \
own environment and flags add (spark-defaults.conf, files in SPARK_CONF_DIR, SPARK_USER; the web UI's Service and \
Ingress, and the path in its URL) is not known here. An application that names a batch scheduler is rendered for \
that scheduler, unless --enable-batch-scheduler=false is given; Kubernetes' own gang scheduling is that of 1.37.

Of a schedule, an application that it creates is rendered. Of a SparkConnect, the objects beside the server are printed, and then \
the server's pod; unless its spec says otherwise, its clients are pods of its namespace. Flags about submission do not concern \
it. Other objects are skipped.

Exit code: 0, also if --diff finds differences; 1 if any application cannot be submitted: then only the reason \
is printed.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct Flags {
    #[command(flatten)]
    manifest: Manifest,

    /// The submitter: auto, native or spark-submit [default: that of the application's annotation
    /// sparkoperator.k8s.io/submitter, else auto]
    #[arg(long, value_name = "SUBMITTER")]
    submitter: Option<Submitter>,

    /// Show instead how the objects of spark-submit differ from those that the operator creates itself
    #[arg(long, conflicts_with = "submitter")]
    diff: bool,

    /// Whether the operator has its webhook; without it, executors are customized by their pod template
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    webhook: bool,

    /// Whether the operator hands applications over to the batch scheduler that they name
    #[cfg(feature = "batch-schedulers")]
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_batch_scheduler: bool,

    /// The service account of drivers whose applications name none, as with the operator's flag
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,

    /// The URL by which Spark reaches the API server
    #[arg(long, default_value = MASTER)]
    master: String,
}

/// The time at which applications are taken to be submitted. The output is compared with other output, so it must not
/// depend on the present time.
const TIME: Timestamp = Timestamp::UNIX_EPOCH;
/// The default URL by which Spark reaches the API server: the one inside the cluster.
const MASTER: &str = "k8s://https://kubernetes.default.svc:443";
/// The SPARK_USER of drivers if no other user is configured: the user of the public Spark images, as in the operator.
const OS_USER: &str = "spark";

/// Prints what is created and run for each application in the file. `namespace` is the namespace of applications that
/// name none.
pub(super) fn render(flags: &Flags, namespace: Option<&str>) -> anyhow::Result<()> {
    let found = manifest::of_file(flags.manifest.file(), namespace, Checks::AsStored)?.into_iter();
    let texts = manifest::all(found.map(|found| {
        let found = found?;
        found.check()?;
        flags.rendered(&found)
    }))?;
    print(&texts.join("\n"))
}

/// Returns what is created and run for an application of the cluster in its next run, by an operator with default
/// settings.
///
/// # Errors
///
/// When the application cannot be read or submitted.
pub(super) fn of_object(application: &Value) -> anyhow::Result<String> {
    let line = Flags::augment_args(clap::Command::new("render")).try_get_matches_from(["render", "-"])?;
    Flags::from_arg_matches(&line)?.rendered(&manifest::of_object(application)?)
}

impl Flags {
    fn rendered(&self, found: &Found) -> anyhow::Result<String> {
        match &found.subject {
            Subject::Application(application) => self.of_application(found, application),
            Subject::Connect(connect) => self.of_connect(found, connect),
        }
    }

    fn of_connect(&self, found: &Found, connect: &SparkConnect) -> anyhow::Result<String> {
        if self.diff {
            bail!("{} cannot be compared: spark-submit creates no servers", found.title);
        }
        let notes: &[&str] = match connect.needs_gateway() {
            true => &["with a gateway, the Service has no selector, and two EndpointSlices instead"],
            false => &[],
        };
        // Rendered as a new SparkConnect that is not suspended.
        let mut new = connect.clone();
        (new.status, new.metadata.deletion_timestamp, new.spec.suspend) = (None, None, false);
        let policy = connect::Policy {
            default_service_account: self.default_service_account.clone(),
            ..connect::Policy::new(&self.master)
        };
        let plan = connect::next(&new, &Observed::default(), TIME, &policy);
        let pods = plan.actions.iter().filter_map(|action| match action {
            Action::CreateServer(pod) => Some(&**pod),
            Action::DeleteServer { .. } | Action::Delete { .. } | Action::DeleteConnect => None,
        });
        listing::created(found, ", and mends it", notes, &plan.wanted.iter().chain(pods).collect::<Vec<_>>())
    }

    fn of_application(&self, found: &Found, application: &SparkApplication) -> anyhow::Result<String> {
        let refused = |why: String| {
            let what = if self.diff { "compared" } else { "submitted" };
            anyhow!("{} cannot be {what}: {why}", found.title)
        };
        let submitter = if self.diff { Some(Submitter::Native) } else { self.submitter };
        let Chosen { request: SubmitRequest { run, by, copies }, events } =
            self.chosen(application, submitter).map_err(refused)?;
        let notes: Vec<_> = events.iter().map(|event| event.note.as_str()).collect();
        // As in `choose`, spark-submit gets the application with the changes for the batch scheduler. The run is that
        // of the application as it is written, because these changes give the spec another hash.
        let policy = self.policy(application);
        let environment = submission_environment(application, &policy);
        let coming = ComingRun {
            submission_id: run.id.as_str(),
            served: &environment.served,
            defaults: &environment.defaults,
        };
        let prepared = policy.prepared(application, &coming).map_err(refused)?;
        let application = &validate(&prepared.application).map_err(|refusal| refused(refusal.brief()))?;
        let before: Vec<_> = prepared.objects.iter().cloned().chain(copies.iter()).collect();
        let prediction = || predicted(application, &run, &policy, &environment, TIME);
        match by {
            By::Native(ours) if self.diff => {
                let theirs = prediction().map_err(|why| refused(why.to_string()))?;
                difference::difference(found, &notes, &prepared.objects, &theirs, &ours)
            }
            By::Native(mut objects) => {
                objects.children.extend(copies.iter());
                let objects: Vec<_> = objects.children.iter().chain([&objects.pod]).collect();
                listing::created(found, " itself, without spark-submit", &notes, &objects)
            }
            By::Pod { objects: Objects { pod, .. }, .. } => {
                let command = spark_submit(application, &run, &policy.submission, "");
                let command = command.map_err(|refusal| refused(refusal.brief()))?;
                let script = command::script(found, &command)?;
                match prediction() {
                    Err(why @ NotNative::Refused { .. }) => bail!(refused(why.to_string())),
                    objects => listing::spark_submit(found, &notes, &script, &before, &pod, objects.as_ref()),
                }
            }
        }
    }

    /// Returns how the application is submitted by `submitter`; without `submitter`, by the submitter that the
    /// application's annotation names, or that is chosen automatically.
    fn chosen(&self, application: &SparkApplication, submitter: Option<Submitter>) -> Result<Chosen, String> {
        let mut application = application.clone();
        let mut policy = self.policy(&application);
        if let Some(submitter) = submitter {
            policy.submitter = submitter;
            application.metadata.annotations.get_or_insert_default().remove(annotation::SUBMITTER);
        }
        let environment = submission_environment(&application, &policy);
        choose(&application, &Run::next(&application), &environment, &policy, TIME)
    }

    /// Returns the policy of an operator whose extensions are turned on as far as `application` needs them.
    fn policy(&self, application: &SparkApplication) -> Policy {
        Policy {
            submission: Settings { has_webhook: self.webhook, ..Settings::new(&self.master) },
            default_service_account: self.default_service_account.clone(),
            extensions: self.extensions(application),
            ..Policy::new(&self.master)
        }
    }

    /// Returns the batch scheduler that `application` names, if it is enabled.
    #[cfg(feature = "batch-schedulers")]
    fn extensions(&self, application: &SparkApplication) -> Extensions {
        let named = application.spec.batch_scheduler.clone();
        let all = BatchSchedulers::new(named.into_iter().collect(), true, None);
        all.ok().filter(|_| self.enable_batch_scheduler).map(plan::extension::only).unwrap_or_default()
    }

    #[cfg(not(feature = "batch-schedulers"))]
    fn extensions(&self, _: &SparkApplication) -> Extensions {
        Extensions::default()
    }
}

/// Returns the environment of a submission in a cluster that serves the kinds that the extensions prefer for
/// `application`.
fn submission_environment(application: &SparkApplication, policy: &Policy) -> SubmissionEnvironment {
    let extensions = policy.extensions.iter();
    let preferred = extensions.filter_map(|extension| extension.alternatives(application).into_iter().next());
    let environment = Environment { os_user: OS_USER.to_owned(), ..Environment::default() };
    SubmissionEnvironment { environment, served: preferred.collect(), ..SubmissionEnvironment::default() }
}
