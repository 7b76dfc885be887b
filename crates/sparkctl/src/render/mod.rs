//! `sparkctl render`: shows offline, from the manifest alone, which objects are created and which command is run for an
//! application, and of which objects a server of Spark Connect consists.

mod command;
mod difference;
mod listing;
mod predicted;

use super::{
    manifest::{self, Found, Looks, Manifest, Subject},
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
What the operator creates itself (native submission) is printed as YAML, in the order in which it is created, \
the driver's pod last. What spark-submit does is printed as the objects that it creates, the driver's pod \
first; before them, in comments, stand the pod in which the operator has it run (the submission pod), and what runs \
there, as a script that also writes the files. To run it by hand, where SPARK_HOME/bin is on the PATH and the API \
server is called as --master says:

  sparkctl render app.yaml --submitter spark-submit | sed -n 's/^#[$] //p' > submit.sh

A manifest knows no uid: ownerReferences that need one are left out, and names that follow from it are others in \
the cluster. With its uid (`kubectl get sparkapp NAME -o yaml | sparkctl render -`) they are those of the \
application's next run. Times are those of 1970, so that the same manifest gives the same text. What the operator's \
own surroundings and flags add (spark-defaults.conf, files in SPARK_CONF_DIR, SPARK_USER; the web UI's Service and \
Ingress, and the path under which it is seen) is not known here. An application that names a batch scheduler is taken to be \
handed over to it, unless --enable-batch-scheduler=false is given; Kubernetes' own gangs are those of 1.37.

Of a schedule, an application that it makes is rendered. Of a SparkConnect, the objects beside the server and then the \
server's pod, with pods of its namespace as clients where it says nothing else; flags about submission do not concern it. \
Other objects are passed over.

Exit code: 0, also where --diff finds differences; 1 if any application cannot be submitted, and then nothing \
is printed but why.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct Flags {
    #[command(flatten)]
    manifest: Manifest,

    /// Who submits: auto, native or spark-submit [default: whom the application's annotation
    /// sparkoperator.k8s.io/submitter names, else auto]
    #[arg(long, value_name = "SUBMITTER")]
    submitter: Option<Submitter>,

    /// Show instead how that which spark-submit creates differs from what the operator creates itself
    #[arg(long, conflicts_with = "submitter")]
    diff: bool,

    /// Whether the operator has its webhook; without it, executors are customized by their pod template
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    webhook: bool,

    /// Whether the operator hands applications over to the batch scheduler that they name
    #[cfg(feature = "batch-schedulers")]
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_batch_scheduler: bool,

    /// The service account of drivers whose applications name none, as the operator has it
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,

    /// The API server as Spark is to reach it
    #[arg(long, default_value = MASTER)]
    master: String,
}

/// The time at which applications are taken to be submitted. The output is compared with other output, so it must not
/// depend on the present time.
const TIME: Timestamp = Timestamp::UNIX_EPOCH;
/// The API server as Spark reaches it where nothing else is said.
const MASTER: &str = "k8s://https://kubernetes.default.svc:443";
/// The user name that drivers run as if no other is configured: that of the public Spark images.
const OPERATOR: &str = "spark";

/// Prints what is created and run for each application in the file. `namespace` is the namespace of applications that
/// name none.
pub(super) fn render(flags: &Flags, namespace: Option<&str>) -> anyhow::Result<()> {
    let found = manifest::of_file(flags.manifest.file(), namespace, Looks::AtWhatRuns)?.into_iter();
    let texts = manifest::all(found.map(|found| {
        let found = found?;
        found.check()?;
        flags.rendered(&found)
    }))?;
    print(&texts.join("\n"))
}

/// Returns what is created and run for an application of the cluster in its next run, by an operator without settings.
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
        // As the operator sees it first, but for a suspension.
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
        // As in `choose`, spark-submit is given the application as the batch scheduler wants it. The run remains that of
        // the application as it is written: the spec with the marks of the group has another hash.
        let policy = self.policy(application);
        let environment = submission_environment(application, &policy);
        let coming = ComingRun {
            submission_id: run.id.as_str(),
            served: &environment.served,
            defaults: &environment.defaults,
        };
        let prepared = policy.prepared(application, &coming).map_err(refused)?;
        let application = validate(&prepared.application).map_err(|refusal| refused(refusal.brief()))?;
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
    /// application's annotation asks for, or that is chosen automatically.
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

    /// Returns the batch scheduler that `application` names.
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

/// Returns the environment of a submission in a cluster that serves what `application` prefers.
fn submission_environment(application: &SparkApplication, policy: &Policy) -> SubmissionEnvironment {
    let extensions = policy.extensions.iter();
    let preferred = extensions.filter_map(|extension| extension.alternatives(application).into_iter().next());
    let environment = Environment { os_user: OPERATOR.to_owned(), ..Environment::default() };
    SubmissionEnvironment { environment, served: preferred.collect(), ..SubmissionEnvironment::default() }
}
