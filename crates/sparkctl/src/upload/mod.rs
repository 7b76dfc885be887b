//! Uploads files of this machine into a bucket, from which the cluster reads them, before the application that names
//! them is created.

mod credentials;
mod destination;
mod file_content;
mod local;
mod store;
mod store_error;

use super::{
    manifest::{all, place_of_spec, title},
    show::complain,
};
use anyhow::{Context, bail};
use api::Identity;
use clap::{Args, ValueHint};
use destination::{Destination, public_url};
use file_content::{Content, content};
use futures::{StreamExt, stream};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use kube::{ResourceExt, api::DynamicObject};
use local::Named;
use object_store::path::Path as Key;
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    pin::pin,
    process,
};
use store::{Store, There};
use tokio::signal::ctrl_c;
use tokio_util::sync::CancellationToken;

/// The exit code that a shell reports for a program that was ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

/// How many files are read or sent at the same time.
const FILES_AT_ONCE: usize = 4;

#[derive(Debug, Args)]
#[command(next_help_heading = "Uploads")]
pub(super) struct UploadFlags {
    /// Upload the files of this machine that an application names in mainApplicationFile or deps (a path, or file://…)
    /// to this bucket: s3://BUCKET or gs://BUCKET, or with a folder s3://BUCKET/FOLDER. The keys are
    /// FOLDER/PREFIX/NAMESPACE/NAME/FILE; in the created application, the paths are replaced by the URIs of the objects
    #[arg(short, long, value_name = "URL")]
    upload_to: Option<Destination>,

    /// A folder whose files may be uploaded in addition to those in the manifest's folder; can be repeated. With --from
    /// there is no manifest, and only files of these folders are uploaded
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, requires = "upload_to")]
    upload_from: Vec<PathBuf>,

    /// A folder in the bucket
    #[arg(short = 'p', long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    upload_prefix: String,

    /// The region of a bucket of S3 [default: AWS_REGION, else the profile's, else the one that AWS reports]
    #[arg(short = 'r', long, value_name = "REGION")]
    upload_to_region: Option<String>,

    /// The URL of the store [default: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else AWS; https://storage.googleapis.com]
    #[arg(short = 'e', long, value_name = "URL")]
    upload_to_endpoint: Option<String>,

    /// Let everybody read the uploaded objects, and name them in the application by their https URLs
    #[arg(short = 'c', long, requires = "upload_to")]
    public: bool,

    /// Use URLs of the form ENDPOINT/BUCKET instead of BUCKET.ENDPOINT, as most S3-compatible stores need
    #[arg(long, requires = "upload_to")]
    s3_force_path_style: bool,

    /// Replace objects of the same key that have other content, or that you may write but not read. Objects with the
    /// same content, by the SHA-256 in their metadata, are not uploaded again
    #[arg(short = 'o', long = "override", requires = "upload_to")]
    replace: bool,
}

/// The files to be uploaded, and the bucket.
pub(super) struct Uploads {
    store: Store,
    files: Vec<Upload>,
    replace: bool,
}

/// A file to be uploaded.
struct Upload {
    /// The object and field that name the file, and the path, for messages.
    title: String,
    path: PathBuf,
    content: Content,
    key: Key,
    /// The URI that replaces the path in the application.
    uri: String,
}

/// A file that an object names, before its content is read.
struct Planned {
    title: String,
    path: PathBuf,
    uri: String,
}

/// Finds the files of this machine that `objects` name, and replaces each path in `objects` with the URI that the file
/// will have. Returns `None` if no files are named. Nothing is uploaded yet. `folder` is the folder of the manifest,
/// `None` if the objects come from the cluster. Somebody else may have written the objects, so only files in `folder`
/// and in the folders of --upload-from may be uploaded.
///
/// # Errors
///
/// Everything that prevents the upload, as far as it can be found on this machine.
pub(super) async fn prepare(
    objects: &mut [DynamicObject],
    flags: &UploadFlags,
    folder: Option<&Path>,
) -> anyhow::Result<Option<Uploads>> {
    let Some(destination) = &flags.upload_to else {
        return all(objects.iter().flat_map(refused)).map(|_: Vec<()>| None);
    };
    let named = objects.iter().enumerate().flat_map(|(at, object)| {
        files(object).into_iter().map(move |file| Ok((at, file.with_context(|| title(object))?)))
    });
    let named = all(named)?;
    if named.is_empty() {
        return Ok(None);
    }
    let store = Store::open(destination, flags).await?;
    let folders: Vec<_> =
        folder.into_iter().chain(flags.upload_from.iter().map(PathBuf::as_path)).map(resolved).collect();
    let origin = folder.map_or_else(
        || "in no folder that you have named, and the application comes from the cluster".to_owned(),
        |folder| format!("outside of the folder {} from which the application comes", folder.display()),
    );
    let outside = named
        .iter()
        .filter(|(_, file)| !folders.iter().any(|folder| resolved(&file.path).starts_with(folder)));
    let outside = outside.map(|(at, file)| -> anyhow::Result<()> {
        bail!(
            "{}: {}: {} is {origin}: give --upload-from FOLDER if it is to be uploaded",
            title(&objects[*at]),
            file.field,
            file.path.display()
        )
    });
    all(outside).map(drop::<Vec<_>>)?;
    let mut planned = BTreeMap::new();
    all(named.into_iter().map(|(at, file)| plan(&mut planned, &mut objects[at], file, &store, flags)))?;
    let looked_at = stream::iter(planned).map(async |(key, Planned { title, path, uri })| {
        let content = content(path.clone()).await.with_context(|| title.clone())?;
        let key = Key::parse(&key).with_context(|| title.clone())?;
        anyhow::Ok(Upload { title, path, content, key, uri })
    });
    let files = all(looked_at.buffered(FILES_AT_ONCE).collect::<Vec<_>>().await.into_iter())?;
    Ok(Some(Uploads { store, files, replace: flags.replace }))
}

/// Writes the URI that `file` will have into `object`, and adds the file to `planned`, under its key.
fn plan(
    planned: &mut BTreeMap<String, Planned>,
    object: &mut DynamicObject,
    file: Named,
    store: &Store,
    flags: &UploadFlags,
) -> anyhow::Result<()> {
    let Named { field, pointer, path, fragment } = file;
    let title = format!("{}: {field}: {}", title(object), path.display());
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        bail!("{title}: has no name that an object can have");
    };
    let namespace = object.own_namespace();
    let key = store.destination.key(&flags.upload_prefix, namespace, &object.name_any(), name);
    let uri = if flags.public { public_url(&store.url, &key) } else { store.destination.uri(&key) };
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    let (_, pointer_of_spec) = place_of_spec(object);
    if let Some(entry) = object.data.pointer_mut(&format!("{pointer_of_spec}{pointer}")) {
        *entry = json!(format!("{uri}{fragment}"));
    }
    match planned.get(&key) {
        Some(other) if resolved(&other.path) != resolved(&path) => {
            bail!("{title}: would become the same object as {}: rename one of them", other.title)
        }
        Some(_) => {}
        None => drop(planned.insert(key, Planned { title, path, uri })),
    }
    Ok(())
}

/// Returns the mistakes in an object that is created without --upload-to: files of this machine, unless spark-submit
/// uploads them itself.
fn refused(object: &DynamicObject) -> Vec<anyhow::Result<()>> {
    let (_, pointer) = place_of_spec(object);
    if object.data.pointer(pointer).is_some_and(local::are_uploaded_by_spark_submit) {
        return Vec::new();
    }
    let refused = files(object).into_iter().map(|file| {
        let Named { field, path, .. } = file.with_context(|| title(object))?;
        bail!(
            "{}: {field}: {} is a file of this machine: give --upload-to s3://BUCKET or gs://BUCKET, or write `local://` and its path in \
             the image",
            title(object),
            path.display(),
        )
    });
    refused.collect()
}

fn files(object: &DynamicObject) -> Vec<anyhow::Result<Named>> {
    let (name, pointer) = place_of_spec(object);
    let found = object.data.pointer(pointer).map(|spec| local::files(spec, name)).unwrap_or_default();
    found.into_iter().map(|file| file.map_err(anyhow::Error::msg)).collect()
}

/// Returns the path without symbolic links, or an absolute path if there is no such file.
fn resolved(path: &Path) -> PathBuf {
    let absolute = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    fs::canonicalize(path).unwrap_or_else(|_| absolute())
}

impl Uploads {
    /// Uploads the files that are not in the bucket yet. If an upload fails, every object is as it was before, or has
    /// the whole content of a file.
    ///
    /// # Errors
    ///
    /// For every file that cannot be uploaded, or would replace another file.
    pub(super) async fn carry_out(self) -> anyhow::Result<()> {
        let looked_up = stream::iter(&self.files).map(async |file| {
            let there = match self.store.there(&file.key, &file.path, &file.content).await {
                // Credentials that only allow writing cannot read the object. With --override the object is treated as
                // having other content: if only the right to read is missing, the upload works.
                Err(_) if self.replace => There::Other,
                there => there.with_context(|| file.title.clone())?,
            };
            if there == There::Other && !self.replace {
                bail!(
                    "{}: {}/{} has other content: give --override to replace it, or --upload-prefix for another place",
                    file.title,
                    self.store.destination,
                    file.key
                );
            }
            Ok((file, there))
        });
        // All objects are looked up before any file is sent, so that a file that cannot be uploaded is reported before
        // data is sent.
        let looked_up = all(looked_up.buffered(FILES_AT_ONCE).collect::<Vec<_>>().await.into_iter())?;
        let (there, missing): (Vec<_>, Vec<_>) =
            looked_up.into_iter().partition(|(_, there)| *there == There::Same);
        for (file, _) in there {
            complain(&format!("{}: is at {} already, and not uploaded again", file.title, file.uri));
        }
        let bars = MultiProgress::new();
        let style = ProgressStyle::with_template(
            "{msg:24!} {wide_bar} {bytes:>10} / {total_bytes:>10} {bytes_per_sec:>12}",
        )?;
        let interrupted = CancellationToken::new();
        let sending = stream::iter(missing).map(async |(file, _)| {
            let bar = bars.add(ProgressBar::new(file.content.size).with_style(style.clone()));
            bar.set_message(file.key.filename().unwrap_or_default().to_owned());
            let sent = self.store.put(&file.key, &file.path, &file.content, &bar, &interrupted).await;
            bar.finish_and_clear();
            sent.with_context(|| file.title.clone())?;
            bars.suspend(|| complain(&format!("{}: uploaded to {}", file.title, file.uri)));
            Ok(())
        });
        let mut sending = pin!(sending.buffer_unordered(FILES_AT_ONCE).collect::<Vec<_>>());
        loop {
            tokio::select! {
                sent = &mut sending => {
                    all(sent.into_iter())?;
                    break;
                }
                // After a first Ctrl-C the unfinished uploads are aborted in the store; a second Ctrl-C ends the
                // command without waiting for that.
                _ = ctrl_c() => {
                    if interrupted.is_cancelled() {
                        bail!("interrupted");
                    }
                    interrupted.cancel();
                }
            }
        }
        if interrupted.is_cancelled() {
            bail!("interrupted: nothing was created, and what is uploaded by now stays");
        }
        // After tokio has listened for Ctrl-C, the signal does not end the process any more, so the process has to exit
        // by itself.
        tokio::spawn(async {
            ctrl_c().await.ok();
            process::exit(INTERRUPTED);
        });
        Ok(())
    }
}
